/* The life of many timers, in one engine: an extension module for each, whose file defines
 *
 *     node                                  what a timer is: of type `node`, with the field `deadline`
 *     engine_begin()                        a new wheel at the time 0; false: no
 *     engine_make(node *)                   called for each before its first add
 *     engine_add(node *), engine_move(node *)     for node->deadline
 *     engine_cancel(node *)
 *     engine_expire(int64_t now)            calls fired(node) for what is due
 *     engine_end()
 *
 * and MODULE, its name, before it includes this file. Everything is inlined that the engine lets be inlined. */
#include <stdlib.h>

static long fired_count;
static int64_t fired_sum, fired_early, life_now;

static inline void fired(node *one)
{
    fired_count++;
    fired_sum += one->deadline;
    fired_early += one->deadline > life_now;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t random_word = 1;

static inline int64_t at_random(int64_t below)
{
    random_word = random_word * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_word >> 33) % (uint64_t)below);
}

/* live(timers, reach, pairs) -> (ns of add, of a pair, of a cancel, of a move, of an expiry, fired, sum of deadlines, early) */
static PyObject *live(PyObject *self, PyObject *arguments)
{
    long timers, reach, pairs, i, tenth;
    double begin, add, pair, cancel, move, expire;
    node *nodes;
    long *order;
    if (!PyArg_ParseTuple(arguments, "lll", &timers, &reach, &pairs))
        return NULL;
    nodes = (node *)calloc((size_t)timers + 1, sizeof(node));
    order = (long *)malloc((size_t)timers * sizeof(long));
    if (nodes == NULL || order == NULL || !engine_begin()) {
        free(nodes);
        free(order);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    random_word = 1;
    fired_count = 0;
    fired_sum = fired_early = 0;
    tenth = timers / 10;
    for (i = 0; i < timers; i++) {
        order[i] = i;
        nodes[i].deadline = 1 + at_random(reach);
    }
    for (i = timers - 1; i > 0; i--) {
        long other = at_random(i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (i = 0; i <= timers; i++)
        engine_make(&nodes[i]);
    begin = seconds();
    for (i = 0; i < timers; i++)
        engine_add(&nodes[i]);
    add = seconds() - begin;
    begin = seconds();
    for (i = 0; i < pairs; i++) {
        nodes[timers].deadline = 30000;
        engine_add(&nodes[timers]);
        engine_cancel(&nodes[timers]);
    }
    pair = seconds() - begin;
    begin = seconds();
    for (i = 0; i < tenth; i++)
        engine_cancel(&nodes[order[i]]);
    cancel = seconds() - begin;
    begin = seconds();
    for (i = tenth; i < 2 * tenth; i++) {
        nodes[order[i]].deadline = 1 + (nodes[order[i]].deadline * 7 + 30000) % reach;
        engine_move(&nodes[order[i]]);
    }
    move = seconds() - begin;
    begin = seconds();
    for (life_now = 1; life_now < reach + 4; life_now += reach / 1000 + 1)
        engine_expire(life_now);
    life_now = reach + 4;
    engine_expire(life_now);
    expire = seconds() - begin;
    engine_end();
    free(nodes);
    free(order);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("dddddlLL", add * 1e9 / timers, pair * 1e9 / pairs, cancel * 1e9 / tenth, move * 1e9 / tenth,
                         expire * 1e9 / (timers - tenth), fired_count, (long long)fired_sum, (long long)fired_early);
}

static PyMethodDef methods[] = {{"live", live, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "life", NULL, -1, methods, NULL, NULL, NULL, NULL};
