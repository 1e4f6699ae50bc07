/* The scheduler, and its command line.
 *
 *   plain PLANTED SCENARIO all FAULTS PREEMPTIONS [CHOICES]     every schedule with at most so many faults and preemptions
 *   plain PLANTED SCENARIO random FAULTS SEED [COUNT]           COUNT random schedules
 *
 * With CHOICES, or without COUNT, it runs one schedule and prints its steps. PLANTED is the number of a fault of planted.py; 0 is none.
 *
 * Threads are coroutines of one thread of the system. Before each step (controlled.h) the scheduler chooses which of them
 * continues. A schedule is the list of these choices, and of the faults among them. The search runs one schedule after
 * another, each from the beginning. It repeats the choices of the previous schedule up to the last one that has an
 * alternative, and takes the alternative there.
 *
 * Exhaustive: a switch away from a thread that could continue is a preemption (Musuvathi and Qadeer, "Iterative Context Bounding
 * for Systematic Testing of Multithreaded Programs", 2007). A preempted thread sleeps until another thread makes a step that
 * depends on its own next step. If it continued earlier, the search drops the schedule: another schedule preempts the thread one
 * step later, and reaches the same states with no more preemptions.
 *
 * Random: probabilistic concurrency testing (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
 * Finding Bugs", 2010). The thread with the highest priority runs, and at a few random steps the running thread gets the
 * lowest priority.
 *
 * Compiled with RACES, each thread is a fiber of ThreadSanitizer, and a switch orders nothing. So in each schedule the sanitizer
 * reports any two accesses that neither a lock nor an atomic access puts in an order. */
#include "controlled.h"
#include "plain_core.h"
#include "scheduler.h"
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

int world_inboxes, world_meetings; /* HW_INBOXES and HW_MEETINGS of the core */

enum {
    THREADS = 10, /* 0 ends the scenario; the last ones are started on the way */
    SCRIPTED = 5,
    STACK = 1 << 17,
    OPERATIONS = 8,
    LONGEST = 20000, /* steps: a longer schedule makes no progress */
    SPINS = 8,       /* a thread that locks or sleeps so often while no other runs waits for another one */
    CHANGES = 3,     /* of priorities, in a random schedule */
    ARENA = 1 << 20,
    LAST_MS = START_MS + 300
};

typedef struct {
    const char *name;
    void (*run)(int64_t, int64_t, int64_t);
    int64_t arguments[3];
} Operation;

typedef struct {
    jmp_buf base, here; /* at the beginning, and where it waits in a step */
    enum StepKind kind; /* the next step */
    const void *object;
    int64_t until_ns;  /* end of a sleep */
    int64_t target_ms; /* the time for which it was asked to wake up */
    const char *doing; /* for traces: the operation of its scenario */
    int exists, runs, ended;
    int sleeps;      /* preempted, and no other step has mattered to it since */
    int is_signaled; /* its condition */
    int is_server;   /* may wait forever */
    int spins;
    int64_t ran_at; /* its latest step */
    int priority;
} Thread;

enum Outcome { BEGINS, DONE, DROPPED, FAILED };

static Thread threads[THREADS];
static char stacks[THREADS][STACK] __attribute__((aligned(64)));
static Operation scripts[THREADS][OPERATIONS];
static int scripted, lengths[THREADS], current;
static jmp_buf outside;
static int64_t now_ns, steps, longest;
static int64_t step_of_ms[LAST_MS - START_MS + 1]; /* when the clock reached each time; INT64_MAX: not yet */
static char failure[200];
static int tracing;

/* The plan: the choices of the schedule, and the number of options of each. */
static struct {
    uint8_t chosen, options;
} plan[LONGEST];
static int planned, depth, preemptions, most_preemptions, faults_left, most_faults;

static int is_random;
static uint64_t chance;
static int64_t change_at[CHANGES];

/* --- data races ---------------------------------------------------------------------------------------------------- */

