/* What Cython cannot say: compiler builtins and the few lines that differ between platforms or builds. */
#ifndef HWHEEL_NATIVE_H
#define HWHEEL_NATIVE_H

#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#endif

#ifdef HWHEEL_DEBUG
#define HW_DEBUG 1
#else
#define HW_DEBUG 0
#endif

/* Who compiled this, and how; the flags come from setup.py. */
#if defined(__clang__)
#define HW_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define HW_COMPILER "gcc " __VERSION__
#else
#define HW_COMPILER "another compiler"
#endif
#ifndef HW_FLAGS
#define HW_FLAGS "flags that setup.py did not give"
#endif
#define HW_CYTHON CYTHON_HEX_VERSION

/* A hint only: the address may dangle, the processor does not fault on it. The empty statement keeps gcc from taking a
 * function that does nothing but prefetch for one without effect, and leaving its calls out. */
static inline void hw_prefetch(const void *address)
{
    __builtin_prefetch(address, 1, 3);
    __asm__ volatile("");
}

static inline int hw_add_overflows(int64_t a, int64_t b, int64_t *sum) { return __builtin_add_overflow(a, b, sum); }

static inline int hw_mul_overflows(int64_t a, int64_t b, int64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

static inline void hw_set_dealloc(PyObject *type, destructor dealloc) { ((PyTypeObject *)type)->tp_dealloc = dealloc; }

static inline void hw_set_name(PyObject *type, const char *name) { ((PyTypeObject *)type)->tp_name = name; }

static inline void hw_set_new(PyObject *type, PyObject *(*make)(PyObject *, PyObject *, PyObject *))
{
    ((PyTypeObject *)type)->tp_new = (newfunc)make;
}

static inline PyObject *hw_object_new(PyObject *type, PyObject *no_arguments)
{
    return PyBaseObject_Type.tp_new((PyTypeObject *)type, no_arguments, NULL);
}

static inline void hw_set_gc(PyObject *type, traverseproc traverse, inquiry clear)
{
    ((PyTypeObject *)type)->tp_traverse = traverse;
    ((PyTypeObject *)type)->tp_clear = clear;
}

static inline void hw_type_free(PyObject *object) { Py_TYPE(object)->tp_free(object); }

/* Numbers that are other ones after each change of a dict, and of what a type or a base of it has; 0: not known. (3.13
 * keeps the number when an attribute is set on an object whose __dict__ this is, 3.14 has none.) */
static inline uint64_t hw_dict_version(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030D0000
    return ((PyDictObject *)dict)->ma_version_tag;
#else
    (void)dict;
    return 0;
#endif
}

static inline uint64_t hw_type_version(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030C0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG))
        return 0;
#endif
    return type->tp_version_tag;
}

/* Whether attributes are where they are in every object: neither __getattribute__ nor __getattr__ has a say. */
static inline int hw_finds_as_usual(PyTypeObject *type) { return type->tp_getattro == PyObject_GenericGetAttr; }

/* A method with the calling convention METH_FASTCALL, for classes of any kind. */
static inline PyObject *hw_method(PyMethodDef *method, const char *name, void *function, const char *doc)
{
    method->ml_name = name;
    method->ml_meth = (PyCFunction)function;
    method->ml_flags = METH_FASTCALL | METH_KEYWORDS;
    method->ml_doc = doc;
    return PyDescr_NewMethod(&PyBaseObject_Type, method);
}

/* Puts a function with the calling convention METH_FASTCALL in the place of a method that takes *args: Cython gives that
 * one a tuple of all its arguments, which has to be made for each call. Name, docstring and signature stay; the method
 * that was there is returned, a borrowed reference that lives as long as the process, for whatever is not common. */
