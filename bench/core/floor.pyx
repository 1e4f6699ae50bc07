# cython: language_level=3, binding=False, freethreading_compatible=True
# The least that call_later can cost: a compiled method that takes its arguments and makes the object that it returns. And the
# least that call_later and cancel can cost together where other threads use the timer, too, and a delay begins now: they take
# a lock each, and one of them reads the clock. And what threads cannot do without where they share one order.

from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from *:
    """
    static PyObject* made(PyObject* type, PyObject* nothing) {
        return ((PyTypeObject*)type)->tp_new((PyTypeObject*)type, nothing, NULL);
    }
    """
    object made(object type, object nothing)

cdef extern from *:
    """
    static struct { char before[128]; long number; char after[128]; } of_all;  /* nothing else in its cache line */
    static void add_one(void) { __atomic_fetch_add(&of_all.number, 1, __ATOMIC_RELAXED); }
    """
    void add_one() nogil

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_trylock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)

cdef pthread_mutex_t lock
pthread_mutex_init(&lock, NULL)


cdef class Floor:
    """Floor(type): its call_later makes a `type` and does nothing with it."""
    cdef object type

    def __init__(self, type):
        self.type = type

    def call_later(self, delay, callback, argument):
        return made(self.type, ())


cdef class FloorOfPair:
    """FloorOfPair(): its call_later and the cancel of what that returns do nothing but what each pair has to."""

    def call_later(self, delay, callback, argument):
        cdef timespec now
        clock_gettime(CLOCK_MONOTONIC, &now)
        pthread_mutex_trylock(&lock)
        pthread_mutex_unlock(&lock)
        return FloorTask.__new__(FloorTask)


cdef class FloorTask:
    cdef char room[96]      # with its head, as much as a TimerTask

    def cancel(self):
        pthread_mutex_trylock(&lock)
        pthread_mutex_unlock(&lock)
        return True


cdef class NumberOfAll:
    """NumberOfAll(): its step() adds one to a number that all of them share, the least that keeps one order of what threads do."""

    def step(self):
        add_one()
