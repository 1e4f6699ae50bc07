/* What differs between systems and between compilers, and nothing else. No file outside of this folder names a header, a
 * type or a function of a system, because whatever does would have to be found again for the next one;
 * tests/packaging/test_platforms.py sees to it. Python.h has to come first: it says which functions of the C library are
 * wanted.
 *
 * The file of a system, linux.h, posix.h or win32.h, gives
 *
 *   hw_mutex, hw_cond       a mutex, and what is waited on with one. They may be copied over by init in the child of a fork.
 *                           trylock is true when it has taken it.
 *   hw_at_fork              three functions for fork(): before it, after it in the parent, after it in the child. Not 0: there
 *                           is no memory. Nothing where there is no fork().
 *   hw_clock_ns             the clock of Python's time.monotonic(), in nanoseconds.
 *   hw_clock_read           the same, or the one that goes on while the machine sleeps, in ms and ns on top.
 *   HW_HAS_BOOTTIME         whether there is such a one, and a wait on it ends when the machine wakes up.
 *   hw_waker                what threads sleep on, and how another one wakes them. _wake is seen by all of them, also by who
 *                           lies down after it, until _calm; nobody calls _calm before the last of them is back.
 *   hw_waker_sleep          until _wake, or for timeout_ns (-1: however long it takes), or until alarm_ms on the clock that
 *                           goes on while the machine sleeps, if it was opened for that (INT64_MAX: no such time). It may come
 *                           back early: whoever calls it looks at the clock. Positive: something happened; 0: the time is
 *                           over; negative: a signal came, or interruption was set.
 *   hw_interruption         for hw_waker_sleep: what Ctrl-C sets where no signal ends a wait by itself, if this is the thread
 *                           that looks after signals; NULL otherwise. Needs the GIL.
 *   hw_pause                sleeps for as long as another thread takes to wake up, about.
 *   hw_advise_huge          asks for huge pages under a large block.
 *
 * The file of a compiler, gnuc.h or msvc.h, gives HW_COMPILER, prefetch, arithmetic that tells when it overflows, atomic
 * access, HW_PER_THREAD for a variable of a thread, and a read of memory that others write to. */
#ifndef HWHEEL_PLATFORM_H
#define HWHEEL_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#ifdef _MSC_VER
#include "msvc.h"
#else
#include "gnuc.h"
#endif

/* HWHEEL_POSIX takes on Linux what macOS takes, so that it can be tested: `nox -s posix`. */
#if defined(_WIN32)
#include "win32.h"
#elif defined(__linux__) && !defined(HWHEEL_POSIX)
#include "linux.h"
#else
#include "posix.h"
#endif

#endif
