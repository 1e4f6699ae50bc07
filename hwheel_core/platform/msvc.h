/* Microsoft's compiler, for x64 and ARM64; and clang-cl, which has its intrinsics. */
#ifndef HWHEEL_MSVC_H
#define HWHEEL_MSVC_H

#include <intrin.h>
#include <stdint.h>

#define HW_MSVC_TEXT(number) #number
#define HW_MSVC_VERSION(number) HW_MSVC_TEXT(number)
#define HW_COMPILER "msvc " HW_MSVC_VERSION(_MSC_VER)

/* A fence for the processor and the compiler. On x64 that of the compiler is enough: the processor only moves a load before an
 * older store, and where that matters, the store is an exchange. */
#ifdef _M_ARM64
#define HW_FENCE() __dmb(_ARM64_BARRIER_ISH)
#else
#define HW_FENCE() _ReadWriteBarrier()
#endif

/* A hint: the address may dangle, because a prefetch never faults. */
static inline void hw_prefetch(const void *address)
{
#ifdef _M_ARM64
    __prefetch(address);
#else
    _mm_prefetch((const char *)address, _MM_HINT_T0);
#endif
}

/* Prefetch the target of a link that another thread may be writing. */
static inline void hw_prefetch_link(const void *link) { hw_prefetch(*(void *const volatile *)link); }

static inline int hw_add_overflows(int64_t a, int64_t b, int64_t *sum)
{
    *sum = (int64_t)((uint64_t)a + (uint64_t)b);
    return ((a ^ *sum) & (b ^ *sum)) < 0; /* both operands differ in sign from the sum */
}

static inline int hw_mul_overflows(int64_t a, int64_t b, int64_t *product)
{
    *product = (int64_t)((uint64_t)a * (uint64_t)b);
    return __mulh(a, b) != (*product < 0 ? -1 : 0); /* the upper half is not the sign extension */
}

/* The value must not be 0. */
static inline int hw_leading_zeros(uint64_t value)
{
    unsigned long highest = 0;
    _BitScanReverse64(&highest, value);
    return 63 - (int)highest;
}

/* The upper 64 bits of the product. */
static inline uint64_t hw_multiply_high(uint64_t a, uint64_t b) { return __umulh(a, b); }

/* Read a number once, at any alignment, from memory that another thread may be writing. */
static inline int64_t hw_read(const void *place) { return *(const volatile __unaligned int64_t *)place; }

/* Acquire and release: reads after hw_load see everything written before the hw_store whose value it returned. */
static inline uintptr_t hw_load(uintptr_t *place)
{
    uintptr_t value = *(volatile uintptr_t *)place;
    HW_FENCE();
    return value;
}

static inline void hw_store(uintptr_t *place, uintptr_t value)
{
    HW_FENCE();
    *(volatile uintptr_t *)place = value;
}

static inline int hw_flag(int *flag)
{
    int value = *(volatile int *)flag;
    HW_FENCE();
    return value;
}

static inline void hw_set_flag(int *flag)
{
    HW_FENCE();
    *(volatile int *)flag = 1;
}

/* Relaxed access to a number that is written under a lock and read without it: the read value is whole, but may be stale.
 * hw_bump requires the lock. */
static inline int hw_peek(const int *place) { return *(const volatile int *)place; }

static inline void hw_poke(int *place, int value) { *(volatile int *)place = value; }

static inline int32_t hw_peek32(const int32_t *place) { return *(const volatile int32_t *)place; }

static inline void hw_poke32(int32_t *place, int32_t value) { *(volatile int32_t *)place = value; }

static inline int64_t hw_peek64(const int64_t *place) { return *(const volatile int64_t *)place; }

static inline void hw_poke64(int64_t *place, int64_t value) { *(volatile int64_t *)place = value; }

static inline void hw_bump(int64_t *place, int64_t n) { hw_poke64(place, *place + n); }

/* Bits of a word that several threads change concurrently. */
static inline void hw_set_bits(int *place, int bits) { _InterlockedOr((volatile long *)place, bits); }

static inline void hw_clear_bits(int *place, int bits) { _InterlockedAnd((volatile long *)place, ~bits); }

#define HW_PER_THREAD __declspec(thread)

/* Sequentially consistent access. hw_atomic_add returns the sum. */
static inline int64_t hw_atomic_add(int64_t *count, int64_t n)
{
    return _InterlockedExchangeAdd64((volatile __int64 *)count, n) + n;
}

static inline int hw_atomic_take(uintptr_t *owner, uintptr_t me)
{
    return _InterlockedCompareExchange64((volatile __int64 *)owner, (__int64)me, 0) == 0;
}

static inline uintptr_t hw_atomic_load(uintptr_t *word)
{
    HW_FENCE();
    return hw_load(word);
}

static inline void hw_atomic_store(uintptr_t *word, uintptr_t value)
{
    _InterlockedExchange64((volatile __int64 *)word, (__int64)value);
}

#endif