static inline PyObject *hw_speed_up(PyObject *type, const char *name, PyMethodDef *fast, void *function)
{
    PyObject *methods = ((PyTypeObject *)type)->tp_dict;
    PyObject *common = PyDict_GetItemString(methods, name);
    PyObject *replacement;
    if (common == NULL || !Py_IS_TYPE(common, &PyMethodDescr_Type)) {
        PyErr_Format(PyExc_SystemError, "%s is no method that could be replaced", name);
        return NULL;
    }
    *fast = *((PyMethodDescrObject *)common)->d_method;
    fast->ml_meth = (PyCFunction)function;
    fast->ml_flags = METH_FASTCALL | METH_KEYWORDS;
    replacement = PyDescr_NewMethod((PyTypeObject *)type, fast);
    if (replacement == NULL)
        return NULL;
    Py_INCREF(common);
    if (PyDict_SetItemString(methods, name, replacement) < 0) {
        Py_DECREF(replacement);
        return NULL;
    }
    Py_DECREF(replacement);
    PyType_Modified((PyTypeObject *)type);
    return common;
}

static inline PyObject *hw_gc_new(PyObject *type) { return (PyObject *)_PyObject_GC_New((PyTypeObject *)type); }

static inline PyObject **hw_tuple_items(PyObject *tuple) { return ((PyTupleObject *)tuple)->ob_item; }

/* For a list, of which the items from `length` on hold no reference, and are left out; and for an array. The room stays. */
static inline void hw_set_size(PyObject *object, Py_ssize_t length) { Py_SET_SIZE((PyVarObject *)object, length); }

/* A tenth of a millisecond: as long as another thread takes to wake up. */
static inline void hw_pause(void)
{
    struct timespec pause = {0, 100000};
    nanosleep(&pause, NULL);
}

/* A number in memory that another thread may be writing to: read once and wherever it lies, so that what was checked is
 * what is used. Without `volatile` the compiler might read it again after the check. */
typedef struct {
    int64_t value;
} __attribute__((packed, may_alias)) hw_foreign;

static inline int64_t hw_read(const void *place) { return ((const volatile hw_foreign *)place)->value; }

/* Frees an object that may hold another of its kind, and that one another, and so on: beyond some depth the rest is put
 * off until the outer ones are done, or the C stack would overflow. The object is not tracked any more. (From CPython
 * 3.14 on Py_DECREF does it, and the macros are empty.) */
static inline void hw_free_in_turn(PyObject *object, destructor dealloc, void (*free_it)(PyObject *))
{
    Py_TRASHCAN_BEGIN(object, dealloc)
    free_it(object);
    Py_TRASHCAN_END
}

/* To the nearest; llround() is a call into libm. */
static inline int64_t hw_round(double x) { return (int64_t)(x < 0 ? x - 0.5 : x + 0.5); }

static inline int hw_leading_zeros(uint64_t value) { return __builtin_clzll(value); }

/* Division of a time (63 bits) by a constant, without a divide instruction, which would take longer than all the rest
 * of an add: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994). With
 * 2^(shift-1) < d <= 2^shift, magic = ceil(2^(63+shift) / d) < 2^64 is so near to the true quotient that for every
 * x < 2^63 the error stays below one part in d. */
typedef struct {
    uint64_t magic;
    int shift;
} hw_divisor;

static inline hw_divisor hw_divisor_of(int64_t d)
{
    hw_divisor by = {0, d > 1 ? 64 - __builtin_clzll((uint64_t)d - 1) : 0};
    by.magic = (uint64_t)((((unsigned __int128)1 << (63 + by.shift)) + (uint64_t)d - 1) / (uint64_t)d);
    return by;
}

static inline int64_t hw_divide(int64_t x, const hw_divisor *by)
{
    return (int64_t)((uint64_t)(((unsigned __int128)((uint64_t)x << 1) * by->magic) >> 64) >> by->shift);
}

/* With a GIL these run under it and plain arithmetic will do; without one they must be atomic. */
#ifdef Py_GIL_DISABLED
static inline int64_t hw_count_add(int64_t *count, int64_t n) { return __atomic_add_fetch(count, n, __ATOMIC_ACQ_REL); }
#else
static inline int64_t hw_count_add(int64_t *count, int64_t n) { return *count += n; }
#endif

