/* The command line of the plain half of the core:
 *
 *   plain inputs FAULT FILE...        compare the core with the model on these inputs
 *   plain random FAULT SEED COUNT     the same on COUNT random inputs
 *   plain threads SECONDS SEED        threads over two timers, for a sanitizer to watch
 *
 * FAULT is the number of a planted fault of plain_faults.py; 0 is none. Compiled with LIBFUZZER, it has libFuzzer's entry points
 * in place of main(). */
#include "plain_core.c"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *PyMem_RawMalloc(size_t size) { return malloc(size); }
void *PyMem_RawCalloc(size_t count, size_t size) { return calloc(count, size); }
void *PyMem_RawRealloc(void *memory, size_t size) { return realloc(memory, size); }
void PyMem_RawFree(void *memory) { free(memory); }

/* --- one thread, compared with the model --- */

enum { LONGEST_INPUT = 2048 };

static int64_t inputs, operations;

void fail(const char *what, int64_t found, int64_t expected)
{
    fprintf(stderr, "%s: found %" PRId64 ", expected %" PRId64 ", at operation %" PRId64 " of input %" PRId64 "\n", what,
            found, expected, life_operations, inputs + 1);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    operations += life_run(data, size);
    inputs++;
    return 0;
}

static int run_files(int count, char **names)
{
    static uint8_t data[1 << 20];
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        size_t size;
        if (file == NULL) {
            perror(names[i]);
            return 1;
        }
        size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}

static void run_random(uint64_t seed, int64_t count)
{
    static uint8_t data[LONGEST_INPUT];
    uint64_t random = seed * 0x9E3779B97F4A7C15u | 1;
    while (count-- > 0) {
        size_t size = draw(&random, LONGEST_INPUT);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)draw(&random, 256);
        LLVMFuzzerTestOneInput(data, size);
    }
}

/* --- many threads --- */

typedef struct Scene Scene;

enum { THREADS = 20, ROUND_MS = 400 };

typedef struct {
    void (*run)(Scene *, uint64_t);
    Scene *scene;
    uint64_t seed;
    pthread_t thread;
} Worker;

static Worker workers[THREADS];
static int worker_count;
static uint64_t next_seed;
static int round_is_over;

static void sleep_ms(long ms)
{
    struct timespec duration = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&duration, NULL);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *worker_main(void *argument)
{
    Worker *self = argument;
    self->run(self->scene, self->seed);
    return NULL;
}

static void worker_start(void (*run)(Scene *, uint64_t), Scene *scene)
{
    Worker *self = &workers[worker_count++];
    next_seed += 0x9E3779B97F4A7C15u;
    *self = (Worker){.run = run, .scene = scene, .seed = next_seed | 1};
    if (pthread_create(&self->thread, NULL, worker_main, self) != 0)
        abort();
}

/* Forks every 20 ms, which runs the fork handlers with all their locks. The child exits at once. */
static void fork_repeatedly(Scene *scene, uint64_t seed)
{
    (void)scene, (void)seed;
    while (!__atomic_load_n(&round_is_over, __ATOMIC_ACQUIRE)) {
        pid_t child = fork();
        int status;
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            abort();
        sleep_ms(20);
    }
}

static void create_timers_repeatedly(Scene *scene, uint64_t seed)
{
    (void)scene;
    while (!__atomic_load_n(&round_is_over, __ATOMIC_ACQUIRE))
        timer_create_use_free(seed++);
}

static void start_workers(Scene *scene, int by_hand)
{
    worker_start(scene_change_tasks, scene);
    worker_start(scene_change_tasks, scene);
    worker_start(scene_change_batches, scene);
    worker_start(scene_make_calls, scene);
    worker_start(scene_inspect, scene);
    worker_start(scene_reap, scene);
    worker_start(by_hand ? scene_reap : scene_execute, scene);
}

/* Runs all workers on a timer with a real clock and on one with a clock set by hand. Returns the number of timers added. */
static int64_t run_round(void)
{
    Scene *scenes[2] = {scene_new(0), scene_new(1)};
    int64_t added = 0;
    __atomic_store_n(&round_is_over, 0, __ATOMIC_RELEASE);
    worker_count = 0;
    for (int i = 0; i < 2; i++)
        start_workers(scenes[i], i);
    worker_start(scene_make_calls, scenes[0]); /* two threads add through inboxes */
    worker_start(create_timers_repeatedly, NULL);
    worker_start(fork_repeatedly, NULL);
    sleep_ms(ROUND_MS);
    for (int i = 0; i < 2; i++) /* the workers go on meanwhile */
        scene_close(scenes[i]);
    sleep_ms(ROUND_MS / 10);
    for (int i = 0; i < 2; i++)
        scene_stop(scenes[i]);
    for (int i = 0; i < 2; i++)
        scene_end_workers(scenes[i]);
    __atomic_store_n(&round_is_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < worker_count; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        const char *fault = scene_free(scenes[i], &added);
        if (fault != NULL) {
            printf("BROKEN: %s\n", fault);
            exit(1);
        }
    }
    return added;
}

static void run_threads(double seconds, uint64_t seed)
{
    double end_s = now_s() + seconds;
    int64_t added = 0;
    int rounds = 0;
    next_seed = seed;
    scenes_begin();
    do {
        added += run_round();
        rounds++;
    } while (now_s() < end_s);
    printf("%" PRId64 " timers in %d rounds, every one accounted for\n", added, rounds);
}

#ifndef LIBFUZZER
int main(int count, char **arguments)
{
    const char *mode = count > 3 ? arguments[1] : "";
    if (strcmp(mode, "threads") == 0) {
        run_threads(atof(arguments[2]), strtoull(arguments[3], NULL, 10));
        return 0;
    }
    planted_fault = count > 3 ? atoi(arguments[2]) : 0;
    if (strcmp(mode, "inputs") == 0 && run_files(count - 3, arguments + 3) != 0)
        return 1;
    if (strcmp(mode, "random") == 0 && count > 4)
        run_random(strtoull(arguments[3], NULL, 10), atoll(arguments[4]));
    if (inputs == 0) {
        fprintf(stderr, "usage: plain inputs FAULT FILE... | random FAULT SEED COUNT | threads SECONDS SEED\n");
        return 2;
    }
    printf("%" PRId64 " inputs, %" PRId64 " operations\n", inputs, operations);
    return 0;
}
#endif