#ifdef RACES
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>
void AnnotateBenignRaceSized(const char *file, int line, const volatile void *place, size_t size, const char *why);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);

#define WATCHES_RACES 1
static void *fibers[THREADS + 1]; /* the last one is the search */

/* Creates the fiber of a thread again, because the sanitizer would keep the calls that the last schedule did not finish. */
static void fiber_create(int number)
{
    fibers[THREADS] = __tsan_get_current_fiber();
    if (fibers[number] != NULL)
        __tsan_destroy_fiber(fibers[number]);
    fibers[number] = __tsan_create_fiber(0);
}

static void order_after(void *place) { __tsan_acquire(place); }
static void order_before(void *place) { __tsan_release(place); }

static void fiber_switch(int next)
{
    if (current >= 0 && current < THREADS)
        order_before(stacks[current]);
    __tsan_switch_to_fiber(fibers[next], __tsan_switch_to_fiber_no_sync);
}

void ignore_races(void *place, size_t size) { AnnotateBenignRaceSized(__FILE__, __LINE__, place, size, "the model"); }

void ignore_reads(int begin)
{
    if (begin)
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    else
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
#define WATCHES_RACES 0
static void fiber_create(int number) { (void)number; }
static void order_after(void *place) { (void)place; }
static void order_before(void *place) { (void)place; }
static void fiber_switch(int next) { (void)next; }
void ignore_races(void *place, size_t size) { (void)place, (void)size; }
void ignore_reads(int begin) { (void)begin; }
#endif

/* Order all earlier steps of all threads before the next step of the current one. */
static void order_after_all(void)
{
    for (int i = 0; i < THREADS; i++)
        order_after(stacks[i]);
}

static void leave(enum Outcome outcome)
{
    fiber_switch(THREADS);
    _longjmp(outside, outcome);
}

void fail(const char *what, int64_t found, int64_t expected)
{
    snprintf(failure, sizeof failure, "%s: found %" PRId64 ", expected %" PRId64, what, found, expected);
    leave(FAILED);
}

static uint64_t draw(uint64_t below)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance % below;
}

/* --- memory: an arena for each schedule ---------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    int64_t is_live;
} Block;

static char arena[ARENA] __attribute__((aligned(64)));
static size_t arena_used;
static int64_t blocks_live;

void *PyMem_RawMalloc(size_t size)
{
    Block *block = (Block *)(arena + arena_used);
    size_t whole = (sizeof(Block) + size + 15) & ~(size_t)15;
    if (decide_fault())
        return NULL;
    if (arena_used + whole > ARENA)
        fail("memory of a schedule", (int64_t)(arena_used + whole), ARENA);
    arena_used += whole;
    *block = (Block){size, 1};
    blocks_live++;
    return block + 1;
}

void *PyMem_RawCalloc(size_t count, size_t size)
{
    void *memory = PyMem_RawMalloc(count * size);
    return memory == NULL ? NULL : memset(memory, 0, count * size);
}

void PyMem_RawFree(void *memory)
{
    Block *block = (Block *)memory - 1;
    if (memory == NULL)
        return;
    if (!block->is_live)
        fail("a block of memory is freed twice", 1, 0);
    block->is_live = 0;
    blocks_live--;
    memset(memory, 0xDB, block->size);
}

void *PyMem_RawRealloc(void *memory, size_t size)
{
    void *larger = PyMem_RawMalloc(size);
    if (larger != NULL && memory != NULL) {
        memcpy(larger, memory, ((Block *)memory - 1)->size);
        PyMem_RawFree(memory);
    }
    return larger;
}

int64_t memory_live(void) { return blocks_live; }

/* --- choices ------------------------------------------------------------------------------------------------------- */

