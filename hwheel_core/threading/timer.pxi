# What happens to an hwheel.Timer outside of its own methods: its expiry in the reaper, and its run in a thread of a pool. Both
# are compiled, so an exception from outside strikes only inside the function of a timer, or in the reaper between two timers.


cdef bint drop_in_end(object timer) except False:
    """Mark a timer as over, and wake the threads that wait in join()."""
    timer._over = True
    latch = timer._over_event
    if latch is not None:
        latch.set()
    return True


cdef bint drop_in_call(object timer) except False:
    """Call the function of an expired timer, unless the timer is cancelled."""
    timer._runner.name = timer.name
    finished = timer._finished
    if timer._is_finished or (finished is not None and finished.is_set()):
        return True
    timer.function(*timer.args, **timer.kwargs)
    timer._is_finished = True
    finished = timer._finished
    if finished is not None:
        finished.set()
    return True


def run_timer(timer):
    """Run an expired timer in the current thread, which is a thread of a pool."""
    cdef object context = None
    try:
        timer._runner = threading.current_thread()
        context = context_enter()       # an empty one, as in a new thread
        drop_in_call(timer)
    except BaseException as error:
        report_uncaught(error, timer)
    finally:
        drop_in_end(timer)
        if context is not None:
            context_leave(context)


def run_timer_alone(timer, engine, on_forked):
    """Call the run() of a subclass in the timer's own thread. on_forked: called at the end in a child that run() has forked."""
    cdef object generation = engine.generation
    try:
        timer.run()
    except BaseException as error:
        report_uncaught(error, timer)
    finally:
        drop_in_end(timer)
    if engine.generation != generation:
        on_forked()


def insist(function):
    """Call function() until it returns without an exception. Report each exception, such as one from outside."""
    cdef bint over = False
    while not over:
        try:
            function()
            over = True
        except BaseException as error:
            report_uncaught(error, None)
            time.sleep(ERROR_PAUSE_MS / 1000.0)


@cython.final
cdef class TimerExpiry:
    """The callback of all hwheel.Timer objects: passes an expired timer to ``pools[daemon]``."""

    def __init__(self, dict pools not None):
        self.pools = pools

    def __call__(self, timer):
        if timer._has_expired:
            return                      # two threads have started this timer at once
        timer._has_expired = True
        try:
            self.pools[bool(timer._daemonic)].submit(Partial(run_timer, timer))
        except:
            drop_in_end(timer)
            raise


timer_expiry = TimerExpiry              # for the census
