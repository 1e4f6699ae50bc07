/* C helpers that Cython cannot express, or only with more instructions. System and compiler differences are in platform/. */
#ifndef HWHEEL_NATIVE_H
#define HWHEEL_NATIVE_H

#include <Python.h>
#include "platform/platform.h"

#ifdef HWHEEL_DEBUG
#define HW_DEBUG 1
#else
#define HW_DEBUG 0
#endif

/* The compiler flags, from setup.py. */
#ifndef HW_FLAGS
#define HW_FLAGS "unknown flags"
#endif
#define HW_CYTHON CYTHON_HEX_VERSION

static inline void hw_set_dealloc(PyObject *type, destructor dealloc) { ((PyTypeObject *)type)->tp_dealloc = dealloc; }

static inline void hw_set_name(PyObject *type, const char *name) { ((PyTypeObject *)type)->tp_name = name; }

/* The C function of a method without arguments of a static type, or NULL. */
static inline PyCFunction hw_method_function(PyObject *type, const char *name)
{
    PyObject *found = PyDict_GetItemString(((PyTypeObject *)type)->tp_dict, name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMethodDescr_Type))
        return NULL;
    PyMethodDef *method = ((PyMethodDescrObject *)found)->d_method;
    return method->ml_flags == METH_NOARGS ? method->ml_meth : NULL;
}

/* Call a function without arguments, or with one. A builtin function is called directly. */
static inline PyObject *hw_call_none(PyObject *function)
{
    if (PyCFunction_CheckExact(function) && PyCFunction_GET_FLAGS(function) == METH_NOARGS)
        return PyCFunction_GET_FUNCTION(function)(PyCFunction_GET_SELF(function), NULL);
    return PyObject_CallNoArgs(function);
}

static inline PyObject *hw_call_one(PyObject *function, PyObject *argument)
{
    if (PyCFunction_CheckExact(function)) {
        void *address = (void *)PyCFunction_GET_FUNCTION(function);
        PyObject *self = PyCFunction_GET_SELF(function);
        if (PyCFunction_GET_FLAGS(function) == METH_FASTCALL)
            return ((_PyCFunctionFast)address)(self, &argument, 1);
        if (PyCFunction_GET_FLAGS(function) == (METH_FASTCALL | METH_KEYWORDS))
            return ((_PyCFunctionFastWithKeywords)address)(self, &argument, 1, NULL);
    }
    return PyObject_CallOneArg(function, argument);
}

/* For a class with __await__ and __next__: set the functions with which an await gets the result. */
static inline void hw_set_await(PyObject *type, void *send, void *next)
{
    ((PyTypeObject *)type)->tp_as_async->am_send = (sendfunc)send;
    ((PyTypeObject *)type)->tp_iternext = (iternextfunc)next;
}

/* For tp_iternext: end an await with a result. From CPython 3.12 on, the interpreter takes the result out of the StopIteration at
 * once, so the exception gets no traceback, context, or arguments. The same exception can be used again, unless a program that
 * traces exceptions has a reference to it. */
#if PY_VERSION_HEX < 0x030C0000
static inline PyObject *hw_stop_new(void) { return Py_NewRef(Py_None); }
static inline int hw_stop_is_free(PyObject *stop) { (void)stop; return 1; }
static inline void hw_stop_raise(PyObject *stop, PyObject *result)
{
    (void)stop;
    PyErr_SetObject(PyExc_StopIteration, result);
}
static inline void hw_stop_forget(PyObject *stop, PyObject *result) { (void)stop, (void)result; }
#else
static inline PyObject *hw_stop_new(void)
{
    PyTypeObject *type = (PyTypeObject *)PyExc_StopIteration;
    PyObject *no_arguments = PyTuple_New(0);    /* CPython has only one, so this does not fail */
    PyObject *stop = type->tp_new(type, no_arguments, NULL);
    Py_DECREF(no_arguments);
    return stop;
}

/* True if this is an exception of hw_stop_new to which only the caller has a reference. Without a GIL, that is not known. */
static inline int hw_stop_is_free(PyObject *stop)
{
#ifdef Py_GIL_DISABLED
    (void)stop;
    return 0;
#else
    return Py_IS_TYPE(stop, (PyTypeObject *)PyExc_StopIteration) && Py_REFCNT(stop) == 1;
#endif
}

static inline void hw_stop_raise(PyObject *stop, PyObject *result)
{
    Py_XSETREF(((PyStopIterationObject *)stop)->value, Py_NewRef(result));
    PyErr_SetRaisedException(Py_NewRef(stop));
}

/* Release the result if the exception still has it. */
static inline void hw_stop_forget(PyObject *stop, PyObject *result)
{
    if (stop != Py_None && ((PyStopIterationObject *)stop)->value == result)
        Py_SETREF(((PyStopIterationObject *)stop)->value, Py_NewRef(Py_None));
}
#endif

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

/* hw_dict_version returns a number that changes with each modification of a dict that was passed to hw_dict_watch; 0: unknown.
 * Up to 3.12, CPython numbers the versions of dicts. From 3.13.1 on, it reports each modification right before it happens.
 * In 3.13.0 the number is unknown, because that version does not report when an attribute of an object is set. Without a GIL it
 * is unknown, because another thread could read the new number together with the old content. */
