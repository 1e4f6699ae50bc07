# The clock of a loop, and the detection of a replaced clock.
#
# Most loops inherit time() from asyncio. It calls time.monotonic(), which reads CLOCK_MONOTONIC. If a program has replaced none
# of these functions, the core reads the clock directly. In the same way, the core calls the loop's call_later and call_at and
# asyncio.Handle._run only if a program has replaced them.
#
# Each clock reading and each add checks this, because tests (freezegun, time-machine, mocks) may replace a function at any
# moment. They replace time() on the loop or its class, the loop's class, time.monotonic, or the name `time` in asyncio's module.
# The check is cheap, because CPython numbers the versions of types. It also numbers the versions of dicts, or reports their
# changes: see hw_dict_watch.

cdef extern from "Python.h":
    PyObject* _PyType_Lookup(PyTypeObject*, object)
    PyTypeObject* Py_TYPE(PyObject*)
    bint PyCFunction_Check(PyObject*)
    PyObject* PyCFunction_GET_SELF(PyObject*)

cdef object time_module = time
cdef dict time_names = time.__dict__
cdef object genuine_monotonic = None    # time.monotonic if it reads CLOCK_MONOTONIC
cdef object genuine_time = None         # asyncio.BaseEventLoop.time; None: unknown
cdef dict asyncio_names = {}            # the globals of that function
cdef object genuine_call_later = None   # the methods of a loop's class; set in timers.pxi
cdef object genuine_call_at = None
cdef object asyncio_handle = None       # asyncio.Handle
cdef object genuine_run = None          # its _run
cdef str NAME_TIME = "time"
cdef str NAME_MONOTONIC = "monotonic"
cdef str NAME_CALL_LATER = "call_later"
cdef str NAME_CALL_AT = "call_at"
cdef str NAME_RUN = "_run"


def set_loop_clock(function, names):
    """Set asyncio's own loop.time(), which reads CLOCK_MONOTONIC, and the globals of that function."""
    global genuine_time, asyncio_names, genuine_monotonic
    if getattr(time.monotonic, "__self__", None) is time_module:     # not replaced yet
        genuine_monotonic = time.monotonic
        genuine_time = function
        asyncio_names = names
        hw_dict_watch(<PyObject*>time_names)
        hw_dict_watch(<PyObject*>asyncio_names)


def set_loop_call_class(cls):
    """Set the class whose `_run` monitoring tools replace: asyncio.Handle."""
    global asyncio_handle, genuine_run
    asyncio_handle = cls
    genuine_run = cls._run


cdef inline bint handle_run_is_replaced() noexcept:
    """Return True if a program has replaced asyncio.Handle._run."""
    return (
        genuine_run is not None
        and _PyType_Lookup(<PyTypeObject*>asyncio_handle, NAME_RUN) is not <PyObject*>genuine_run
    )


cdef inline bint timers_are_unchanged(LoopTimers self) noexcept:
    """Return True if nothing that `genuine_clock`, `time_method`, and `uses_own_calls` depend on has changed."""
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


cdef inline bint timers_use_own_call_at(LoopTimers self) noexcept:
    """Return True if the loop's call_at is not overridden."""
    cdef PyObject* here = hw_dict_get(<PyObject*>self.attributes, <PyObject*>NAME_CALL_AT)
    cdef bint is_other = (
        here is not NULL and not (PyCFunction_Check(here) and PyCFunction_GET_SELF(here) is <PyObject*>self)
    )
    hw_dict_release(here)
    if is_other:
        return False
    return _PyType_Lookup(Py_TYPE(<PyObject*>self.loop), NAME_CALL_AT) is <PyObject*>genuine_call_at


