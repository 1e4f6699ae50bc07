/* The platform layer: differences between systems and between compilers, and nothing else.
 *
 * No file outside this folder names a header, type, or function of an operating system, so a port touches this folder only
 * (tests/packaging/test_platforms.py). Include Python.h first, because it selects the features of the C library.
 *
 * A system header (linux.h, posix.h, or win32.h) defines:
 *
 *   hw_mutex, hw_cond       A mutex, and a condition variable for it. In the child of a fork, init may overwrite them. trylock
 *                           returns true if it has acquired the mutex.
 *   hw_at_fork              Registers handlers to run before fork(), after it in the parent, and after it in the child. Returns
 *                           nonzero on a failed allocation. Does nothing on systems without fork().
 *   hw_clock_ns             The clock of Python's time.monotonic(), in nanoseconds.
 *   hw_clock_read           The same clock, or the one that includes system sleep, as milliseconds and nanoseconds.
 *   HW_HAS_BOOTTIME         1 if the system has a clock that includes system sleep, and a wait on it ends when the machine
 *                           resumes.
 *   hw_waker                An object that several threads sleep on. _wake wakes all of them, and also threads that begin to
 *                           sleep later, until _clear. Only the last sleeper to return calls _clear.
 *   hw_waker_sleep          Sleeps until _wake, for at most timeout_ns (-1: unlimited), or until alarm_ms on the clock that
 *                           includes system sleep (INT64_MAX: no alarm), if the waker was opened for that. It may return early;
 *                           the caller checks the clock. Returns a positive number after a wake-up, 0 after the timeout, and a
 *                           negative number after a signal or if `interruption` is set.
 *   hw_interruption         The argument of hw_waker_sleep on systems where signals do not end a wait: the event that Ctrl-C
 *                           sets, if this is the thread that handles signals; otherwise NULL. Requires the GIL.
 *   hw_pause                Sleeps for about the time that another thread needs to wake up.
 *   hw_advise_huge          Requests huge pages for a large block.
 *
 * HW_PLATFORM names a header that replaces both kinds: tools/schedules runs the core on its own threads and locks.
 *
 * A compiler header (gnuc.h or msvc.h) defines HW_COMPILER, prefetching, arithmetic that reports overflow, atomic access,
 * HW_PER_THREAD for thread-local variables, and a read of memory that other threads write. */
#ifndef HWHEEL_PLATFORM_H
#define HWHEEL_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#ifdef HW_PLATFORM
#include HW_PLATFORM
#else

#ifdef _MSC_VER
#include "msvc.h"
#else
#include "gnuc.h"
#endif

/* HWHEEL_POSIX selects the header of macOS on Linux, for tests: `nox -s posix`. */
#if defined(_WIN32)
#include "win32.h"
#elif defined(__linux__) && !defined(HWHEEL_POSIX)
#include "linux.h"
#else
#include "posix.h"
#endif

#endif

#endif