#if PY_VERSION_HEX < 0x030D0000
static inline void hw_dict_watch(PyObject *dict) { (void)dict; }
static inline uint64_t hw_dict_version(PyObject *dict) { return ((PyDictObject *)dict)->ma_version_tag; }
#elif defined(Py_GIL_DISABLED)
static inline void hw_dict_watch(PyObject *dict) { (void)dict; }
static inline uint64_t hw_dict_version(PyObject *dict) { (void)dict; return 0; }
#else
static uint64_t hw_dict_changes = 0;    /* one number for all watched dicts; 0: there is no watcher */

static int hw_dict_note_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    (void)event, (void)dict, (void)key, (void)value;
    hw_dict_changes++;
    return 0;
}

static inline void hw_dict_watch(PyObject *dict)
{
    static int watcher = -2;    /* -2: not tried yet; -1: none free, because all extensions share CPython's few watchers */
    if (watcher == -2) {
        watcher = Py_Version < 0x030D0100 ? -1 : PyDict_AddWatcher(hw_dict_note_change);
        hw_dict_changes = watcher >= 0;
    }
    if (watcher < 0 || PyDict_Watch(watcher, dict) < 0)
        PyErr_Clear();
}

static inline uint64_t hw_dict_version(PyObject *dict) { (void)dict; return hw_dict_changes; }
#endif

/* The version number of the attributes of a type and its bases. 0: unknown. */
static inline uint64_t hw_type_version(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030C0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG))
        return 0;
#endif
    return type->tp_version_tag;
}

/* True if a type finds attributes in the standard way, without __getattribute__ or __getattr__. */
static inline int hw_uses_default_getattr(PyTypeObject *type) { return type->tp_getattro == PyObject_GenericGetAttr; }

/* True if a class attribute is a method that can be called with the object as its first argument. */
static inline int hw_is_method(PyObject *found) { return PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR); }

/* Look an attribute up in a type and its bases. Return a new reference, or NULL. */
static inline PyObject *hw_type_lookup(PyObject *type, PyObject *name)
{
#ifdef Py_GIL_DISABLED
    return _PyType_LookupRef((PyTypeObject *)type, name);
#else
    PyObject *found = _PyType_Lookup((PyTypeObject *)type, name);
    Py_XINCREF(found);
    return found;
#endif
}

/* Look a str up in a dict. The result, or NULL, is valid until hw_dict_release; with a GIL this is a borrowed reference. */
#ifdef Py_GIL_DISABLED
static inline PyObject *hw_dict_get(PyObject *dict, PyObject *name)
{
    PyObject *found = NULL;
    if (PyDict_GetItemRef(dict, name, &found) < 0)
        PyErr_Clear();
    return found;
}
static inline void hw_dict_release(PyObject *found) { Py_XDECREF(found); }
#else
static inline PyObject *hw_dict_get(PyObject *dict, PyObject *name) { return PyDict_GetItem(dict, name); }
static inline void hw_dict_release(PyObject *found) { (void)found; }
#endif

/* For a new object that only this thread has seen: use the shared reference count from now on. Without a GIL, an object is freed
 * by the thread that created it, even if another thread drops the last reference. The creating thread does so when it next runs
 * Python code, but the reaper may sleep for hours. */
static inline void hw_share_reference_count(PyObject *object)
{
#ifdef Py_GIL_DISABLED
    uint32_t count = _Py_atomic_load_uint32_relaxed(&object->ob_ref_local);
    if (_Py_IsImmortal(object) || object->ob_tid != _Py_ThreadId() || object->ob_ref_shared >> _Py_REF_SHARED_SHIFT != 0)
        return;
    _Py_atomic_store_uintptr_relaxed(&object->ob_tid, 0);
    _Py_atomic_store_uint32_relaxed(&object->ob_ref_local, 0);
    _Py_atomic_store_ssize_relaxed(&object->ob_ref_shared, _Py_REF_SHARED((Py_ssize_t)count, _Py_REF_MERGED));
#else
    (void)object;
#endif
}

/* In the child of a fork: mark the lock of an object as free. Without a GIL, CPython may have passed the lock to a thread that
 * was stopped for the fork. Only for objects in whose critical sections nothing can fork. */
static inline void hw_free_object_lock(PyObject *object)
{
#ifdef Py_GIL_DISABLED
    object->ob_mutex = (PyMutex){0};
#else
    (void)object;
#endif
}

/* A method with the calling convention METH_FASTCALL, for classes of any kind. */
static inline PyObject *hw_method(PyMethodDef *method, const char *name, void *function, const char *doc)
{
    method->ml_name = name;
    method->ml_meth = (PyCFunction)function;
    method->ml_flags = METH_FASTCALL | METH_KEYWORDS;
    method->ml_doc = doc;
    return PyDescr_NewMethod(&PyBaseObject_Type, method);
}

