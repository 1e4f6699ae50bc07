/* Microsoft's compiler, for x64 and ARM64; and clang-cl, which has its intrinsics. */
#ifndef HWHEEL_MSVC_H
#define HWHEEL_MSVC_H

#include <intrin.h>
#include <stdint.h>

#define HW_MSVC_TEXT(number) #number
#define HW_MSVC_VERSION(number) HW_MSVC_TEXT(number)
#define HW_COMPILER "msvc " HW_MSVC_VERSION(_MSC_VER)

/* Neither compiler nor processor moves an access across it. An x64 moves none anyway but a load before an older store, and
 * where that matters the store is an exchange. */
#ifdef _M_ARM64
#define HW_FENCE() __dmb(_ARM64_BARRIER_ISH)
#else
#define HW_FENCE() _ReadWriteBarrier()
#endif

/* A hint only: the address may dangle, the processor does not fault on it. */
static inline void hw_prefetch(const void *address)
{
#ifdef _M_ARM64
    __prefetch(address);
#else
    _mm_prefetch((const char *)address, _MM_HINT_T0);
#endif
}

/* The same for what a link leads to that another thread may be writing. */
static inline void hw_prefetch_link(const void *link) { hw_prefetch(*(void *const volatile *)link); }

static inline int hw_add_overflows(int64_t a, int64_t b, int64_t *sum)
{
    *sum = (int64_t)((uint64_t)a + (uint64_t)b);
    return ((a ^ *sum) & (b ^ *sum)) < 0; /* both have another sign than the sum */
}

static inline int hw_mul_overflows(int64_t a, int64_t b, int64_t *product)
{
    *product = (int64_t)((uint64_t)a * (uint64_t)b);
    return __mulh(a, b) != (*product < 0 ? -1 : 0); /* the upper half says more than the sign */
}

/* Of a value that is not 0. */
static inline int hw_leading_zeros(uint64_t value)
{
    unsigned long highest = 0;
    _BitScanReverse64(&highest, value);
    return 63 - (int)highest;
}

/* The upper half of the product. */
static inline uint64_t hw_multiply_high(uint64_t a, uint64_t b) { return __umulh(a, b); }

/* A number in memory that another thread may be writing to: read once and wherever it lies, so that what was checked is
 * what is used. */
static inline int64_t hw_read(const void *place) { return *(const volatile __unaligned int64_t *)place; }

/* What is read after hw_load was written before the hw_store whose value it saw. */
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

/* A number that is written under a lock and looked at without: read and written whole, old or new, and in no order with
 * anything else. hw_bump is for who has the lock. */
static inline int hw_peek(const int *place) { return *(const volatile int *)place; }

static inline void hw_poke(int *place, int value) { *(volatile int *)place = value; }

static inline int32_t hw_peek32(const int32_t *place) { return *(const volatile int32_t *)place; }

static inline void hw_poke32(int32_t *place, int32_t value) { *(volatile int32_t *)place = value; }

static inline int64_t hw_peek64(const int64_t *place) { return *(const volatile int64_t *)place; }

static inline void hw_poke64(int64_t *place, int64_t value) { *(volatile int64_t *)place = value; }

static inline void hw_bump(int64_t *place, int64_t n) { hw_poke64(place, *place + n); }

/* Bits of a word that several threads change at once. */
static inline void hw_set_bits(int *place, int bits) { _InterlockedOr((volatile long *)place, bits); }

static inline void hw_clear_bits(int *place, int bits) { _InterlockedAnd((volatile long *)place, ~bits); }

#define HW_PER_THREAD __declspec(thread)

/* The next four stand in one order for all threads. The sum is returned. */
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
