/* hammer(seed, steps): random operations on a wheel of its own without the GIL, so that several threads run at once.
 *
 * Returns the number of called entries. Raises AssertionError if an entry is early, or is lost or called twice. test_model.py
 * checks the order. */
#include <Python.h>
#include "hwheel.h"

#define ENTRIES 512

static const hwheel_api *hw;

typedef struct {
    hwheel_wheel *wheel;
    int64_t now, pending, calls;
    uint64_t random;
    const char *fault;
    hwheel_entry entries[ENTRIES];
    int64_t deadlines[ENTRIES];
} trial;

static uint64_t at_random(trial *of, uint64_t below)
{
    of->random = of->random * 6364136223846793005u + 1442695040888963407u;
    return (of->random >> 33) % below;
}

static void act(trial *of);

static void on_due(hwheel_wheel *wheel, hwheel_entry *entry)
{
    trial *of = (trial *)entry->data;
    if (wheel != of->wheel || of->deadlines[entry - of->entries] > hw->now(wheel))
        of->fault = "called early or with another wheel";
    of->pending--;
    of->calls++;
    if (at_random(of, 3) == 0)
        act(of);
}

static void act(trial *of)
{
    static const uint64_t reach[] = {4, 40, 400, 4000, 400000, 40000000};
    int number = (int)at_random(of, ENTRIES), was_pending = hwheel_is_pending(&of->entries[number]);
    hwheel_entry *entry = &of->entries[number];
    int64_t deadline = of->now + (int64_t)at_random(of, reach[at_random(of, 6)]);
    if (at_random(of, 4) == 0) {
        of->pending -= was_pending;
        if (hw->cancel(of->wheel, entry) != was_pending)
            of->fault = "cancel() returned the wrong status";
        return;
    }
    if (!was_pending)
        hwheel_entry_init(entry, on_due, of);
    if ((was_pending ? hw->move : hw->add)(of->wheel, entry, deadline) != HWHEEL_OK)
        of->fault = "add() or move() returned the wrong status";
    of->pending += !was_pending;
    of->deadlines[number] = deadline;
}

static void run(trial *of, uint64_t seed, long steps)
{
    of->random = seed;
    of->wheel = hw->create((int64_t[]){1, 1, 7}[seed % 3], (int32_t[]){0, 2, 20, 512}[seed % 4], 0);
    for (int i = 0; i < ENTRIES; i++)
        hwheel_entry_init(&of->entries[i], on_due, of);
    while (steps-- > 0 && of->fault == NULL) {
        for (int i = (int)at_random(of, 8); i >= 0; i--)
            act(of);
        of->now += (int64_t)at_random(of, 400);
        hw->advance(of->wheel, of->now, (int32_t)at_random(of, 50));
        if (hw->count(of->wheel) != of->pending)
            of->fault = "count() differs";
    }
    if (of->fault == NULL)
        of->fault = hw->check(of->wheel);
    if (hw->clear(of->wheel, NULL) != of->pending || hw->destroy(of->wheel) != HWHEEL_OK)
        of->fault = "clear() has not removed all entries";
}

static PyObject *hammer(PyObject *self, PyObject *arguments)
{
    unsigned long long seed;
    long steps;
    trial *of;
    PyObject *calls = NULL;
    if (!PyArg_ParseTuple(arguments, "Kl", &seed, &steps) || (of = PyMem_RawCalloc(1, sizeof(trial))) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    run(of, seed, steps);
    Py_END_ALLOW_THREADS
    if (of->fault != NULL)
        PyErr_SetString(PyExc_AssertionError, of->fault);
    else
        calls = PyLong_FromLongLong(of->calls);
    PyMem_RawFree(of);
    return calls;
}

static PyMethodDef methods[] = {{"hammer", hammer, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "hammer", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_hammer(void)
{
    hw = hwheel_import();
    return hw == NULL ? NULL : PyModule_Create(&module);
}
