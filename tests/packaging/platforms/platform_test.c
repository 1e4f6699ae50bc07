/* Tests of the functions that platform/platform.h documents, with the files that it chose for this system. Prints a line for
 * each check; the exit status is the number of failures. test_platforms.py and check_windows.py compile and run it. */
#include "platform/platform.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef _WIN32
#include <process.h>
typedef HANDLE thread;
typedef unsigned thread_end;
#define THREAD_CALL __stdcall
static thread thread_start(thread_end(THREAD_CALL *run)(void *))
{
    return (thread)_beginthreadex(NULL, 0, run, NULL, 0, NULL);
}
static void thread_join(thread other)
{
    WaitForSingleObject(other, INFINITE);
    CloseHandle(other);
}
#else
typedef pthread_t thread;
typedef void *thread_end;
#define THREAD_CALL
static thread thread_start(thread_end (*run)(void *))
{
    pthread_t made;
    if (pthread_create(&made, NULL, run, NULL) != 0)
        abort();
    return made;
}
static void thread_join(thread other) { pthread_join(other, NULL); }
#endif

#define MS 1000000LL

static int failures;

static void check(int passed, const char *what)
{
    printf("%s %s\n", passed ? "ok    " : "FAILED", what);
    fflush(stdout);
    failures += !passed;
}

static hw_mutex mutex;
static hw_cond cond;
static hw_waker waker;
static int64_t counted;
static int stage;

static thread_end THREAD_CALL count(void *none)
{
    (void)none;
    for (int i = 0; i < 100000; i++) {
        while (!hw_mutex_trylock(&mutex)) {
            hw_mutex_lock(&mutex);
            hw_mutex_unlock(&mutex);
        }
        counted++;
        hw_mutex_unlock(&mutex);
    }
    return 0;
}

static void test_mutexes(void)
{
    thread others[4];
    int taken_twice;
    for (int i = 0; i < 4; i++)
        others[i] = thread_start(count);
    for (int i = 0; i < 4; i++)
        thread_join(others[i]);
    check(counted == 400000, "a mutex excludes other threads");
    hw_mutex_lock(&mutex);
    taken_twice = hw_mutex_trylock(&mutex);
    hw_mutex_unlock(&mutex);
    check(!taken_twice, "trylock of a locked mutex fails");
    check(hw_mutex_trylock(&mutex), "trylock of a free mutex succeeds");
    hw_mutex_unlock(&mutex);
}

static thread_end THREAD_CALL answer(void *none)
{
    (void)none;
    hw_mutex_lock(&mutex);
    for (int wanted = 1; wanted < 2000; wanted += 2) {
        while (stage != wanted)
            hw_cond_wait(&cond, &mutex);
        stage++;
        hw_cond_broadcast(&cond);
    }
    hw_mutex_unlock(&mutex);
    return 0;
}

static void test_conditions(void)
{
    thread other = thread_start(answer);
    hw_mutex_lock(&mutex);
    for (int next = 0; next < 2000; next += 2) {
        while (stage != next)
            hw_cond_wait(&cond, &mutex);
        stage++;
        hw_cond_signal(&cond);
    }
    hw_mutex_unlock(&mutex);
    thread_join(other);
    check(stage == 2000, "two threads that wait for each other in turn lose no signal");
}

static void test_clocks(void)
{
    int64_t before_ms, after_ms, before = hw_clock_ns(), ns_before_ms;
    int32_t before_ns, after_ns;
    hw_clock_read(0, &before_ms, &before_ns);
    ns_before_ms = before_ms * MS + before_ns;
    check(ns_before_ms >= before && ns_before_ms - before < 1000 * MS, "hw_clock_ns and hw_clock_read read the same clock");
    check(before_ns >= 0 && before_ns < MS, "the nanoseconds beside the milliseconds are less than one millisecond");
    for (int i = 0; i < 500; i++)
        hw_pause();
    hw_clock_read(0, &after_ms, &after_ns);
    check(after_ms - before_ms >= 30, "500 pauses take more than 30 ms on the clock");
    if (HW_HAS_BOOTTIME) {
        hw_clock_read(1, &before_ms, &before_ns);
        check(before_ms >= after_ms, "the boot time is not behind the monotonic time");
    }
}

/* Sleeps and returns how long that took; `woken` is the result of the sleep. */
static int64_t sleep_ms(int64_t timeout_ns, int64_t alarm_ms, int *woken)
{
    int64_t before = hw_clock_ns();
    *woken = hw_waker_sleep(&waker, timeout_ns, alarm_ms, NULL);
    return (hw_clock_ns() - before) / MS;
}

static thread_end THREAD_CALL wake_later(void *none)
{
    (void)none;
    for (int i = 0; i < 300; i++)
        hw_pause();
    hw_waker_wake(&waker);
    return 0;
}

static int sleepers_woken;

