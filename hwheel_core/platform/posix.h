/* macOS and other POSIX systems: threads sleep in pselect() on a pipe. */
#ifndef HWHEEL_POSIX_H
#define HWHEEL_POSIX_H

#include "pthreads.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/select.h>
#include <unistd.h>

/* No object that a thread can sleep on reports that the machine resumes. */
#define HW_HAS_BOOTTIME 0

/* On macOS, Python's time.monotonic() is mach_absolute_time(), which stops during system sleep. CLOCK_UPTIME_RAW does too, but
 * CLOCK_MONOTONIC does not. */
#ifdef __APPLE__
#define HW_CLOCK CLOCK_UPTIME_RAW
#else
#define HW_CLOCK CLOCK_MONOTONIC
#endif

static inline int64_t hw_clock_ns(void) { return hw_clock_ns_of(HW_CLOCK); }

static inline void hw_clock_read(int boottime, int64_t *ms_out, int32_t *ns_out)
{
    (void)boottime;
    hw_clock_read_of(HW_CLOCK, ms_out, ns_out);
}

typedef struct {
    int fds[2]; /* a pipe: read end, write end; it holds data after hw_waker_wake, until hw_waker_clear */
} hw_waker;

static inline void hw_waker_init(hw_waker *self) { self->fds[0] = self->fds[1] = -1; }

static inline int hw_waker_is_open(const hw_waker *self) { return self->fds[0] >= 0; }

static inline void hw_waker_close(hw_waker *self)
{
    for (int i = 0; i < 2; i++)
        if (self->fds[i] >= 0)
            close(self->fds[i]);
    hw_waker_init(self);
}

static inline int hw_waker_open(hw_waker *self, int boottime)
{
    (void)boottime;
    if (hw_waker_is_open(self))
        return 1;
    if (pipe(self->fds) < 0) {
        hw_waker_init(self);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        if (fcntl(self->fds[i], F_SETFL, O_NONBLOCK) < 0 || fcntl(self->fds[i], F_SETFD, FD_CLOEXEC) < 0) {
            hw_waker_close(self);
            return 0;
        }
    }
    return 1;
}

static inline void hw_waker_wake(hw_waker *self)
{
    while (write(self->fds[1], "", 1) < 0 && errno == EINTR) /* a full pipe is already readable */
        ;
}

static inline void hw_waker_clear(hw_waker *self)
{
    char bytes[64];
    while (read(self->fds[0], bytes, sizeof bytes) == sizeof bytes)
        ;
}

/* pselect() has nanosecond precision, and poll() only milliseconds; but pselect() supports no descriptor of FD_SETSIZE or above.
 * macOS rejects timeouts of more than three years. */
static inline int hw_waker_sleep(hw_waker *self, int64_t timeout_ns, int64_t alarm_ms, void *interruption)
{
    const int64_t most_ns = (int64_t)1000000 * 1000000000;
    int fd = self->fds[0];
    if (timeout_ns > most_ns)
        timeout_ns = most_ns;
    (void)alarm_ms, (void)interruption;
    if (fd < FD_SETSIZE) {
        struct timespec timeout = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
        fd_set fds;
        FD_ZERO(&fds);
        FD_SET(fd, &fds);
        return pselect(fd + 1, &fds, NULL, NULL, timeout_ns < 0 ? NULL : &timeout, NULL);
    } else {
        struct pollfd one = {fd, POLLIN, 0};
        return poll(&one, 1, timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000));
    }
}

/* Huge pages are requested on Linux only. */
static inline void hw_advise_huge(void *block, size_t size) { (void)block, (void)size; }

#endif