/* Replace a method with *args, for which Cython creates a tuple at each call, by a function with the calling convention
 * METH_FASTCALL. Name, docstring, and signature stay. Return the old method, a borrowed reference that lives as long as the
 * process, for calls with keywords. */
static inline PyObject *hw_use_fastcall(PyObject *type, const char *name, PyMethodDef *fast, void *function)
{
    PyObject *methods = ((PyTypeObject *)type)->tp_dict;
    PyObject *common = PyDict_GetItemString(methods, name);
    PyObject *replacement;
    if (common == NULL || !Py_IS_TYPE(common, &PyMethodDescr_Type)) {
        PyErr_Format(PyExc_SystemError, "%s is not a method that can be replaced", name);
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

/* True if a Python function has a closure or default values. */
static inline int hw_function_has_parts(PyObject *function)
{
    return ((PyFunctionObject *)function)->func_closure != NULL || ((PyFunctionObject *)function)->func_defaults != NULL;
}

static inline PyObject **hw_tuple_items(PyObject *tuple) { return ((PyTupleObject *)tuple)->ob_item; }

#ifdef Py_GIL_DISABLED
#define HW_FREE_THREADED 1
#else
#define HW_FREE_THREADED 0
#endif

/* HW_INBOXES: whether timers have inboxes (timer/inbox.pxi). HW_MEETINGS: number of waits for the lock after which a timer gets
 * them; 0: at once. */
#ifndef HW_INBOXES
#define HW_INBOXES HW_FREE_THREADED
#endif
#ifndef HW_MEETINGS
#define HW_MEETINGS 64
#endif

/* Shorten a list whose items from `length` on hold no reference, or an array. The allocated memory stays. */
static inline void hw_set_size(PyObject *object, Py_ssize_t length) { Py_SET_SIZE((PyVarObject *)object, length); }

/* Free an untracked object that may be the head of a long chain of its kind. Beyond some depth the rest is freed after the outer
 * objects, because recursion would overflow the C stack. (From CPython 3.14 on, Py_DECREF does this and the macros are empty.) */
static inline void hw_free_in_turn(PyObject *object, destructor dealloc, void (*free_it)(PyObject *))
{
    Py_TRASHCAN_BEGIN(object, dealloc)
    free_it(object);
    Py_TRASHCAN_END
}

/* Round to the nearest integer; llround() would be a call into libm. */
static inline int64_t hw_round(double x) { return (int64_t)(x < 0 ? x - 0.5 : x + 0.5); }

/* Division of a time (63 bits) by a constant without a divide instruction, which would take longer than the rest of an add.
 * Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994). With
 * 2^(shift-1) < d <= 2^shift and magic = ceil(2^(63+shift) / d) < 2^64, the error stays below 1/d for every x < 2^63. */
typedef struct {
    uint64_t magic;
    int shift;
} hw_divisor;

/* The quotient 2^63 * 2^shift / d by long division, bit by bit: `left` is below d after each step. */
static inline hw_divisor hw_divisor_of(int64_t d)
{
    hw_divisor by = {0, d > 1 ? 64 - hw_leading_zeros((uint64_t)d - 1) : 0};
    uint64_t left = (uint64_t)1 << by.shift;
    for (int bit = 0; bit < 64; bit++) {
        left = bit > 0 ? left * 2 : left;
        by.magic *= 2;
        if (left >= (uint64_t)d) {
            left -= (uint64_t)d;
            by.magic++;
        }
    }
    by.magic += left > 0;
    return by;
}

static inline int64_t hw_divide(int64_t x, const hw_divisor *by)
{
    return (int64_t)(hw_multiply_high((uint64_t)x << 1, by->magic) >> by->shift);
}

/* The number of this thread: 1, 2, 3, ... in the order of the first calls. */
#ifdef HW_PLATFORM
int hw_thread_number(void);
#else
static inline int hw_thread_number(void)
{
    static int64_t last;
    static HW_PER_THREAD int number;
    if (number == 0)
        number = (int)hw_atomic_add(&last, 1);
    return number;
}
#endif

/* The LoopTimers of the wheel loop that runs in this thread, or NULL. */
static HW_PER_THREAD PyObject *hw_running;
static inline PyObject *hw_running_get(void) { return hw_running; }
static inline void hw_running_set(PyObject *timers) { hw_running = timers; }

/* A counter that is changed under the GIL, or atomically without one. */
#if defined(Py_GIL_DISABLED) || defined(HW_PLATFORM)
static inline int64_t hw_count_add(int64_t *count, int64_t n) { return hw_atomic_add(count, n); }
#else
static inline int64_t hw_count_add(int64_t *count, int64_t n) { return *count += n; }
#endif

/* The owner of a lock, and its word of waiters: each side writes its own word before it reads the other's. */
#ifdef Py_GIL_DISABLED
static inline int hw_take(uintptr_t *owner, uintptr_t me) { return hw_atomic_take(owner, me); }
static inline uintptr_t hw_word_load(uintptr_t *word) { return hw_atomic_load(word); }
static inline void hw_word_store(uintptr_t *word, uintptr_t value) { hw_atomic_store(word, value); }
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

#endif
