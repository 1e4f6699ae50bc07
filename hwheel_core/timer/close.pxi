# close(): one thread at a time ends the timer.


cdef bint core_begin_close(BaseTimer self) noexcept:
    """Whether the caller is who closes, and is to call core_close(): nobody has done it, or is about to."""
    if hw_peek(&self.is_over) or not hw_take(&self.closer, PyThread_get_thread_ident()):
        return False
    if not hw_peek(&self.is_over):
        return True
    hw_word_store(&self.closer, 0)      # who was about to has just come to the end
    return False


cdef object core_close(BaseTimer self, bint run_pending, object timeout, object write):
    """close(), by who has taken `closer`. write: what to call with what had not run, for its result; only when that is back is
    it given away."""
    try:
        core_after_fork(self)
        self._close()
        self._end_threads(run_pending, timeout)
        timer_return_all(self.timer, core_not_run(self))
        if hw_peek(&self.timer.dumping):
            core_take_resting(self, self.not_run)
        self._give_back(self.not_run)
        result = self.not_run if write is None else write(self.not_run)
        timer_drop_clock(self.timer)
        hw_poke(&self.is_over, True)
        self.not_run = None
        return result
    finally:
        hw_word_store(&self.closer, 0)
