/* Starts the threads of races.pxi: rounds of a timer with threads of its own and of one whose clock is moved by hand, for some
 * seconds. What ThreadSanitizer finds it says itself, and the program ends with its exit code.
 *
 * usage: races SECONDS SEED */
#include "races_core.c"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Without Python there is nobody else to give memory. */
void *PyMem_RawMalloc(size_t size) { return malloc(size); }
void *PyMem_RawCalloc(size_t count, size_t size) { return calloc(count, size); }
void *PyMem_RawRealloc(void *memory, size_t size) { return realloc(memory, size); }
void PyMem_RawFree(void *memory) { free(memory); }

typedef struct Scene Scene;

enum { THREADS = 20 };

typedef struct {
    void (*run)(Scene *, uint64_t);
    Scene *scene;
    uint64_t chance;
    pthread_t thread;
} Worker;

static Worker workers[THREADS];
static int working;
static uint64_t chance;
static int over;

static void nap_ms(long ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&nap, NULL);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *work(void *argument)
{
    Worker *self = argument;
    self->run(self->scene, self->chance);
    return NULL;
}

static void start(void (*run)(Scene *, uint64_t), Scene *scene)
{
    Worker *self = &workers[working++];
    chance += 0x9E3779B97F4A7C15u;
    self->run = run;
    self->scene = scene;
    self->chance = chance | 1;
    if (pthread_create(&self->thread, NULL, work, self) != 0)
        abort();
}

/* Forks now and then: the handlers want every lock. The child has nothing to do. */
static void fork_now_and_then(Scene *scene, uint64_t chance)
{
    (void)scene, (void)chance;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        pid_t child = fork();
        int status;
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            abort();
        nap_ms(20);
    }
}

static void come_and_go(Scene *scene, uint64_t chance)
{
    (void)scene;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        timers_come_and_go(chance++);
}

static int64_t round_of(long ms)
{
    Scene *scenes[2] = {scene_new(0), scene_new(1)};
    int64_t added = 0;
    __atomic_store_n(&over, 0, __ATOMIC_RELEASE);
    working = 0;
    for (int i = 0; i < 2; i++) {
        start(scene_change_tasks, scenes[i]);
        start(scene_change_tasks, scenes[i]);
        start(scene_change_batches, scenes[i]);
        start(scene_make_calls, scenes[i]);
        start(scene_look, scenes[i]);
        start(scene_reap, scenes[i]);
        start(i == 0 ? scene_execute : scene_reap, scenes[i]);
    }
    start(scene_make_calls, scenes[0]); /* whose adds go into inboxes */
    start(come_and_go, NULL);
    start(fork_now_and_then, NULL);
    nap_ms(ms);
    for (int i = 0; i < 2; i++) /* while the others go on */
        scene_close(scenes[i]);
    nap_ms(ms / 10);
    for (int i = 0; i < 2; i++)
        scene_stop(scenes[i]);
    for (int i = 0; i < 2; i++)
        scene_over(scenes[i]);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < working; i++)
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

int main(int count, char **arguments)
{
    double end_s = now_s() + (count > 1 ? atof(arguments[1]) : 1);
    int64_t added = 0;
    int rounds = 0;
    chance = count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    races_begin();
    do {
        added += round_of(400);
        rounds++;
    } while (now_s() < end_s);
    printf("%lld timers in %d rounds, every one accounted for\n", (long long)added, rounds);
    return 0;
}
