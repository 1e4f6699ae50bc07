# The delay queue: a binary heap of the buckets that hold something, so that the clock goes from one to the next and
# never through an empty tick. It holds buckets, never tasks: at most levels * wheel_size, room that is there from the
# moment a level is made, so nothing here can fail.
#
# Order: by expiration, at equal expiration the finer level first. A cascade pushes entries to the front of finer
# buckets; for one tick, what sits in a coarser level was added before what sits in a finer one; so the coarser has to
# be pushed last to come out first.


cdef inline bint queue_before(const Bucket* a, const Bucket* b) noexcept nogil:
    if a.entries.expiration_ms != b.entries.expiration_ms:
        return a.entries.expiration_ms < b.entries.expiration_ms
    return a.level < b.level


cdef inline void queue_put(Wheel* self, Bucket* bucket, int32_t at) noexcept nogil:
    self.queue[at] = bucket
    bucket.queue_index = at


cdef void queue_rise(Wheel* self, Bucket* bucket, int32_t at) noexcept nogil:
    cdef int32_t parent
    while at > 0:
        parent = (at - 1) >> 1
        if not queue_before(bucket, self.queue[parent]):
            break
        queue_put(self, self.queue[parent], at)
        at = parent
    queue_put(self, bucket, at)


cdef void queue_sink(Wheel* self, Bucket* bucket, int32_t at) noexcept nogil:
    cdef int32_t child
    while True:
        child = 2 * at + 1
        if child >= self.queue_length:
            break
        if child + 1 < self.queue_length and queue_before(self.queue[child + 1], self.queue[child]):
            child += 1
        if not queue_before(self.queue[child], bucket):
            break
        queue_put(self, self.queue[child], at)
        at = child
    queue_put(self, bucket, at)


cdef void queue_push(Wheel* self, Bucket* bucket) noexcept nogil:
    self.queue_length += 1
    queue_rise(self, bucket, self.queue_length - 1)


cdef void queue_pop(Wheel* self) noexcept nogil:
    """Takes off the first, the only one that ever goes: what is queued stays until its time is over, or is dropped by then."""
    self.queue[0].queue_index = -1
    self.queue_length -= 1
    if self.queue_length:
        queue_sink(self, self.queue[self.queue_length], 0)


cdef Bucket* queue_first_until(Wheel* self, int64_t now_ms) noexcept nogil:
    """The bucket that falls due first, if that is by now_ms, or NULL. Of those that cancels have emptied, only what is due
    is dropped."""
    while self.queue_length and self.queue[0].entries.expiration_ms <= now_ms:
        if not list_is_empty(&self.queue[0].entries):
            return self.queue[0]
        queue_pop(self)
    return NULL


cdef Bucket* queue_first(Wheel* self) noexcept nogil:
    """The bucket that falls due first, or NULL. Buckets that cancels have emptied are dropped on the way."""
    while self.queue_length:
        if not list_is_empty(&self.queue[0].entries):
            return self.queue[0]
        queue_pop(self)
    return NULL