cdef void timers_check_replaced(LoopTimers self) noexcept:
    """Set `genuine_clock`, `time_method`, and `uses_own_calls`, and record the versions that they depend on."""
    cdef PyTypeObject* type = Py_TYPE(<PyObject*>self.loop)
    cdef PyObject* found = _PyType_Lookup(type, NAME_TIME)
    cdef bint is_of_class = hw_uses_default_getattr(type) and PyDict_GetItem(self.attributes, NAME_TIME) is NULL
    # Without a GIL another thread might read `time_method` at this moment.
    if not HW_FREE_THREADED:
        self.time_method = <object>found if is_of_class and found is not NULL and hw_is_method(found) else None
    self.genuine_clock = (
        found is <PyObject*>genuine_time
        and is_of_class
        and PyDict_GetItem(time_names, NAME_MONOTONIC) is <PyObject*>genuine_monotonic
        and PyDict_GetItem(asyncio_names, NAME_TIME) is <PyObject*>time_module
    )
    self.uses_own_calls = not self.is_loops or (
        _PyType_Lookup(type, NAME_CALL_LATER) is <PyObject*>genuine_call_later and timers_use_own_call_at(self)
    )
    self.versions.type = type
    self.versions.type_version = hw_type_version(type)
    self.versions.attributes_version = hw_dict_version(<PyObject*>self.attributes)
    self.versions.time_version = hw_dict_version(<PyObject*>time_names)
    self.versions.asyncio_version = hw_dict_version(<PyObject*>asyncio_names)


cdef inline bint timers_use_own_calls(LoopTimers self) noexcept:
    """Return True if call_later and call_at are not overridden, or if an override is calling the inherited method."""
    if self.loop is None or self.asking:
        return True
    if not timers_are_unchanged(self):
        timers_check_replaced(self)
    return self.uses_own_calls


# --- reading the clock -----------------------------------------------------------------------------------------------
#
# Unlike a wheel's clock, a loop's clock may go back. A handle whose deadline is before the wheel's clock goes to
# Timer.ready, which is kept sorted. This is correct, but slow for many handles. So after a number of them, the wheel's clock is
# set back.

cdef enum:
    BEHIND_LIMIT = 64           # plus a sixteenth of the pending handles: after so many handles the clock is set back


cdef inline double timers_time_unchanged(LoopTimers self) except? -1:
    """Return loop.time() right after a check that nothing has been replaced."""
    if self.genuine_clock:
        return <double>hw_clock_ns() / 1e9      # the rounding of time.monotonic()
    if self.time_method is not None:
        return hw_call_one(<PyObject*>self.time_method, <PyObject*>self.loop)
    return self.loop.time()


cdef inline double timers_time(LoopTimers self) except? -1:
    """Return loop.time(). If that method only reads the clock, read it without a Python call."""
    if not timers_are_unchanged(self):
        timers_check_replaced(self)
    return timers_time_unchanged(self)


cdef void timers_set_back(LoopTimers self, int64_t now_tick) noexcept:
    """Set the wheel's clock back by placing all entries again. O(pending).

    Entries that are due, or for whose level there is no memory, end up in Timer.ready, which is sorted before its next use.
    """
    cdef Timer* timer = self.timer
    cdef bint have_memory = True
    lock_with_gil(timer)
    while have_memory and not wheel_reaches_from(&timer.wheel, now_tick, timer.wheel.levels[0].current_time_ms):
        lock_release(timer)
        have_memory = timer_grow(timer)
        lock_with_gil(timer)
    wheel_set_back(&timer.wheel, now_tick, &timer.ready)
    lock_release(timer)
    self.behind = 0
    self.unsorted = True


cdef inline void timers_prepare_tick(LoopTimers self, int64_t tick, double now) noexcept:
    """Record that a handle with this tick is about to be placed."""
    cdef int64_t clock_tick = self.timer.wheel.levels[0].current_time_ms
    if tick <= clock_tick:
        self.unsorted = True
        if tick_of(now) < clock_tick:
            self.behind += 1
            if self.behind > BEHIND_LIMIT + (hw_peek64(&self.timer.pending) >> 4):
                timers_set_back(self, tick_of(now))