static thread_end THREAD_CALL sleep_forever(void *none)
{
    int woken = hw_waker_sleep(&waker, -1, INT64_MAX, NULL);
    (void)none;
    hw_mutex_lock(&mutex);
    sleepers_woken += woken > 0;
    hw_mutex_unlock(&mutex);
    return 0;
}

static void test_sleeps(void)
{
    thread other, others[3];
    int64_t total = 0, ms;
    int woken;
    check(!hw_waker_is_open(&waker), "a waker is closed at first");
    check(hw_waker_open(&waker, HW_HAS_BOOTTIME) && hw_waker_is_open(&waker), "a waker can be opened");
    check(hw_waker_open(&waker, HW_HAS_BOOTTIME), "an open waker can be opened again");
    for (int i = 0; i < 20; i++)
        total += sleep_ms(20 * MS, INT64_MAX, &woken);
    check(woken == 0 && total >= 300 && total < 8000, "20 sleeps of 20 ms take about 400 ms");
    ms = sleep_ms(0, INT64_MAX, &woken);
    check(woken == 0 && ms < 3000, "a sleep of no length returns at once");
    ms = sleep_ms(MS / 3, INT64_MAX, &woken);
    check(woken == 0 && ms < 3000, "a sleep of a third of a millisecond returns soon");

    other = thread_start(wake_later);
    sleep_ms(-1, INT64_MAX, &woken);
    check(woken > 0, "a wake-up ends a sleep without a timeout");
    thread_join(other);
    ms = sleep_ms(60000 * MS, INT64_MAX, &woken);
    check(woken > 0 && ms < 30000, "a wake-up also ends the next sleep");
    hw_waker_clear(&waker);
    ms = sleep_ms(50 * MS, INT64_MAX, &woken);
    check(woken == 0 && ms >= 30, "until hw_waker_clear()");
    hw_waker_wake(&waker);
    hw_waker_wake(&waker);
    hw_waker_clear(&waker);
    ms = sleep_ms(50 * MS, INT64_MAX, &woken);
    check(woken == 0 && ms >= 30, "hw_waker_clear() clears two wake-ups");

    for (int i = 0; i < 3; i++)
        others[i] = thread_start(sleep_forever);
    for (int i = 0; i < 300; i++)
        hw_pause();
    hw_waker_wake(&waker);
    for (int i = 0; i < 3; i++)
        thread_join(others[i]);
    check(sleepers_woken == 3, "one wake-up ends the sleeps of three threads");
    hw_waker_clear(&waker);

    other = thread_start(wake_later);
    ms = sleep_ms(INT64_MAX, INT64_MAX, &woken);
    check(woken > 0 && ms < 30000, "a wake-up ends a sleep of centuries");
    thread_join(other);
    hw_waker_clear(&waker);

    if (HW_HAS_BOOTTIME) {
        int64_t now_ms;
        int32_t now_ns;
        hw_clock_read(1, &now_ms, &now_ns);
        ms = sleep_ms(-1, now_ms + 100, &woken);
        check(woken > 0 && ms >= 50 && ms < 30000, "an alarm on the boot time ends a sleep");
    }
    hw_waker_close(&waker);
    hw_waker_close(&waker);
    check(!hw_waker_is_open(&waker), "a waker can be closed twice");
}

#ifdef _WIN32
static void test_ctrl_c(void)
{
    HANDLE event = CreateEventW(NULL, TRUE, TRUE, NULL);
    hw_waker_open(&waker, 0);
    check(hw_waker_sleep(&waker, 60000 * MS, INT64_MAX, event) < 0, "Ctrl-C ends a sleep");
    check(hw_waker_sleep(&waker, 50 * MS, INT64_MAX, event) == 0, "Ctrl-C ends only one sleep");
    hw_waker_close(&waker);
    CloseHandle(event);
}
#endif

#ifdef HWHEEL_POSIX
#include <sys/resource.h>
/* pselect() does not support descriptors beyond FD_SETSIZE. */
static void test_descriptors_beyond_pselect(void)
{
    struct rlimit limit = {FD_SETSIZE + 50, FD_SETSIZE + 50};
    int high = 0, woken;
    int64_t ms;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        printf("       skipped: the limit of descriptors cannot be raised\n");
        return;
    }
    while (high < FD_SETSIZE)
        high = dup(1);
    check(hw_waker_open(&waker, 0) && waker.fds[0] > FD_SETSIZE, "a waker can have descriptors beyond FD_SETSIZE");
    ms = sleep_ms(20 * MS + 1, INT64_MAX, &woken);
    check(woken == 0 && ms >= 20, "a sleep on it lasts for its timeout");
    hw_waker_wake(&waker);
    sleep_ms(-1, INT64_MAX, &woken);
    check(woken > 0, "a wake-up ends a sleep on it");
    while (dup(1) >= 0)
        ;
    hw_waker_close(&waker);
    dup(1);
    check(!hw_waker_open(&waker, 0) && !hw_waker_is_open(&waker), "a failed open leaves the waker closed");
}
#endif

