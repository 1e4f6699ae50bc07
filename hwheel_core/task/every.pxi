# A task of call_every goes into a timer.


cdef PeriodicTask core_call_every(BaseTimer self, TimerGroup group, object interval, object callback, tuple args,
                                  object missed_ticks, object slack, object jitter, object random, object max_lateness,
                                  object context):
    """BaseTimer.call_every; with a group, TimerGroup.call_every."""
    cdef PeriodicTask task
    cdef Instant now, length, delay
    cdef Terms terms
    seconds_argument(interval, "interval", &length)
    callback_argument(callback)
    if length.ms < 0 or (length.ms == 0 and length.ns == 0):
        raise ValueError(f"interval must be positive, not {interval!r}")
    if not isinstance(missed_ticks, str) or missed_ticks not in MISSED_NAMES:
        raise ValueError(f'missed_ticks must be "skip", "burst" or "delay", got {missed_ticks!r}')
    terms_argument(slack, max_lateness, &terms)
    jitter_ns, draw = jitter_argument(jitter, random)
    if context is not None:
        callback, args = context_run(context, callback), (callback, *args)
    core_ready(self)
    timer_read_clock(self.timer, &now)
    task = PeriodicTask.__new__(PeriodicTask) if group is None else GroupPeriodicTask.__new__(GroupPeriodicTask)
    task_set_call(task, callback, args, None)
    task.task.flags |= TASK_REPEATS
    if group is not None:
        member_init(&task.task, &(<GroupPeriodicTask>task).member, group.group)
    task.missed = MISSED_NAMES.index(missed_ticks)
    task.interval = length
    task.interval_ns = instant_ns(&length)
    task.next_ns = instant_ns(&now) + task.interval_ns
    task.terms = terms
    task.jitter_ns, task.draw = jitter_ns, draw
    delay = length
    if draw is not None:
        instant_set_ns(&delay, task.interval_ns + jitter_drawn(task))
    task_own(task, self.timer)
    core_schedule(self, task, &now, &delay)
    task.task.delay_ms = length.ms + (1 if length.ns else 0)
    return task
