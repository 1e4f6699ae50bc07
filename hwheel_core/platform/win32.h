/* 64-bit Windows: threads sleep in WaitForMultipleObjects() on an event and a waitable timer. */
#ifndef HWHEEL_WIN32_H
#define HWHEEL_WIN32_H

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <stdint.h>
#include <windows.h>

/* Available since Windows 10, version 1803. Without it, a wait can be up to 15.6 ms late, one step of the system's clock. */
#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 2
#endif

typedef SRWLOCK hw_mutex;
typedef CONDITION_VARIABLE hw_cond;

static inline void hw_mutex_init(hw_mutex *self) { InitializeSRWLock(self); }
static inline void hw_mutex_destroy(hw_mutex *self) { (void)self; }
static inline void hw_mutex_lock(hw_mutex *self) { AcquireSRWLockExclusive(self); }
static inline int hw_mutex_trylock(hw_mutex *self) { return TryAcquireSRWLockExclusive(self) != 0; }
static inline void hw_mutex_unlock(hw_mutex *self) { ReleaseSRWLockExclusive(self); }

static inline void hw_cond_init(hw_cond *self) { InitializeConditionVariable(self); }
static inline void hw_cond_destroy(hw_cond *self) { (void)self; }
static inline void hw_cond_wait(hw_cond *self, hw_mutex *mutex) { SleepConditionVariableSRW(self, mutex, INFINITE, 0); }
static inline void hw_cond_signal(hw_cond *self) { WakeConditionVariable(self); }
static inline void hw_cond_broadcast(hw_cond *self) { WakeAllConditionVariable(self); }

/* There is no fork(). */
static inline int hw_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before, (void)in_parent, (void)in_child;
    return 0;
}

/* The clock of Python's time.monotonic(), which has steps of 15.6 ms before 3.13. A finer clock would make callbacks early by
 * Python's clock. Both clocks include system sleep. */
#if defined(PY_VERSION_HEX) && PY_VERSION_HEX < 0x030D0000
static inline void hw_clock_read(int boottime, int64_t *ms_out, int32_t *ns_out)
{
    (void)boottime;
    *ms_out = (int64_t)GetTickCount64();
    *ns_out = 0;
}
#else
static inline void hw_clock_read(int boottime, int64_t *ms_out, int32_t *ns_out)
{
    LARGE_INTEGER now, second;
    int64_t part; /* of a second, in ns; cannot overflow, because the counter has some millions of steps a second */
    (void)boottime;
    QueryPerformanceFrequency(&second);
    QueryPerformanceCounter(&now);
    part = now.QuadPart % second.QuadPart * 1000000000 / second.QuadPart;
    *ms_out = now.QuadPart / second.QuadPart * 1000 + part / 1000000;
    *ns_out = (int32_t)(part % 1000000);
}
#endif

static inline int64_t hw_clock_ns(void)
{
    int64_t ms;
    int32_t ns;
    hw_clock_read(0, &ms, &ns);
    return ms * 1000000 + ns;
}

/* "monotonic" is the only system clock. */
#define HW_HAS_BOOTTIME 0

typedef struct {
    HANDLE wake_event; /* set after hw_waker_wake, until hw_waker_clear */
} hw_waker;

static inline void hw_waker_init(hw_waker *self) { self->wake_event = NULL; }

static inline int hw_waker_is_open(const hw_waker *self) { return self->wake_event != NULL; }

static inline void hw_waker_close(hw_waker *self)
{
    if (self->wake_event != NULL)
        CloseHandle(self->wake_event);
    self->wake_event = NULL;
}

static inline int hw_waker_open(hw_waker *self, int boottime)
{
    (void)boottime;
    if (self->wake_event == NULL)
        self->wake_event = CreateEventW(NULL, TRUE, FALSE, NULL);
    return self->wake_event != NULL;
}

static inline void hw_waker_wake(hw_waker *self) { SetEvent(self->wake_event); }

static inline void hw_waker_clear(hw_waker *self) { ResetEvent(self->wake_event); }

/* Return a new waitable timer that is set, or NULL on failure. `steps` are 100 ns: negative, a duration from now; positive, a
 * time on the system's clock. Each sleeper creates its own timers. */
static inline HANDLE hw_win32_timer(int64_t steps)
{
    LARGE_INTEGER due;
    HANDLE timer = CreateWaitableTimerExW(NULL, NULL, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, TIMER_ALL_ACCESS);
    if (timer == NULL)
        timer = CreateWaitableTimerExW(NULL, NULL, 0, TIMER_ALL_ACCESS);
    due.QuadPart = steps;
    if (timer != NULL && !SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE)) {
        CloseHandle(timer);
        timer = NULL;
    }
    return timer;
}

/* Return the time on the system's clock that is this many steps of 100 ns from now. */
static inline int64_t hw_win32_system_time(int64_t steps_from_now)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) + steps_from_now;
}

/* A timer for a duration stops during system sleep, but hw_clock_read does not. So a wait of more than a second has another
 * timer, for a time on the system's clock, which ends the wait when the machine resumes. That timer cannot replace the first one,
 * because the system's clock may be set. platform.h explains the return value. */
static inline int hw_waker_sleep(hw_waker *self, int64_t timeout_ns, int64_t alarm_ms, void *interruption)
{
    const int64_t one_second_steps = 10000000;
    HANDLE handles[4] = {self->wake_event, NULL, NULL, NULL};
    DWORD count = 1, first_timer, event, timeout_ms = INFINITE;
    (void)alarm_ms;
    if (interruption != NULL)
        handles[count++] = (HANDLE)interruption;
    first_timer = count;
    if (timeout_ns >= 0) {
        int64_t steps = timeout_ns / 100 + (timeout_ns % 100 != 0);
        handles[count] = hw_win32_timer(-steps);
        if (handles[count] != NULL)
            count++;
        else
            timeout_ms = steps < (int64_t)0x7FFFFFFF * 10000 ? (DWORD)((steps + 9999) / 10000) : 0x7FFFFFFF;
        if (steps > one_second_steps && (handles[count] = hw_win32_timer(hw_win32_system_time(steps))) != NULL)
            count++;
    }
    event = WaitForMultipleObjects(count, handles, FALSE, timeout_ms);
    for (DWORD i = first_timer; i < count; i++)
        CloseHandle(handles[i]);
    if (event == WAIT_OBJECT_0)
        return 1;
    if (event < WAIT_OBJECT_0 + first_timer) {
        ResetEvent((HANDLE)interruption);
        return -1;
    }
    return 0;
}

#ifdef Py_PYTHON_H
/* Functions that CPython exports for its own extension modules, without a public header. */
PyAPI_FUNC(int) _PyOS_IsMainThread(void);
PyAPI_FUNC(void *) _PyOS_SigintEvent(void);

static inline void *hw_interruption(void) { return _PyOS_IsMainThread() ? _PyOS_SigintEvent() : NULL; }
#endif

/* Request a sleep of 0.1 ms. Windows rounds it up to 0.5 ms, its shortest one. */
static inline void hw_pause(void)
{
    HANDLE timer = hw_win32_timer(-1000);
    if (timer == NULL) {
        Sleep(1);
        return;
    }
    WaitForSingleObject(timer, INFINITE);
    CloseHandle(timer);
}

/* Huge pages are requested on Linux only. */
static inline void hw_advise_huge(void *block, size_t size) { (void)block, (void)size; }

#endif
