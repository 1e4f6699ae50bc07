/* Random operations on a wheel without the GIL. Each entry has an expectation, and its callback checks it.
 *
 * hammer(seed, steps) returns the number of called entries. shared(steps) uses one wheel for all threads, with a lock around
 * each step. Both raise AssertionError if an expectation fails. */
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include "hwheel.h"

#define ENTRIES 512

static const hwheel_api *hw;

typedef struct {
    hwheel_entry entry;
    int64_t deadline;
    uint64_t turn;      /* position among all adds and moves */
    int pending;
} expectation;

typedef struct {
    hwheel_wheel *wheel;
    int64_t tick, now, running, late_until;
    uint64_t turns, random, last_turn;
    int64_t last_tick, calls, pending;
    const char *fault;
    expectation entries[ENTRIES];
} trial;

static uint64_t at_random(trial *of, uint64_t below)
{
    of->random = of->random * 6364136223846793005u + 1442695040888963407u;
    return (of->random >> 33) % below;
}

static int64_t delay_at_random(trial *of)
{
    static const int64_t reach[] = {4, 40, 400, 4000, 400000, 40000000};
    return (int64_t)at_random(of, (uint64_t)reach[at_random(of, 6)]);
}

static void on_due(hwheel_wheel *wheel, hwheel_entry *entry);

static void act(trial *of)
{
    expectation *one = &of->entries[at_random(of, ENTRIES)];
    int64_t deadline = of->now + delay_at_random(of);
    int status;
    if (one->pending != hwheel_is_pending(&one->entry))
        of->fault = "an entry is pending that should not be, or the other way round";
    switch (at_random(of, 4)) {
    case 0:
        status = hw->cancel(of->wheel, &one->entry);
        if (status != one->pending)
            of->fault = "cancel said otherwise";
        of->pending -= status;
        one->pending = 0;
        return;
    case 1:
        status = hw->move(of->wheel, &one->entry, deadline);
        if (status != (one->pending ? HWHEEL_OK : HWHEEL_NOT_PENDING))
            of->fault = "move said otherwise";
        if (!one->pending)
            return;
        break;
    default:
        one->entry.callback = on_due;
        one->entry.data = of;
        status = hw->add(of->wheel, &one->entry, deadline);
        if (status != (one->pending ? HWHEEL_PENDING : HWHEEL_OK))
            of->fault = "add said otherwise";
        if (one->pending)
            return;
        of->pending++;
        one->pending = 1;
    }
    one->deadline = deadline;
    one->turn = ++of->turns;
}

static void on_due(hwheel_wheel *wheel, hwheel_entry *entry)
{
    trial *of = (trial *)entry->data;
    expectation *one = (expectation *)((char *)entry - offsetof(expectation, entry));
    int64_t tick = (one->deadline + of->tick - 1) / of->tick;
    if (wheel != of->wheel)
        of->fault = "called with another wheel";
    if (!one->pending)
        of->fault = "called twice, or after it was cancelled";
    if (one->deadline > hw->now(wheel))
        of->fault = "early";
    if (tick == of->last_tick && one->turn < of->last_turn)
        of->fault = "not in the order of one tick";
    of->last_tick = tick;
    of->last_turn = one->turn;
    of->pending--;
    of->calls++;
    one->pending = 0;
    if (hw->advance(wheel, of->now, 0) != HWHEEL_BUSY || hw->destroy(wheel) != HWHEEL_BUSY)
        of->fault = "not busy inside a callback";
    if (at_random(of, 3) == 0)
        act(of);
}

static void step(trial *of)
{
    int i, late = 0;
    for (i = (int)at_random(of, 8); i >= 0; i--)
        act(of);
    if (at_random(of, 2) == 0) {
        of->now += delay_at_random(of);
        of->last_tick = -1;
        hw->advance(of->wheel, of->now, (int32_t)at_random(of, 2) * (int32_t)at_random(of, 50));
    }
    if (hw->count(of->wheel) != of->pending)
        of->fault = "the count is wrong";
    if (hw->next(of->wheel) > of->now)
        for (i = 0; i < ENTRIES; i++)
            late += of->entries[i].pending && (of->entries[i].deadline + of->tick - 1) / of->tick * of->tick <= of->now;
    if (late)
        of->fault = "something is due, and next says otherwise";
}

static void begin(trial *of, uint64_t seed)
{
    memset(of, 0, sizeof(trial));
    of->random = seed;
    of->tick = (int64_t[]){1, 1, 7}[seed % 3];
    of->now = (int64_t)seed * 1000;
    of->wheel = hw->create(of->tick, (int32_t[]){0, 2, 20, 512}[seed % 4], of->now);
    of->last_tick = -1;
}

static void end(trial *of)
{
    int64_t left = of->pending;
    if (of->fault == NULL)
        of->fault = hw->check(of->wheel);
    if (hw->clear(of->wheel, NULL) != left || hw->count(of->wheel) != 0)
        of->fault = "clear did not take out all";
    if (hw->destroy(of->wheel) != HWHEEL_OK)
        of->fault = "not destroyed";
}

static PyObject *result(trial *of)
{
    if (of->fault != NULL) {
        PyErr_SetString(PyExc_AssertionError, of->fault);
        return NULL;
    }
    return PyLong_FromLongLong(of->calls);
}

static PyObject *hammer(PyObject *self, PyObject *arguments)
{
    unsigned long long seed;
    long steps;
    trial *of;
    PyObject *calls;
    if (!PyArg_ParseTuple(arguments, "Kl", &seed, &steps) || (of = PyMem_RawMalloc(sizeof(trial))) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    begin(of, seed);
    while (steps-- > 0 && of->fault == NULL)
        step(of);
    end(of);
    Py_END_ALLOW_THREADS
    calls = result(of);
    PyMem_RawFree(of);
    return calls;
}

static trial one_for_all;
static PyThread_type_lock lock;

static PyObject *shared(PyObject *self, PyObject *arguments)
{
    long steps;
    if (!PyArg_ParseTuple(arguments, "l", &steps))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    while (steps-- > 0) {
        PyThread_acquire_lock(lock, WAIT_LOCK);
        if (one_for_all.wheel == NULL)
            begin(&one_for_all, 4);
        step(&one_for_all);
        PyThread_release_lock(lock);
    }
    Py_END_ALLOW_THREADS
    return result(&one_for_all);
}

static PyMethodDef methods[] = {
    {"hammer", hammer, METH_VARARGS, NULL},
    {"shared", shared, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "hammer", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_hammer(void)
{
    hw = hwheel_import();
    lock = PyThread_allocate_lock();
    return hw == NULL || lock == NULL ? NULL : PyModule_Create(&module);
}
