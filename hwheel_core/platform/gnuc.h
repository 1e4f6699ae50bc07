/* gcc and clang. */
#ifndef HWHEEL_GNUC_H
#define HWHEEL_GNUC_H

#include <stdint.h>

#if defined(__clang__)
#define HW_COMPILER "clang " __clang_version__
#else
#define HW_COMPILER "gcc " __VERSION__
#endif

/* A hint only: the address may dangle, the processor does not fault on it. The empty statement keeps gcc from taking a
 * function that does nothing but prefetch for one without effect, and leaving its calls out. */
static inline void hw_prefetch(const void *address)
{
    __builtin_prefetch(address, 1, 3);
    __asm__ volatile("");
}

/* The same for what a link leads to that another thread may be writing: nothing is done with it but this, and so neither a
 * lock nor an order is wanted. ThreadSanitizer is not to look, because it cannot know that. */
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

/* Of a value that is not 0. */
static inline int hw_leading_zeros(uint64_t value) { return __builtin_clzll(value); }

/* The upper half of the product. */
static inline uint64_t hw_multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

/* A number in memory that another thread may be writing to: read once and wherever it lies, so that what was checked is
 * what is used. Without `volatile` the compiler might read it again after the check. */
typedef struct {
    int64_t value;
} __attribute__((packed, may_alias)) hw_foreign;

static inline int64_t hw_read(const void *place) { return ((const volatile hw_foreign *)place)->value; }

/* What is read after hw_load was written before the hw_store whose value it saw. */
static inline uintptr_t hw_load(uintptr_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }

static inline void hw_store(uintptr_t *place, uintptr_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }

static inline int hw_flag(int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

static inline void hw_set_flag(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

/* A number that is written under a lock and looked at without: read and written whole, old or new, and in no order with
 * anything else. hw_bump is for who has the lock. */
static inline int hw_peek(const int *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

static inline void hw_poke(int *place, int value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static inline int32_t hw_peek32(const int32_t *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

static inline void hw_poke32(int32_t *place, int32_t value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static inline int64_t hw_peek64(const int64_t *place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

static inline void hw_poke64(int64_t *place, int64_t value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static inline void hw_bump(int64_t *place, int64_t n) { hw_poke64(place, *place + n); }

/* Bits of a word that several threads change at once. */
static inline void hw_set_bits(int *place, int bits) { __atomic_fetch_or(place, bits, __ATOMIC_RELAXED); }

static inline void hw_clear_bits(int *place, int bits) { __atomic_fetch_and(place, ~bits, __ATOMIC_RELAXED); }

#define HW_PER_THREAD __thread

/* The next four stand in one order for all threads. The sum is returned. */
static inline int64_t hw_atomic_add(int64_t *count, int64_t n) { return __atomic_add_fetch(count, n, __ATOMIC_ACQ_REL); }

static inline int hw_atomic_take(uintptr_t *owner, uintptr_t me)
{
    uintptr_t nobody = 0;
    return __atomic_compare_exchange_n(owner, &nobody, me, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline uintptr_t hw_atomic_load(uintptr_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

static inline void hw_atomic_store(uintptr_t *word, uintptr_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

#endif
