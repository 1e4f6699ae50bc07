# Blocks of memory that begin at a cache line, so that what is made to fit into one does not lie across two.

cdef enum:
    CACHE_LINE = 64
    BLOCK_HEAD = 2 * sizeof(void*)      # before a block: [-1] what malloc gave, [-2] for whoever has the block


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
