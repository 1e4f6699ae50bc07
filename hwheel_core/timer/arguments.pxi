# Arguments and errors: Python values become C values, with an error that names the argument, and a Status becomes an exception.
# A bool is never accepted as a time.


cdef enum:
    EXACT_NS_S = 2_097_152      # 24 days in seconds: below it, the sum of two floats is exact to half a nanosecond

cdef double MOST_NS_S = 9e9                 # 285 years in seconds: below it, nanoseconds fit into 64 bits
cdef double TWO_LAST_PLACES = 4.5e-16       # the relative error of a float after two roundings


cdef int64_t integer_argument(object value, str name) except? -1:
    """Convert an int, or an object with __index__, to 64 bits."""
    cdef int overflow = 0
    cdef long long number
    if PyLong_CheckExact(value):        # takes half the time of the general case
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            return number
    if isinstance(value, bool) or not PyIndex_Check(value):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    value = PyNumber_Index(value)
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise OverflowError(f"{name} does not fit into 64 bits: {value}")
    return value


cdef int64_t milliseconds_argument(object value, str name) except? -1:
    """Convert a duration in ms. A float is rounded up."""
    if not isinstance(value, float):
        return integer_argument(value, name)
    finite_argument(value, name)
    value = ceil(<double>value)
    if not -9.2e18 < value < 9.2e18:
        return milliseconds_overflow(name, value)
    return <int64_t><double>value


cdef double finite_argument(object value, str name) except? -1:
    cdef double number = value
    if isnan(number):
        raise ValueError(f"{name} is not a number (NaN)")
    if isinf(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def check_timeout(timeout):
    """Check the timeout of a wait. Return None, or a non-negative and possibly infinite number of seconds."""
    cdef Instant length
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        seconds_argument(timeout, "timeout", &length)
        timeout = float(timeout)
    if timeout != timeout:
        raise ValueError("timeout is not a number (NaN)")
    if timeout < 0:
        raise ValueError(f"timeout must not be negative, got {timeout}")
    return timeout


cdef bint seconds_argument(object value, str name, Instant* length_out) except False:
    """Convert a real number of seconds to an Instant.

    The result is exact to the nanosecond, or to the precision of a float. A value within rounding error of a whole millisecond
    becomes that millisecond.
    """
    cdef long long number
    cdef int overflow = 0
    if PyFloat_CheckExact(value):
        return seconds_convert(PyFloat_AS_DOUBLE(value), name, length_out)
    if not PyLong_CheckExact(value):
        return seconds_argument(seconds_number(value, name), name, length_out)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or hw_mul_overflows(number, 1000, &length_out.ms):
        return milliseconds_overflow(name, value)
    length_out.ns = 0
    return True


cdef bint milliseconds_overflow(str name, object value) except False:
    raise OverflowError(f"{name} does not fit into 64 bits of milliseconds: {value!r}")


cdef object seconds_number(object value, str name):
    """Convert a number of any other type to an int or a float."""
    # NumPy converts its bools, strings, and complex numbers to float on request.
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if value is None or isinstance(value, (bool, str, bytes, bytearray)) or kind not in ("i", "u", "f"):
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}")
    if PyIndex_Check(value) and kind != "f":
        return PyNumber_Index(value)
    try:
        return <double>value
    except TypeError:
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}") from None
    except OverflowError:
        milliseconds_overflow(name, value)


cdef inline bint seconds_convert(double seconds, str name, Instant* length_out) except False:
    cdef double exact_ms, nearest_ms
    cdef bint is_whole
    cdef int64_t ns
    if not -EXACT_NS_S < seconds < EXACT_NS_S:
        finite_argument(seconds, name)
        exact_ms = seconds * 1e3
        if not -9223372036854775808.0 <= exact_ms < 9223372036854775808.0:
            return milliseconds_overflow(name, seconds)
        nearest_ms = floor(exact_ms + 0.5)
        is_whole = fabs(exact_ms - nearest_ms) <= fabs(exact_ms) * TWO_LAST_PLACES
        if is_whole or not -MOST_NS_S < seconds < MOST_NS_S:
            length_out[0] = Instant(<int64_t>(nearest_ms if is_whole else ceil(exact_ms)), 0)
            return True
    ns = hw_round(seconds * 1e9)
    length_out.ms = ns // NS_PER_MS
    length_out.ns = <int32_t>(ns % NS_PER_MS)
    if length_out.ns < 0:                   # C rounds toward zero
        length_out.ms -= 1
        length_out.ns += NS_PER_MS
    return True


