# The memory of a wheel: a block of buckets for each level, and a delay queue with room for all of them.


cdef struct LevelMemory:
    # What one level more needs. Allocated before a lock is taken, freed after it is released.
    Bucket* buckets
    Bucket** queue


cdef bint level_memory_new(LevelMemory* self, int32_t wheel_size, int32_t level_count) noexcept nogil:
    """For a wheel that is going to have level_count levels. False when there is no memory, and then nothing to free.

    The buckets are made ready here and not where the level is added, because that is done under a lock: a level of a
    million buckets is 128 MB.
    """
    cdef int32_t i
    self.buckets = <Bucket*>block_new(wheel_size, sizeof(Bucket), True)
    self.queue = <Bucket**>PyMem_RawCalloc(<size_t>wheel_size * level_count, sizeof(Bucket*))
    if self.buckets is not NULL and self.queue is not NULL:
        for i in range(wheel_size):
            bucket_init(&self.buckets[i], <int16_t>level_count, i)
        return True
    level_memory_free(self)
    return False


cdef void level_memory_free(LevelMemory* self) noexcept nogil:
    block_free(self.buckets)
    PyMem_RawFree(self.queue)


cdef bint wheel_create(Wheel* self, int64_t tick_ms, int32_t wheel_size, int64_t start_ms) noexcept nogil:
    """A wheel with its first level, in zeroed memory. False when there is none; wheel_destroy does no harm then."""
    cdef LevelMemory memory
    if not level_memory_new(&memory, wheel_size, 1):
        return False
    wheel_init(self, tick_ms, wheel_size, start_ms, memory.buckets, memory.queue)
    return True


cdef void wheel_take_level(Wheel* self, LevelMemory* memory) noexcept nogil:
    """wheel_grow. What is left in `memory` is still the caller's to free: the delay queue that was too short."""
    wheel_grow(self, memory.buckets, memory.queue, &memory.queue)
    memory.buckets = NULL


cdef bint wheel_make_level(Wheel* self) noexcept nogil:
    """One level more, for a wheel that no other thread is at. False when there is no memory."""
    cdef LevelMemory memory
    if not level_memory_new(&memory, self.wheel_size, self.level_count + 1):
        return False
    wheel_take_level(self, &memory)
    level_memory_free(&memory)
    return True


cdef void wheel_destroy(Wheel* self) noexcept nogil:
    cdef int32_t i
    for i in range(self.level_count):
        block_free(self.levels[i].buckets)
    PyMem_RawFree(self.queue)
