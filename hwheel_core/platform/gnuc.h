/* gcc and clang. */
#ifndef HWHEEL_GNUC_H
#define HWHEEL_GNUC_H

#include <stdint.h>

#if defined(__clang__)
#define HW_COMPILER "clang " __clang_version__
#else
#define HW_COMPILER "gcc " __VERSION__
#endif

/* A hint: the address may dangle, because a prefetch never faults. The empty statement keeps gcc from
 * removing calls of a function that does nothing but prefetch. */
static inline void hw_prefetch(const void *address)
{
    __builtin_prefetch(address, 1, 3);
    __asm__ volatile("");
}

/* Prefetch the target of a link that another thread may be writing. This needs no lock, because the value is only a hint;
 * ThreadSanitizer cannot know that, so the function is excluded. */
#if defined(__SANITIZE_THREAD__)
#define HW_ONLY_A_HINT __attribute__((no_sanitize_thread))
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HW_ONLY_A_HINT __attribute__((no_sanitize("thread")))
#endif
#endif
#ifndef HW_ONLY_A_HINT
#define HW_ONLY_A_HINT
#endif
HW_ONLY_A_HINT
static inline void hw_prefetch_link(const void *link) { hw_prefetch(*(void *const volatile *)link); }

static inline int hw_add_overflows(int64_t a, int64_t b, int64_t *sum) { return __builtin_add_overflow(a, b, sum); }

static inline int hw_mul_overflows(int64_t a, int64_t b, int64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

/* The value must not be 0. */
static inline int hw_leading_zeros(uint64_t value) { return __builtin_clzll(value); }

/* The upper 64 bits of the product. */
static inline uint64_t hw_multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

/* Read a number once, at any alignment, from memory that another thread may be writing. Without `volatile` the compiler might
 * read it again after a check. */
typedef struct {
    int64_t value;
} __attribute__((packed, may_alias)) hw_foreign;

static inline int64_t hw_read(const void *place) { return ((const volatile hw_foreign *)place)->value; }

/* Acquire and release: reads after hw_load see everything written before the hw_store whose value it returned. */
static inline uintptr_t hw_load(uintptr_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }

static inline void hw_store(uintptr_t *place, uintptr_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }

static inline int hw_flag(int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

static inline void hw_set_flag(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

/* Relaxed access to a number that is written under a lock and read without it: the read value is whole, but may be stale.
 * hw_bump requires the lock. */
static inline int hw_peek(const int *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

static inline void hw_poke(int *place, int value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static inline int32_t hw_peek32(const int32_t *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

static inline void hw_poke32(int32_t *place, int32_t value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static inline int64_t hw_peek64(const int64_t *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

static inline void hw_poke64(int64_t *place, int64_t value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static inline void hw_bump(int64_t *place, int64_t n) { hw_poke64(place, *place + n); }

/* Bits of a word that several threads change concurrently. */
static inline void hw_set_bits(int *place, int bits) { __atomic_fetch_or(place, bits, __ATOMIC_RELAXED); }

static inline void hw_clear_bits(int *place, int bits) { __atomic_fetch_and(place, ~bits, __ATOMIC_RELAXED); }

#define HW_PER_THREAD __thread

/* Sequentially consistent access, except for hw_atomic_add, which is acquire-release and returns the sum. */
static inline int64_t hw_atomic_add(int64_t *count, int64_t n) { return __atomic_add_fetch(count, n, __ATOMIC_ACQ_REL); }

static inline int hw_atomic_take(uintptr_t *owner, uintptr_t me)
{
    uintptr_t no_owner = 0;
    return __atomic_compare_exchange_n(owner, &no_owner, me, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline uintptr_t hw_atomic_load(uintptr_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

static inline void hw_atomic_store(uintptr_t *word, uintptr_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

#endif