cdef inline tuple arguments_from(PyObject** args, Py_ssize_t first, Py_ssize_t count):
    cdef tuple arguments
    cdef Py_ssize_t i
    if count == first:
        return ()
    arguments = PyTuple_New(count - first)
    for i in range(first, count):
        Py_INCREF(<object>args[i])
        PyTuple_SET_ITEM(arguments, i - first, <object>args[i])
    return arguments


cdef object instant_ns(const Instant* instant):
    return <object>instant.ms * NS_PER_MS + instant.ns


cdef bint instant_set_ns(Instant* instant_out, object ns) except False:
    instant_out[0] = Instant(ns // NS_PER_MS, ns % NS_PER_MS)
    return True


cpdef int64_t ceil_milliseconds(object seconds, str name) except? -1:
    """Convert seconds to milliseconds, rounded up as deadlines are."""
    cdef Instant length
    seconds_argument(seconds, name, &length)
    return length.ms + (length.ns != 0)


cdef int64_t whole_milliseconds(object seconds, str name) except? -1:
    """Convert a non-negative number of seconds to milliseconds, rounded up as deadlines are."""
    cdef int64_t ms = ceil_milliseconds(seconds, name)
    if ms < 0 or (ms == 0 and seconds < 0):
        raise ValueError(f"{name} must not be negative, got {seconds}")
    return ms


cdef bint callback_argument(object callback) except False:
    if not PyCallable_Check(callback):
        raise TypeError(f"callback must be callable, got {type(callback).__name__}")
    return True


cdef bint wheel_check_size(int64_t tick_ms, int64_t wheel_size) except False:
    if tick_ms < 1:
        raise ValueError(f"tick_ms must be at least 1, got {tick_ms}")
    if not 2 <= wheel_size <= MAX_WHEEL_SIZE:
        raise ValueError(f"wheel_size must be from 2 to {MAX_WHEEL_SIZE}, got {wheel_size}")
    return True


cdef bint wheel_check_arguments(int64_t tick_ms, int64_t wheel_size, int64_t start_ms) except False:
    cdef int64_t interval
    wheel_check_size(tick_ms, wheel_size)
    if start_ms < 0:
        raise ValueError(f"start_ms must not be negative, got {start_ms}")
    if hw_mul_overflows(tick_ms, wheel_size, &interval):
        raise OverflowError(f"tick_ms * wheel_size does not fit into 64 bits: {tick_ms} * {wheel_size}")
    return True


cdef Timer* timer_from_arguments(object tick_ms, object wheel_size, object start_ms, int32_t clock,
                                 bint never_early) except NULL:
    """Create a Timer from the arguments of a constructor."""
    cdef int64_t tick = integer_argument(tick_ms, "tick_ms")
    cdef int64_t size = integer_argument(wheel_size, "wheel_size")
    cdef int64_t start = integer_argument(start_ms, "start_ms")
    cdef Timer* timer
    wheel_check_arguments(tick, size, start)
    with nogil:
        timer = timer_new(tick, <int32_t>size, start, clock, never_early)
    if timer is NULL:
        raise MemoryError
    return timer


# --- errors ------------------------------------------------------------------------------------------------------


cdef bint error_raise() except False:
    """Propagate the exception that is set already."""
    return False


cdef int status_raise(Timer* timer, Status status) except -1:
    """Raise the exception for a status. The lock must be free."""
    if status == CLOSED:
        raise TimerClosed("the timer is closed")
    if status == GROUP_CLOSED:
        raise TimerClosed("the group is closed")
    if status == FULL:
        raise TimerFull(f"the timer holds max_pending={timer.max_pending} timers already")
    if status == WAS_PENDING:
        raise ValueError("the task is pending already")
    if status == SPENT:
        raise ValueError("the task has expired and its callback is gone; make a new one")
    raise MemoryError
