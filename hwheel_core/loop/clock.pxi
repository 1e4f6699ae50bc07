# The clock of a loop, as its timers read it. Most loops' time() is asyncio's own, which asks time.monotonic(), which asks
# CLOCK_MONOTONIC: as long as nobody has put anything else in the place of one of these, the last is asked at once. Each
# reading looks whether that is so, because a test may replace any of them at any moment: time() on the loop, on its class
# or a base of it, the loop's class, time.monotonic, or the name `time` in asyncio's module. Looking is cheap, because
# CPython numbers the states of types and dicts (of dicts up to 3.12; later ones are searched each time).
#
# A loop's clock may also go back, which a wheel's cannot: see timers_turn_back.

cdef extern from "Python.h":
    PyObject* _PyType_Lookup(PyTypeObject*, object)
    PyTypeObject* Py_TYPE(PyObject*)

cdef object time_module = time
cdef dict time_names = time.__dict__
cdef object genuine_monotonic = None    # time.monotonic, where that reads CLOCK_MONOTONIC
cdef object genuine_time = None         # asyncio.BaseEventLoop.time; None: no clock is known
cdef dict asyncio_names = {}            # where that function looks up `time`
cdef str NAME_TIME = "time"
cdef str NAME_MONOTONIC = "monotonic"


def set_loop_clock(function, names):
    """What type(loop).time is where loop.time() reads CLOCK_MONOTONIC, and the globals of that function."""
    global genuine_time, asyncio_names, genuine_monotonic
    if getattr(time.monotonic, "__self__", None) is time_module:     # else it has been replaced already
        genuine_monotonic = time.monotonic
        genuine_time = function
        asyncio_names = names


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


cdef void timers_look_again(LoopTimers self) noexcept:
    cdef PyTypeObject* type = Py_TYPE(<PyObject*>self.loop)
    self.genuine_clock = (
        _PyType_Lookup(type, NAME_TIME) is <PyObject*>genuine_time
        and hw_finds_as_usual(type)
        and PyDict_GetItem(self.attributes, NAME_TIME) is NULL
        and PyDict_GetItem(time_names, NAME_MONOTONIC) is <PyObject*>genuine_monotonic
        and PyDict_GetItem(asyncio_names, NAME_TIME) is <PyObject*>time_module
    )
    self.own_calls = not self.is_loops or (
        _PyType_Lookup(type, NAME_CALL_LATER) is <PyObject*>loop_call_later and call_at_is_own(self)
    )
    self.versions.type = type
    self.versions.type_version = hw_type_version(type)
    self.versions.attributes_version = hw_dict_version(<PyObject*>self.attributes)
    self.versions.time_version = hw_dict_version(<PyObject*>time_names)
    self.versions.asyncio_version = hw_dict_version(<PyObject*>asyncio_names)


cdef inline double timers_time(LoopTimers self) except? -1:
    """What loop.time() says, without the way there if it would only read the clock."""
    cdef timespec now
    if not timers_are_as_known(self):
        timers_look_again(self)
    if self.genuine_clock:
        clock_gettime(CLOCK_MONOTONIC, &now)
        return <double>(<int64_t>now.tv_sec * 1000000000 + now.tv_nsec) / 1e9      # rounded as time.monotonic() does
    return self.loop.time()


# --- a clock that goes back --------------------------------------------------------------------------------------
#
# What is added for a time that the wheel's clock has passed goes to Timer.ready, which is kept in order by sorting; that
# is right, but slow for many. So after some of them the wheel is made anew at the loop's time.

cdef enum:
    BEHIND_LIMIT = 64           # entries that are kept by sorting, and a sixteenth of what is pending besides


cdef inline void timers_note_tick(LoopTimers self, int64_t tick, double now) noexcept:
    """Before something is placed by this tick."""
    cdef int64_t clock_tick = self.timer.wheel.levels[0].current_time_ms
    if tick <= clock_tick:
        self.unsorted = True
        if tick_of(now) < clock_tick:
            self.behind += 1
            if self.behind > BEHIND_LIMIT + (self.timer.pending >> 4):
                timers_turn_back(self, tick_of(now))


cdef void timers_turn_back(LoopTimers self, int64_t now_tick) noexcept:
    """Sets the wheel's clock back: takes everything out, and puts it in again. O(pending).

    What finds no place, because it is due or there is no memory for its level, stays in Timer.ready: kept by sorting.
    """
    cdef Timer* timer = self.timer
    cdef bint have_memory = True
    lock_with_gil(timer)
    while have_memory and not wheel_reaches_from(&timer.wheel, now_tick):
        lock_release(timer)
        have_memory = timer_grow(timer)
        lock_with_gil(timer)
    wheel_set_back(&timer.wheel, now_tick, &timer.ready)
    lock_release(timer)
    self.behind = 0
    self.unsorted = True