static int decide(int options)
{
    if (is_random)
        return (int)draw((uint64_t)options);
    if (depth == planned) {
        if (planned == LONGEST)
            fail("choices", planned, LONGEST);
        plan[planned].chosen = 0;
        plan[planned++].options = (uint8_t)options;
    }
    if (plan[depth].options != options && !tracing)
        fail("options in a repeated schedule", options, plan[depth].options);
    return plan[depth++].chosen;
}

/* Return true to inject a fault here. */
int decide_fault(void)
{
    if (current <= 0 || current > scripted || faults_left == 0)
        return 0;
    if (is_random ? draw(32) != 0 : decide(2) == 0)
        return 0;
    faults_left--;
    if (tracing)
        printf("thread %d: a fault\n", current);
    return 1;
}

/* The way of a fork: 1 in the child. */
int decide_child(void) { return decide(2); }

static int is_enabled(const Thread *self)
{
    if (!self->exists || self->ended)
        return 0;
    switch (self->kind) {
    case STEP_LOCK:
        return ((const hw_mutex *)self->object)->holder == 0;
    case STEP_WAKE:
        return ((const hw_waker *)self->object)->is_set || now_ns >= self->until_ns;
    case STEP_WAIT:
        return self->is_signaled;
    case STEP_QUIET:
        return 0;
    default:
        return 1;
    }
}

static int depends(const Thread *a, const Thread *b)
{
    if (a->kind == STEP_ADVANCE || b->kind == STEP_ADVANCE) {
        enum StepKind other = a->kind == STEP_ADVANCE ? b->kind : a->kind;
        return other == STEP_CLOCK || other == STEP_WAKE || other == STEP_ADVANCE;
    }
    return a->object == b->object && a->object != NULL && (a->kind >= STEP_WRITE || b->kind >= STEP_WRITE);
}

static void set_time(int64_t ns)
{
    int64_t from_ms = now_ns / 1000000, to_ms = ns / 1000000;
    for (int64_t ms = from_ms + 1; ms <= to_ms && ms <= LAST_MS; ms++)
        step_of_ms[ms - START_MS] = steps;
    now_ns = ns;
}

int64_t step_at_time(int64_t ms) { return ms > LAST_MS ? INT64_MAX : ms < START_MS ? 0 : step_of_ms[ms - START_MS]; }

/* All threads wait. Let the time pass until the next sleeper wakes up, or let thread 0 go on. */
static int wait_for_time(void)
{
    int64_t until_ns = INT64_MAX, target_ms = INT64_MAX;
    for (int i = 0; i < THREADS; i++) {
        const Thread *self = &threads[i];
        if (!self->exists || self->ended || self->kind != STEP_WAKE)
            continue;
        if (self->until_ns < until_ns)
            until_ns = self->until_ns;
        if (self->target_ms < target_ms)
            target_ms = self->target_ms;
    }
    world_all_wait(target_ms);
    if (until_ns < INT64_MAX) {
        set_time(until_ns);
        if (tracing)
            printf("the time is %" PRId64 " ms\n", now_ns / 1000000);
        return 1;
    }
    for (int i = 1; i < THREADS; i++)
        if (threads[i].exists && !threads[i].ended && !threads[i].is_server)
            fail("deadlock: a thread waits for ever", i, 0);
    return 0;
}

/* The threads that may go on after `me` (-1: none), the first one without a preemption. */
static int find_options(int me, int *options)
{
    int count = 0, is_stuck = me >= 0 && threads[me].spins > SPINS;
    int goes_on = me >= 0 && is_enabled(&threads[me]);
    int sleepers = 0;
    if (goes_on && !is_stuck)
        options[count++] = me;
    if (!goes_on || is_stuck || is_random || preemptions < most_preemptions) {
        for (int i = 0; i < THREADS; i++) {
            if (i == me || !is_enabled(&threads[i]))
                continue;
            if (threads[i].sleeps)
                sleepers++;
            else
                options[count++] = i;
        }
    }
    if (count == 0 && goes_on)
        options[count++] = me;
    if (count == 0 && sleepers)
        leave(DROPPED);
    return count;
}

