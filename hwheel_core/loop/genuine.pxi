# Whether something is genuine, or a program has put something else in its place: the loop's time(), which most loops have
# from asyncio and which asks time.monotonic(), which asks CLOCK_MONOTONIC; the loop's call_later and call_at; and
# asyncio.Handle._run. What nobody has replaced need not be called, because it is known what it would do.
#
# Each reading of the clock and each add looks, because a test may replace any of these at any moment: time() on the
# loop, on its class or a base of it, the loop's class, time.monotonic, or the name `time` in asyncio's module. Looking is
# cheap, because CPython numbers the states of types and dicts (of dicts up to 3.12; later ones are searched each time).

cdef extern from "Python.h":
    PyObject* _PyType_Lookup(PyTypeObject*, object)
    PyTypeObject* Py_TYPE(PyObject*)
    bint PyCFunction_Check(PyObject*)
    PyObject* PyCFunction_GET_SELF(PyObject*)

cdef object time_module = time
cdef dict time_names = time.__dict__
cdef object genuine_monotonic = None    # time.monotonic, where that reads CLOCK_MONOTONIC
cdef object genuine_time = None         # asyncio.BaseEventLoop.time; None: no clock is known
cdef dict asyncio_names = {}            # where that function looks up `time`
cdef object genuine_call_later = None   # what a loop's class gets under these two names; filled in by methods.pxi
cdef object genuine_call_at = None
cdef object asyncio_handle = None       # asyncio.Handle
cdef object genuine_run = None          # its _run
cdef str NAME_TIME = "time"
cdef str NAME_MONOTONIC = "monotonic"
cdef str NAME_CALL_LATER = "call_later"
cdef str NAME_CALL_AT = "call_at"
cdef str NAME_RUN = "_run"


def set_loop_clock(function, names):
    """What type(loop).time is where loop.time() reads CLOCK_MONOTONIC, and the globals of that function."""
    global genuine_time, asyncio_names, genuine_monotonic
    if getattr(time.monotonic, "__self__", None) is time_module:     # else it has been replaced already
        genuine_monotonic = time.monotonic
        genuine_time = function
        asyncio_names = names


def set_loop_call_class(cls):
    """The class whose _run programs replace to watch what loops call: asyncio.Handle."""
    global asyncio_handle, genuine_run
    asyncio_handle = cls
    genuine_run = cls._run


cdef inline bint runs_are_watched() noexcept:
    """Somebody has put something else in the place of asyncio.Handle._run."""
    return (
        genuine_run is not None
        and _PyType_Lookup(<PyTypeObject*>asyncio_handle, NAME_RUN) is not <PyObject*>genuine_run
    )


cdef inline bint timers_are_as_known(LoopTimers self) noexcept:
    """Nothing that `genuine_clock` and `own_calls` depend on has changed."""
    cdef PyTypeObject* type = Py_TYPE(<PyObject*>self.loop)
    return (
        type is self.versions.type
        and hw_type_version(type) == self.versions.type_version
        and hw_dict_version(<PyObject*>self.attributes) == self.versions.attributes_version
        and hw_dict_version(<PyObject*>time_names) == self.versions.time_version
        and hw_dict_version(<PyObject*>asyncio_names) == self.versions.asyncio_version
        and self.versions.type_version != 0
        and self.versions.attributes_version != 0
    )


cdef inline bint timers_call_at_is_own(LoopTimers self) noexcept:
    """Nobody wants a say in the loop's call_at."""
    cdef PyObject* here = hw_dict_get(<PyObject*>self.attributes, <PyObject*>NAME_CALL_AT)
    cdef bint is_other = (
        here is not NULL and not (PyCFunction_Check(here) and PyCFunction_GET_SELF(here) is <PyObject*>self)
    )
    hw_dict_got(here)
    if is_other:
        return False
    return _PyType_Lookup(Py_TYPE(<PyObject*>self.loop), NAME_CALL_AT) is <PyObject*>genuine_call_at


cdef void timers_note_versions(LoopTimers self) noexcept:
    """Finds out what is genuine, and writes down of which versions that holds."""
    cdef PyTypeObject* type = Py_TYPE(<PyObject*>self.loop)
    self.genuine_clock = (
        _PyType_Lookup(type, NAME_TIME) is <PyObject*>genuine_time
        and hw_finds_as_usual(type)
        and PyDict_GetItem(self.attributes, NAME_TIME) is NULL
        and PyDict_GetItem(time_names, NAME_MONOTONIC) is <PyObject*>genuine_monotonic
        and PyDict_GetItem(asyncio_names, NAME_TIME) is <PyObject*>time_module
    )
    self.own_calls = not self.is_loops or (
        _PyType_Lookup(type, NAME_CALL_LATER) is <PyObject*>genuine_call_later and timers_call_at_is_own(self)
    )
    self.versions.type = type
    self.versions.type_version = hw_type_version(type)
    self.versions.attributes_version = hw_dict_version(<PyObject*>self.attributes)
    self.versions.time_version = hw_dict_version(<PyObject*>time_names)
    self.versions.asyncio_version = hw_dict_version(<PyObject*>asyncio_names)


cdef inline bint timers_calls_are_own(LoopTimers self) noexcept:
    """Nobody wants a say in the loop's call_later and call_at; or what would have it asks us."""
    if self.loop is None or self.asking:
        return True
    if not timers_are_as_known(self):
        timers_note_versions(self)
    return self.own_calls
