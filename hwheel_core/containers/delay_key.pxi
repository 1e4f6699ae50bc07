# DelayKey: what put() of a DelayQueue returns, and what hangs in the wheel.


@cython.freelist(64)
@cython.no_gc               # the collector does not look at what waits: see structs.pxd
cdef class DelayKey:
    """What `put()` of a DelayQueue returns: the item's key, for `reset()` and `remove()`. Known by its identity."""

    @classmethod
    def __class_getitem__(cls, item):
        """For type checkers."""
        return types.GenericAlias(cls, item)

    def __init__(self, *args, **kwargs):
        raise TypeError("keys are made by put()")

    @property
    def item(self):
        """The item; None once it has left the queue."""
        return key_item(self, False)

    @property
    def deadline(self):
        """When the item falls due, or did, in seconds on the clock of the queue's timer."""
        return hw_peek64(&self.deadline_ms) / 1000.0

    @property
    def pending(self):
        """True while the item is in the queue, due or not."""
        return hw_load(&self.queue) != 0

    def __repr__(self):
        return f"<{type(self).__name__} {'pending' if self.pending else 'out'}, deadline {self.deadline} s>"


cdef DelayKey sample_key = DelayKey.__new__(DelayKey)
key_entry_offset = <char*>&sample_key.entry - <char*><PyObject*>sample_key
sample_key = None

hw_set_name(<PyObject*>DelayKey, "hwheel.types.DelayKey")       # see task/timer_task.pxi
