# The delay queue: a binary heap that holds every non-empty bucket. The clock advances from one bucket to the next, so no time
# is spent on empty ticks. The queue holds buckets, never tasks: at most levels * wheel_size. A new level comes with queue
# memory for all its buckets, so no function here can fail.
#
# Order: by expiration; at equal expiration, the finer level first. A cascade pushes entries to the front of finer buckets. Of
# the entries of one tick, those in a coarser level were added before those in a finer level. They must come out first, so the
# coarser bucket must be pushed last.


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
    """Remove the first bucket. Only the first one ever leaves: a bucket that cancels have emptied stays until then."""
    self.queue[0].queue_index = -1
    self.queue_length -= 1
    if self.queue_length:
        queue_sink(self, self.queue[self.queue_length], 0)


cdef Bucket* queue_first_until(Wheel* self, int64_t now_ms) noexcept nogil:
    """Return the first non-empty bucket that is due by now_ms, or NULL. Drop the empty buckets before it."""
    while self.queue_length and self.queue[0].entries.expiration_ms <= now_ms:
        if not list_is_empty(&self.queue[0].entries):
            return self.queue[0]
        queue_pop(self)
    return NULL


cdef Bucket* queue_first(Wheel* self) noexcept nogil:
    """Return the first non-empty bucket, or NULL. Drop the empty buckets before it."""
    while self.queue_length:
        if not list_is_empty(&self.queue[0].entries):
            return self.queue[0]
        queue_pop(self)
    return NULL
