/* A platform without threads of the system: see HW_PLATFORM in hwheel_core/platform/platform.h.
 *
 * Locks, wakers, the clock, and the threads are data of scheduler.c. Each operation on one of them, and each atomic access,
 * begins with a step, in which the scheduler chooses the thread that goes on. Between two steps nothing else runs. */
#ifndef CONTROLLED_H
#define CONTROLLED_H

#include <stddef.h>
#include <stdint.h>

extern int world_inboxes, world_meetings;

/* The accesses of the real platform, under other names. */
#define hw_load real_load
#define hw_store real_store
#define hw_flag real_flag
#define hw_set_flag real_set_flag
#define hw_peek real_peek
#define hw_poke real_poke
#define hw_peek32 real_peek32
#define hw_poke32 real_poke32
#define hw_peek64 real_peek64
#define hw_poke64 real_poke64
#define hw_bump real_bump
#define hw_set_bits real_set_bits
#define hw_clear_bits real_clear_bits
#define hw_atomic_add real_atomic_add
#define hw_atomic_take real_atomic_take
#define hw_atomic_load real_atomic_load
#define hw_atomic_store real_atomic_store
#include "platform/gnuc.h"
#undef hw_load
#undef hw_store
#undef hw_flag
#undef hw_set_flag
#undef hw_peek
#undef hw_poke
#undef hw_peek32
#undef hw_poke32
#undef hw_peek64
#undef hw_poke64
#undef hw_bump
#undef hw_set_bits
#undef hw_clear_bits
#undef hw_atomic_add
#undef hw_atomic_take
#undef hw_atomic_load
#undef hw_atomic_store

enum StepKind {
    STEP_READ,
    STEP_CLOCK, /* reads the clock */
    STEP_WAKE,  /* ends a sleep: enabled once the waker is set or the time has come */
    STEP_WRITE, /* from here on, the step changes its object */
    STEP_ADVANCE,
    STEP_LOCK, /* enabled while the mutex is free */
    STEP_TRY_LOCK,
    STEP_UNLOCK,
    STEP_WAIT,   /* ends a wait: enabled once the condition is signaled */
    STEP_BEGIN,  /* of an operation of a scenario */
    STEP_QUIET   /* enabled when nothing else is and no sleeper has a deadline */
};

void step(enum StepKind kind, const void *object);

#define HW_READ(type, name, word) \
    static inline type hw_##name(word *place) { step(STEP_READ, place); return real_##name(place); }
#define HW_WRITE(name, word, value_type) \
    static inline void hw_##name(word *place, value_type value) { step(STEP_WRITE, place); real_##name(place, value); }

HW_READ(uintptr_t, load, uintptr_t)
HW_READ(uintptr_t, atomic_load, uintptr_t)
HW_READ(int, flag, int)
HW_READ(int, peek, const int)
HW_READ(int32_t, peek32, const int32_t)
HW_READ(int64_t, peek64, const int64_t)
HW_WRITE(store, uintptr_t, uintptr_t)
HW_WRITE(atomic_store, uintptr_t, uintptr_t)
HW_WRITE(poke, int, int)
HW_WRITE(poke32, int32_t, int32_t)
HW_WRITE(poke64, int64_t, int64_t)
HW_WRITE(bump, int64_t, int64_t)
HW_WRITE(set_bits, int, int)
HW_WRITE(clear_bits, int, int)

static inline void hw_set_flag(int *flag) { step(STEP_WRITE, flag); real_set_flag(flag); }

static inline int64_t hw_atomic_add(int64_t *count, int64_t n)
{
    step(STEP_WRITE, count);
    return real_atomic_add(count, n);
}

static inline int hw_atomic_take(uintptr_t *owner, uintptr_t me)
{
    step(STEP_WRITE, owner);
    return real_atomic_take(owner, me);
}

#define HW_HAS_BOOTTIME 1

typedef struct {
    int holder; /* number of the thread, or 0 */
} hw_mutex;
typedef struct {
    char unused;
} hw_cond;
typedef struct {
    int is_open, is_set;
} hw_waker;

void hw_mutex_init(hw_mutex *self);
void hw_mutex_lock(hw_mutex *self);
int hw_mutex_trylock(hw_mutex *self);
void hw_mutex_unlock(hw_mutex *self);
static inline void hw_mutex_destroy(hw_mutex *self) { (void)self; }

static inline void hw_cond_init(hw_cond *self) { (void)self; }
static inline void hw_cond_destroy(hw_cond *self) { (void)self; }
void hw_cond_wait(hw_cond *self, hw_mutex *mutex);
void hw_cond_signal(hw_cond *self);
void hw_cond_broadcast(hw_cond *self);

int64_t hw_clock_ns(void);
void hw_clock_read(int boottime, int64_t *ms_out, int32_t *ns_out);

void hw_waker_init(hw_waker *self);
int hw_waker_is_open(const hw_waker *self);
int hw_waker_open(hw_waker *self, int boottime);
void hw_waker_close(hw_waker *self);
void hw_waker_wake(hw_waker *self);
void hw_waker_clear(hw_waker *self);
int hw_waker_sleep(hw_waker *self, int64_t timeout_ns, int64_t alarm_ms, void *interruption);

/* The scenarios call the fork handlers themselves. */
static inline int hw_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before, (void)in_parent, (void)in_child;
    return 0;
}
static inline void *hw_interruption(void) { return NULL; }
static inline void hw_pause(void) { step(STEP_WRITE, NULL); }
static inline void hw_advise_huge(void *block, size_t size) { (void)block, (void)size; }

#endif
