# Blocks of memory that begin at a cache line, so that what is made to fit into one does not lie across two.

cdef enum:
    CACHE_LINE = 64
    BLOCK_HEAD = 2 * sizeof(void*)      # before a block: [-1] what malloc gave, [-2] the next of those that are to be freed


cdef void* block_new(size_t count, size_t size, bint zeroed) noexcept nogil:
    """Room for count items of a size, which together are far from overflowing; NULL when there is no memory."""
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
    """NULL is fine."""
    if block is not NULL:
        PyMem_RawFree((<void**>block)[-1])


cdef inline void block_leave(void* block, void** blocks) noexcept nogil:
    """Puts a block to those that are to be freed, by who may not do so under a lock. NULL is fine."""
    if block is not NULL:
        (<void**>block)[-2] = blocks[0]
        blocks[0] = block


cdef void blocks_free(void* blocks) noexcept nogil:
    """Frees all that block_leave has put together."""
    cdef void* following
    while blocks is not NULL:
        following = (<void**>blocks)[-2]
        block_free(blocks)
        blocks = following