static void test_arithmetic(void)
{
    int64_t result, high = INT64_MAX, low = INT64_MIN;
    check(hw_add_overflows(high, 1, &result) && hw_add_overflows(low, -1, &result), "sums beyond 64 bits overflow");
    check(!hw_add_overflows(high, low, &result) && result == -1, "sums within 64 bits do not");
    check(hw_mul_overflows(high, 2, &result) && hw_mul_overflows(low, -1, &result) && hw_mul_overflows(low, 2, &result) &&
              hw_mul_overflows((int64_t)1 << 32, (int64_t)1 << 31, &result),
          "products beyond 64 bits overflow");
    check(!hw_mul_overflows(low, 1, &result) && result == low && !hw_mul_overflows(high, -1, &result) &&
              result == -high && !hw_mul_overflows((int64_t)1 << 31, (int64_t)1 << 31, &result) &&
              !hw_mul_overflows(-((int64_t)1 << 32), (int64_t)1 << 31, &result) && result == low &&
              !hw_mul_overflows(0, low, &result) && result == 0,
          "products within 64 bits do not");
    check(hw_leading_zeros(1) == 63 && hw_leading_zeros((uint64_t)1 << 63) == 0 && hw_leading_zeros(255) == 56,
          "hw_leading_zeros counts");
    check(hw_multiply_high(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1 && hw_multiply_high((uint64_t)1 << 63, 6) == 3,
          "hw_multiply_high returns the upper half");
}

static void test_memory(void)
{
    char bytes[sizeof(int64_t) + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    uintptr_t word = 5;
    int64_t count = 40;
    int flag = 1, raised = 0, bits = 5, others = -1;
    int32_t number = 3;
    hw_prefetch(bytes);
    check(hw_read(bytes + 1) == 0x0807060504030201LL, "hw_read reads unaligned numbers");
    hw_store(&word, 7);
    hw_set_flag(&raised);
    check(hw_load(&word) == 7 && hw_flag(&flag) == 1 && hw_flag(&raised) == 1, "loads return the stored values");
    hw_atomic_store(&word, 0);
    check(hw_atomic_take(&word, 9) && !hw_atomic_take(&word, 8) && hw_atomic_load(&word) == 9,
          "hw_atomic_take succeeds once");
    check(hw_atomic_add(&count, 2) == 42 && hw_atomic_add(&count, -42) == 0 && count == 0, "hw_atomic_add returns the sum");
    hw_set_bits(&bits, 3);
    hw_clear_bits(&bits, 4);
    hw_clear_bits(&others, 1 << 30);
    check(bits == 3 && others == ~(1 << 30), "hw_set_bits and hw_clear_bits change only their bits");
    hw_poke32(&number, -7);
    check(hw_peek32(&number) == -7, "hw_peek32 returns the written value");
    hw_advise_huge(bytes, sizeof bytes);
}

static int seen[3];
static void before_fork(void) { seen[0]++; }
static void after_fork_in_parent(void) { seen[1]++; }
static void after_fork_in_child(void) { seen[2]++; }

#ifdef _WIN32
static void test_fork(void)
{
    check(hw_at_fork(before_fork, after_fork_in_parent, after_fork_in_child) == 0 && seen[0] + seen[1] + seen[2] == 0,
          "hw_at_fork is accepted and never calls");
}
#else
#include <sys/wait.h>
#include <unistd.h>
static void test_fork(void)
{
    int status = -1;
    pid_t child;
    check(hw_at_fork(before_fork, after_fork_in_parent, after_fork_in_child) == 0, "hw_at_fork accepts functions");
    hw_waker_open(&waker, 0);
    child = fork();
    if (child == 0) {
        hw_waker_close(&waker);
        _exit(seen[0] == 1 && seen[1] == 0 && seen[2] == 1 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    check(status == 0 && seen[0] == 1 && seen[1] == 1 && seen[2] == 0, "each fork handler runs in its process");
    hw_waker_wake(&waker);
    check(hw_waker_sleep(&waker, 0, INT64_MAX, NULL) > 0, "a close in the child leaves the waker of the parent open");
    hw_waker_close(&waker);
}
#endif

int main(void)
{
    printf("%s\n", HW_COMPILER);
    hw_mutex_init(&mutex);
    hw_cond_init(&cond);
    hw_waker_init(&waker);
    test_arithmetic();
    test_memory();
    test_mutexes();
    test_conditions();
    test_clocks();
    test_sleeps();
    test_fork();
#ifdef _WIN32
    test_ctrl_c();
#endif
#ifdef HWHEEL_POSIX
    test_descriptors_beyond_pselect();
#endif
    hw_cond_destroy(&cond);
    hw_mutex_destroy(&mutex);
    return failures;
}
