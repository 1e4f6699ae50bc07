/* Mutexes, condition variables, and fork of POSIX systems. */
#ifndef HWHEEL_PTHREADS_H
#define HWHEEL_PTHREADS_H

#include <pthread.h>
#include <time.h>

typedef pthread_mutex_t hw_mutex;
typedef pthread_cond_t hw_cond;

static inline void hw_mutex_init(hw_mutex *self) { pthread_mutex_init(self, NULL); }
static inline void hw_mutex_destroy(hw_mutex *self) { pthread_mutex_destroy(self); }
static inline void hw_mutex_lock(hw_mutex *self) { pthread_mutex_lock(self); }
static inline int hw_mutex_trylock(hw_mutex *self) { return pthread_mutex_trylock(self) == 0; }
static inline void hw_mutex_unlock(hw_mutex *self) { pthread_mutex_unlock(self); }

static inline void hw_cond_init(hw_cond *self) { pthread_cond_init(self, NULL); }
static inline void hw_cond_destroy(hw_cond *self) { pthread_cond_destroy(self); }
static inline void hw_cond_wait(hw_cond *self, hw_mutex *mutex) { pthread_cond_wait(self, mutex); }
static inline void hw_cond_signal(hw_cond *self) { pthread_cond_signal(self); }
static inline void hw_cond_broadcast(hw_cond *self) { pthread_cond_broadcast(self); }

static inline int hw_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return pthread_atfork(before, in_parent, in_child);
}

static inline int64_t hw_clock_ns_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void hw_clock_read_of(clockid_t clock, int64_t *ms_out, int32_t *ns_out)
{
    struct timespec now;
    clock_gettime(clock, &now);
    *ms_out = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    *ns_out = (int32_t)(now.tv_nsec % 1000000);
}

/* Not needed: signals end a wait of hw_waker_sleep. */
static inline void *hw_interruption(void) { return NULL; }

/* Sleep for 0.1 ms. */
static inline void hw_pause(void)
{
    struct timespec pause = {0, 100000};
    nanosleep(&pause, NULL);
}

#endif
