/* Linux: threads sleep in ppoll() on an eventfd, and with clock="boottime" also on a timerfd. */
#ifndef HWHEEL_LINUX_H
#define HWHEEL_LINUX_H

#include "pthreads.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define HW_HAS_BOOTTIME 1

static inline int64_t hw_clock_ns(void) { return hw_clock_ns_of(CLOCK_MONOTONIC); }

static inline void hw_clock_read(int boottime, int64_t *ms_out, int32_t *ns_out)
{
    hw_clock_read_of(boottime ? CLOCK_BOOTTIME : CLOCK_MONOTONIC, ms_out, ns_out);
}

typedef struct {
    int wake_fd; /* readable after hw_waker_wake, until hw_waker_clear */
    int alarm;   /* readable after a time on CLOCK_BOOTTIME, so that a wait ends when the machine resumes; -1: not open */
} hw_waker;

static inline void hw_waker_init(hw_waker *self) { self->wake_fd = self->alarm = -1; }

static inline int hw_waker_is_open(const hw_waker *self) { return self->wake_fd >= 0; }

static inline void hw_waker_close(hw_waker *self)
{
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    if (self->alarm >= 0)
        close(self->alarm);
    hw_waker_init(self);
}

/* Return false if no descriptor is available. Open descriptors stay open. */
static inline int hw_waker_open(hw_waker *self, int boottime)
{
    if (self->wake_fd < 0)
        self->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (self->wake_fd < 0)
        return 0;
    if (boottime && self->alarm < 0)
        self->alarm = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    return !boottime || self->alarm >= 0;
}

static inline void hw_waker_drain(int fd)
{
    char bytes[64];
    while (read(fd, bytes, sizeof bytes) == sizeof bytes)
        ;
}

static inline void hw_waker_wake(hw_waker *self)
{
    uint64_t one = 1;
    while (write(self->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static inline void hw_waker_clear(hw_waker *self) { hw_waker_drain(self->wake_fd); }

static inline int hw_waker_sleep(hw_waker *self, int64_t timeout_ns, int64_t alarm_ms, void *interruption)
{
    struct pollfd fds[2] = {{self->wake_fd, POLLIN, 0}, {self->alarm, POLLIN, 0}};
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    int woken;
    (void)interruption;
    if (self->alarm >= 0 && alarm_ms != INT64_MAX) {
        struct itimerspec when = {{0, 0}, {alarm_ms / 1000, (alarm_ms % 1000) * 1000000}};
        timerfd_settime(self->alarm, TFD_TIMER_ABSTIME, &when, NULL);
    }
    woken = ppoll(fds, 2, timeout_ns < 0 ? NULL : &timeout, NULL);
    if (woken > 0 && self->alarm >= 0)
        hw_waker_drain(self->alarm);
    return woken;
}

/* Huge pages save page faults on first writes. They also save TLB misses when a cascade reads a block in random order.
 * Request only whole huge pages inside the block. */
static inline void hw_advise_huge(void *block, size_t size)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t huge = (uintptr_t)1 << 21;
    uintptr_t first = ((uintptr_t)block + huge - 1) & ~(huge - 1);
    uintptr_t end = ((uintptr_t)block + size) & ~(huge - 1);
    if (end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)block, (void)size;
#endif
}

#endif