/* A thread that waits for another one, without the scheduler's help, lets the one go on that has waited longest. */
static int longest_waiting(const int *options, int count)
{
    int best = options[0];
    for (int i = 1; i < count; i++)
        if (threads[options[i]].ran_at < threads[best].ran_at)
            best = options[i];
    return best;
}

static int highest_priority(const int *options, int count)
{
    int best = options[0];
    for (int i = 1; i < count; i++)
        if (threads[options[i]].priority > threads[best].priority)
            best = options[i];
    return best;
}

static int choose(int me)
{
    int options[THREADS], count, next;
    while ((count = find_options(me, options)) == 0)
        if (!wait_for_time()) {
            if (threads[0].kind != STEP_QUIET)
                fail("deadlock", 1, 0);
            return 0;
        }
    if (is_random) {
        if (me >= 0 && threads[me].spins > SPINS)
            threads[me].priority = -(int)steps;
        for (int i = 0; i < CHANGES; i++)
            if (me >= 0 && steps == change_at[i])
                threads[me].priority = -(int)steps;
        return highest_priority(options, count);
    }
    if (me >= 0 && threads[me].spins > SPINS)
        return longest_waiting(options, count);
    next = count == 1 ? options[0] : options[decide(count)];
    if (me >= 0 && next != me && options[0] == me) {
        preemptions++;
        threads[me].sleeps = 1;
    }
    return next;
}

/* --- threads ------------------------------------------------------------------------------------------------------- */

static const char *const STEPS[] = {"reads",  "reads the clock", "wakes up by",     "writes",   "moves the clock", "locks",
                                    "tries",  "unlocks",         "has waited for", "begins",   "is last"};

static void go_to(int next)
{
    Thread *self = &threads[next];
    if (next != current)
        for (int i = 0; i < THREADS; i++)
            threads[i].spins = 0;
    fiber_switch(next);
    current = next;
    if (self->runs)
        _longjmp(self->here, 1);
    self->runs = 1;
    _longjmp(self->base, 1);
}

void step(enum StepKind kind, const void *object)
{
    Thread *self = &threads[current];
    int next;
    if (current < 0)
        return; /* while a scenario is set up */
    if (++steps > LONGEST)
        fail("steps without an end", steps, LONGEST);
    self->kind = kind;
    self->object = object;
    next = choose(current);
    if (next != current && _setjmp(self->here) == 0)
        go_to(next);
    self = &threads[current];
    self->ran_at = steps;
    for (int i = 0; i < THREADS; i++)
        if (threads[i].sleeps && depends(self, &threads[i]))
            threads[i].sleeps = 0;
    if (tracing)
        printf("thread %d, %s: %s %s\n", current, self->doing, STEPS[self->kind], world_name(self->object));
}

static void thread_end(void)
{
    threads[current].ended = 1;
    threads[current].runs = 0;
    go_to(choose(-1));
}

static void thread_main(void)
{
    int me = current;
    if (_setjmp(threads[me].base) == 0)
        leave(1);
    me = current;
    order_after(&threads[me]);
    if (me == 0) {
        threads[me].doing = "end";
        world_end();
        leave(DONE);
    }
    for (int i = 0; i < lengths[me]; i++) {
        const Operation *operation = &scripts[me][i];
        threads[me].doing = operation->name;
        step(STEP_BEGIN, NULL);
        operation->run(operation->arguments[0], operation->arguments[1], operation->arguments[2]);
    }
    thread_end();
}

static void thread_create(int number)
{
    static ucontext_t context;
    current = number;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[number];
    context.uc_stack.ss_size = STACK;
    makecontext(&context, thread_main, 0);
    fiber_create(number);
    if (_setjmp(outside) == 0) {
        fiber_switch(number);
        setcontext(&context);
    }
}

