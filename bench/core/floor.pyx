# cython: language_level=3, binding=False, freethreading_compatible=True
# Lower bounds. Floor: call_later as a compiled method that takes its arguments and creates the object that it returns.
# FloorOfPair: call_later and cancel of a thread-safe timer, which take a lock each and read the clock once. NumberOfAll: the
# shared memory that threads need to keep one order.

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
    static struct { char before[128]; long number; char after[128]; } of_all;  /* alone in its cache line */
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
    """Floor(type): call_later creates a `type` and does nothing with it."""
    cdef object type

    def __init__(self, type):
        self.type = type

    def call_later(self, delay, callback, argument):
        return made(self.type, ())


cdef class FloorOfPair:
    """FloorOfPair(): call_later and cancel do only the work that every pair must do."""

    def call_later(self, delay, callback, argument):
        cdef timespec now
        clock_gettime(CLOCK_MONOTONIC, &now)
        pthread_mutex_trylock(&lock)
        pthread_mutex_unlock(&lock)
        return FloorTask.__new__(FloorTask)


cdef class FloorTask:
    cdef char room[96]      # with the object header, the size of a TimerTask

    def cancel(self):
        pthread_mutex_trylock(&lock)
        pthread_mutex_unlock(&lock)
        return True


cdef class NumberOfAll:
    """NumberOfAll(): step() adds one to a number that all instances share, the minimum for one order among threads."""

    def step(self):
        add_one()
