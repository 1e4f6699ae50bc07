# Memory: blocks that begin at a cache line, and the levels of a wheel.

cdef enum:
    CACHE_LINE = 64
    BLOCK_HEAD = 2 * sizeof(void*)      # before a block: [-1] the address to free, [-2] the next block in a list to free


cdef void* block_new(size_t count, size_t size, bint zeroed) noexcept nogil:
    """Allocate room for `count` items of `size` bytes, aligned to a cache line; NULL on failure.

    The caller makes sure that count * size is far from an overflow.
    """
    cdef size_t total = count * size + BLOCK_HEAD + CACHE_LINE
    cdef void* allocated = PyMem_RawCalloc(1, total) if zeroed else PyMem_RawMalloc(total)
    cdef void** block
    if allocated is NULL:
        return NULL
    block = <void**>((<uintptr_t>allocated + BLOCK_HEAD + CACHE_LINE - 1) & ~<uintptr_t>(CACHE_LINE - 1))
    block[-1] = allocated
    block[-2] = NULL
    return block


cdef void block_free(void* block) noexcept nogil:
    """Free a block, or do nothing for NULL."""
    if block is not NULL:
        PyMem_RawFree((<void**>block)[-1])


cdef inline void block_leave(void* block, void** blocks) noexcept nogil:
    """Add a block to a list for blocks_free, because memory must not be freed under a lock. NULL is ignored."""
    if block is not NULL:
        (<void**>block)[-2] = blocks[0]
        blocks[0] = block


cdef void blocks_free(void* blocks) noexcept nogil:
    """Free the blocks that block_leave has collected."""
    cdef void* following
    while blocks is not NULL:
        following = (<void**>blocks)[-2]
        block_free(blocks)
        blocks = following


cdef struct LevelMemory:
    # Memory for one more level. It is allocated before a lock is taken. Leftovers are freed after the lock is released.
    Bucket* buckets
    Bucket** queue


cdef bint level_memory_new(LevelMemory* self, int32_t wheel_size, int32_t level_count) noexcept nogil:
    """Allocate the memory with which a wheel gets level_count levels. On failure return False and allocate nothing.

    The buckets are initialized here, because adding the level happens under a lock, and a million buckets take 128 MB.
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
    """Initialize a wheel with one level in zeroed memory. On failure return False; wheel_destroy is then harmless."""
    cdef LevelMemory memory
    if not level_memory_new(&memory, wheel_size, 1):
        return False
    wheel_init(self, tick_ms, wheel_size, start_ms, memory.buckets, memory.queue)
    return True


cdef void wheel_take_level(Wheel* self, LevelMemory* memory) noexcept nogil:
    """Add a level. Afterwards `memory` holds the old delay queue, for the caller to free."""
    wheel_grow(self, memory.buckets, memory.queue, &memory.queue)
    memory.buckets = NULL


cdef bint wheel_make_level(Wheel* self) noexcept nogil:
    """Allocate and add a level, for a wheel that one thread uses. Return False on failure."""
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