static void thread_begin(int number)
{
    threads[number].exists = 1;
    threads[number].ended = 0;
    threads[number].kind = STEP_BEGIN;
    threads[number].doing = "begin";
    threads[number].priority = is_random ? 1 + (int)draw(1000) : 0;
    order_before(&threads[number]);
}

/* Start a thread for one operation. */
void thread_start(void (*run)(int64_t, int64_t, int64_t))
{
    int number = SCRIPTED + 1;
    while (number < THREADS && threads[number].exists)
        number++;
    if (number == THREADS)
        fail("threads", number, THREADS - 1);
    scripts[number][0] = (Operation){"started", run, {0, 0, 0}};
    lengths[number] = 1;
    thread_begin(number);
}

/* The child of a fork has no other threads. */
void threads_end_others(void)
{
    for (int i = 1; i < THREADS; i++)
        if (i != current)
            threads[i].ended = 1;
    order_after_all();
}

void thread_is_server(void) { threads[current].is_server = 1; }
int64_t step_number(void) { return steps; }
int hw_thread_number(void) { return current; }

void wait_until_quiet(void)
{
    step(STEP_QUIET, NULL);
    order_after_all();
}

/* --- the platform -------------------------------------------------------------------------------------------------- */

void hw_mutex_init(hw_mutex *self) { self->holder = 0; }

void hw_mutex_lock(hw_mutex *self)
{
    step(STEP_LOCK, self);
    if (current >= 0)
        threads[current].spins++;
    self->holder = current + 1;
    order_after(self);
}

int hw_mutex_trylock(hw_mutex *self)
{
    step(STEP_TRY_LOCK, self);
    if (self->holder)
        return 0;
    self->holder = current + 1;
    order_after(self);
    return 1;
}

void hw_mutex_unlock(hw_mutex *self)
{
    step(STEP_UNLOCK, self);
    if (self->holder != current + 1)
        fail("a mutex is unlocked by a thread that does not hold it", current, self->holder - 1);
    order_before(self);
    self->holder = 0;
}

void hw_cond_wait(hw_cond *self, hw_mutex *mutex)
{
    hw_mutex_unlock(mutex);
    threads[current].is_signaled = decide_fault(); /* a spurious wake-up */
    step(STEP_WAIT, self);
    hw_mutex_lock(mutex);
}

static void signal_some(hw_cond *self, int most)
{
    step(STEP_WRITE, self);
    for (int i = 0; i < THREADS && most > 0; i++)
        if (threads[i].exists && !threads[i].ended && threads[i].kind == STEP_WAIT && threads[i].object == self
            && !threads[i].is_signaled) {
            threads[i].is_signaled = 1;
            most--;
        }
}

void hw_cond_signal(hw_cond *self) { signal_some(self, 1); }
void hw_cond_broadcast(hw_cond *self) { signal_some(self, THREADS); }

static void read_clock(void)
{
    step(STEP_CLOCK, NULL);
    if (decide_fault())
        set_time(now_ns + 3000000);
    now_ns++; /* a clock that two threads never read the same from */
}

int64_t hw_clock_ns(void)
{
    read_clock();
    return now_ns;
}

void hw_clock_read(int boottime, int64_t *ms_out, int32_t *ns_out)
{
    (void)boottime;
    read_clock();
    *ms_out = now_ns / 1000000;
    *ns_out = (int32_t)(now_ns % 1000000);
}

void clock_advance(int64_t ms)
{
    step(STEP_ADVANCE, NULL);
    set_time(now_ns + ms * 1000000);
}

int64_t clock_now_ms(void) { return now_ns / 1000000; }

void hw_waker_init(hw_waker *self) { *self = (hw_waker){0, 0}; }
int hw_waker_is_open(const hw_waker *self) { return self->is_open; }
int hw_waker_open(hw_waker *self, int boottime)
{
    (void)boottime;
    return self->is_open = 1;
}
void hw_waker_close(hw_waker *self) { hw_waker_init(self); }