/* The owner of a lock, and the word that is left for it: each looks for what the other wrote after it wrote its own. */
#ifdef Py_GIL_DISABLED
static inline int hw_take(uintptr_t *owner, uintptr_t me)
{
    uintptr_t nobody = 0;
    return __atomic_compare_exchange_n(owner, &nobody, me, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline uintptr_t hw_word_load(uintptr_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static inline void hw_word_store(uintptr_t *word, uintptr_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }
#else
static inline int hw_take(uintptr_t *owner, uintptr_t me)
{
    if (*owner != 0)
        return 0;
    *owner = me;
    return 1;
}
static inline uintptr_t hw_word_load(uintptr_t *word) { return *word; }
static inline void hw_word_store(uintptr_t *word, uintptr_t value) { *word = value; }
#endif

static inline uintptr_t hw_load(uintptr_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }

static inline void hw_store(uintptr_t *place, uintptr_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }

static inline int hw_flag(int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

/* Asks for huge pages under a large block: fewer page faults when it is first written, fewer TLB misses when a cascade
 * jumps about in it. Only whole huge pages inside the block are asked for. */
static inline void hw_advise_huge(void *block, size_t size)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t huge = (uintptr_t)1 << 21;
    uintptr_t first = ((uintptr_t)block + huge - 1) & ~(huge - 1);
    uintptr_t end = ((uintptr_t)block + size) & ~(huge - 1);
    if (end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)block, (void)size;
#endif
}

/* CLOCK_BOOTTIME goes on while the machine sleeps. Where there is none, asking for it is refused. */
#ifdef CLOCK_BOOTTIME
#define HW_BOOTTIME CLOCK_BOOTTIME
#else
#define HW_BOOTTIME (-1)
#endif

/* A pair of descriptors for waking a poll(): one eventfd on Linux, a pipe elsewhere. */
static inline int hw_wake_open(int fds[2])
{
#ifdef __linux__
    fds[0] = fds[1] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return fds[0] < 0 ? -1 : 0;
#else
    if (pipe(fds) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    }
    return 0;
#endif
}

static inline void hw_wake_close(int fds[2])
{
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0 && fds[1] != fds[0])
        close(fds[1]);
    fds[0] = fds[1] = -1;
}

static inline void hw_wake_write(int fd)
{
    uint64_t one = 1; /* an eventfd wants eight bytes; a full pipe is already readable */
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static inline void hw_wake_drain(int fd)
{
    char bytes[64];
    while (read(fd, bytes, sizeof bytes) == sizeof bytes)
        ;
}

/* A descriptor that becomes readable at a time on CLOCK_BOOTTIME, so that a wait ends when the machine wakes up. */
static inline int hw_alarm_open(void)
{
#ifdef __linux__
    return timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
#else
    return -1;
#endif
}

static inline void hw_alarm_set(int fd, int64_t time_ms)
{
#ifdef __linux__
    struct itimerspec when = {{0, 0}, {time_ms / 1000, (time_ms % 1000) * 1000000}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
#else
    (void)fd, (void)time_ms;
#endif
}

/* Waits until `wake` or `alarm` (-1: none) can be read or timeout_ns (-1: never) is over. -1: a signal came. */
static inline int hw_poll(int wake, int alarm, int64_t timeout_ns)
{
    struct pollfd fds[2] = {{wake, POLLIN, 0}, {alarm, POLLIN, 0}};
#ifdef __linux__
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    return ppoll(fds, 2, timeout_ns < 0 ? NULL : &timeout, NULL);
#else
    int64_t timeout_ms = timeout_ns < 0 ? -1 : (timeout_ns + 999999) / 1000000;
    return poll(fds, 2, timeout_ms > 1000000000 ? 1000000000 : (int)timeout_ms);
#endif
}

#endif
