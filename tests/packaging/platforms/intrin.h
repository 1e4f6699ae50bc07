/* The intrinsics that platform/msvc.h uses, for gcc, so that its logic can be tested without Microsoft's compiler. */
#ifndef INTRIN_H
#define INTRIN_H

#define __int64 long long
#define __unaligned __attribute__((aligned(1), may_alias))
#define _MM_HINT_T0 3
#define _mm_prefetch(address, hint) __builtin_prefetch(address, 0, hint)
#define _ReadWriteBarrier() __asm__ volatile("" ::: "memory")

static inline unsigned char _BitScanReverse64(unsigned long *index, unsigned __int64 mask)
{
    *index = 63 - __builtin_clzll(mask);
    return mask != 0;
}

static inline __int64 __mulh(__int64 a, __int64 b) { return (__int64)((__int128)a * b >> 64); }

static inline unsigned __int64 __umulh(unsigned __int64 a, unsigned __int64 b)
{
    return (unsigned __int64)((unsigned __int128)a * b >> 64);
}

/* Each returns the old value. */
static inline __int64 _InterlockedExchangeAdd64(__int64 volatile *place, __int64 value)
{
    return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST);
}

static inline __int64 _InterlockedExchange64(__int64 volatile *place, __int64 value)
{
    return __atomic_exchange_n(place, value, __ATOMIC_SEQ_CST);
}

static inline __int64 _InterlockedCompareExchange64(__int64 volatile *place, __int64 value, __int64 expected)
{
    __atomic_compare_exchange_n(place, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

/* On Windows a long has 32 bits. */
static inline long _InterlockedOr(long volatile *place, long bits)
{
    return __atomic_fetch_or((int volatile *)place, (int)bits, __ATOMIC_SEQ_CST);
}

static inline long _InterlockedAnd(long volatile *place, long bits)
{
    return __atomic_fetch_and((int volatile *)place, (int)bits, __ATOMIC_SEQ_CST);
}

#endif