void hw_waker_wake(hw_waker *self)
{
    step(STEP_WRITE, self);
    self->is_set = 1;
}

void hw_waker_clear(hw_waker *self)
{
    step(STEP_WRITE, self);
    self->is_set = 0;
}

int hw_waker_sleep(hw_waker *self, int64_t timeout_ns, int64_t alarm_ms, void *interruption)
{
    (void)interruption;
    read_clock();
    if (!self->is_open)
        fail("a thread sleeps on a closed waker", 1, 0);
    if (decide_fault())
        return -1;
    threads[current].spins++;
    threads[current].target_ms = alarm_ms;
    threads[current].until_ns = timeout_ns < 0 ? INT64_MAX : now_ns + timeout_ns;
    step(STEP_WAKE, self);
    return self->is_set;
}

/* --- schedules ----------------------------------------------------------------------------------------------------- */

static void run_prepare(void)
{
    order_after_all();
    arena_used = 0;
    blocks_live = 0;
    now_ns = START_MS * (int64_t)1000000;
    memset(step_of_ms, 127, sizeof step_of_ms);
    step_of_ms[0] = 0;
    steps = preemptions = depth = 0;
    faults_left = most_faults;
    failure[0] = 0;
    for (int i = 0; i < THREADS; i++) {
        Thread *self = &threads[i];
        if (WATCHES_RACES && self->runs)
            thread_create(i);
        self->exists = self->runs = self->ended = self->sleeps = self->is_signaled = self->is_server = self->spins = 0;
        self->ran_at = 0;
    }
    current = -1;
    world_begin();
    for (int i = 0; i < lengths[0]; i++)
        scripts[0][i].run(scripts[0][i].arguments[0], scripts[0][i].arguments[1], scripts[0][i].arguments[2]);
    for (int i = 0; i <= scripted; i++)
        thread_begin(i);
    threads[0].kind = STEP_QUIET;
}

static enum Outcome run(void)
{
    volatile int outcome;
    run_prepare();
    outcome = _setjmp(outside);
    if (outcome == BEGINS)
        go_to(choose(-1));
    if (steps > longest)
        longest = steps;
    return (enum Outcome)outcome;
}

static void begin_random(uint64_t seed)
{
    chance = (seed + 1) * 0x9E3779B97F4A7C15u | 1;
    for (int i = 0; i < 4; i++)
        draw(2);
    for (int i = 0; i < CHANGES; i++)
        change_at[i] = (int64_t)draw(250);
}

static int64_t runs, dropped;
static uint64_t present_seed;

/* Prints the failure and the arguments that repeat its schedule. */
static int report(void)
{
    printf("%s, after %" PRId64 " schedules\n", failure, runs);
    if (is_random)
        printf("replay: random %d %" PRIu64 "\n", most_faults, present_seed);
    else {
        printf("replay: all %d %d .", most_faults, most_preemptions);
        for (int i = 0, same = 0; i < depth; i++, same++)
            if (plan[i].chosen) {
                printf("%d%c", same, 'a' + plan[i].chosen);
                same = -1;
            }
        putchar('\n');
    }
    fflush(stdout);
    return 1;
}

#ifdef RACES
static void raced(void)
{
    snprintf(failure, sizeof failure, "data race");
    report();
}
#endif

static void crashed(int number)
{
    snprintf(failure, sizeof failure, number == SIGVTALRM ? "a step that does not end" : "signal %d", number);
    report();
    _exit(1);
}

/* Measures processor time, because other programs may keep this one from running. */
static void watch(void)
{
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value.tv_sec = 3}, NULL);
}

static void watch_over(int number)
{
    static int64_t seen = -1;
    if (seen == runs + steps)
        crashed(number);
    seen = runs + steps;
    watch();
}

static int search_all(void)
{
    for (;;) {
        enum Outcome outcome = run();
        runs++;
        dropped += outcome == DROPPED;
        if (outcome == FAILED)
            return 0;
        while (planned > 0 && plan[planned - 1].chosen + 1 == plan[planned - 1].options)
            planned--;
        if (planned == 0)
            return 1;
        plan[planned - 1].chosen++;
    }
}

static int search_random(int64_t count, uint64_t seed)
{
    for (; runs < count; runs++) {
        present_seed = seed + (uint64_t)runs;
        begin_random(present_seed);
        if (run() == FAILED)
            return 0;
    }
    return 1;
}

static const Operation NAMED[] = {
    {"add", op_add},         {"cancel", op_cancel},   {"move", op_move},         {"batch", op_batch},
    {"extend", op_extend},   {"drop", op_drop},       {"shift", op_shift},       {"take", op_take},
    {"reap", op_reap},       {"execute", op_execute}, {"sleep", op_sleep},       {"pass", op_pass},
    {"close", op_close},     {"drain", op_drain},     {"disband", op_disband},   {"look", op_look},
    {"fork", op_fork},       {"other", op_other},     {"worker", op_worker},     {"inboxes", op_inboxes},
    {"limit", op_limit},     {"keep", op_keep},
};

/* Parses scripts: threads are separated by "|", operations by ",". The first script prepares the scenario. Returns false if a
 * word is unknown. */
static int parse(char *text)
{
    char *thread, *operation, *word, *after_thread, *after_operation, *after_word;
    for (thread = strtok_r(text, "|", &after_thread); thread; thread = strtok_r(NULL, "|", &after_thread)) {
        int number = scripted++;
        if (number > SCRIPTED)
            return 0;
        for (operation = strtok_r(thread, ",", &after_operation); operation;
             operation = strtok_r(NULL, ",", &after_operation)) {
            Operation *made = &scripts[number][lengths[number]];
            word = strtok_r(operation, " ", &after_word);
            if (word == NULL)
                continue;
            lengths[number]++;
            for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED; i++)
                if (strcmp(word, NAMED[i].name) == 0)
                    *made = NAMED[i];
            if (lengths[number] > OPERATIONS || made->run == NULL)
                return 0;
            for (int i = 0; i < 3 && (word = strtok_r(NULL, " ", &after_word)); i++)
                made->arguments[i] = atoll(word);
        }
    }
    scripted--;
    return 1;
}

int main(int count, char **arguments)
{
    int is_fine;
    if (count < 6 || !parse(arguments[2])) {
        fprintf(stderr, "usage: see the head of scheduler.c\n");
        return 2;
    }
    signal(SIGSEGV, crashed);
    signal(SIGABRT, crashed);
    signal(SIGVTALRM, watch_over);
    watch();
    for (int i = 0; i < THREADS; i++)
        thread_create(i);
#ifdef RACES
    __sanitizer_set_death_callback(raced);
#endif
    is_random = strcmp(arguments[3], "random") == 0;
    tracing = count == 6 && is_random;
    planted_fault = atoi(arguments[1]);
    most_faults = atoi(arguments[4]);
    if (is_random) {
        is_fine = search_random(count > 6 ? atoll(arguments[6]) : 1, strtoull(arguments[5], NULL, 10));
    } else if (count == 6) {
        most_preemptions = atoi(arguments[5]);
        is_fine = search_all();
    } else {
        tracing = 1;
        most_preemptions = atoi(arguments[5]);
        for (char *c = arguments[6] + 1; *c;) {
            planned += (int)strtol(c, &c, 10);
            plan[planned++].chosen = (uint8_t)(*c++ - 'a');
        }
        is_fine = run() != FAILED;
    }
    if (!is_fine)
        return report();
    printf("%" PRId64 " schedules, %" PRId64 " dropped, up to %" PRId64 " steps\n", runs, dropped, longest);
    return 0;
}
