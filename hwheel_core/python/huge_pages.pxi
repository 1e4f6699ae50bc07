# Huge pages under CPython's small objects, by request.
#
# CPython carves its small objects out of arenas of 1 MiB, and asks an allocator that can be exchanged for these. Ours takes
# 64 of them at a time, so that they lie in huge pages: with a million timers in memory nearly each look at one is a miss in
# the TLB otherwise. Arenas that CPython had before stay where they are, and go back to where they came from.

cdef enum:
    ARENA_SIZE = 1 << 20
    REGION_SIZE = 64 * ARENA_SIZE

cdef struct HugeRegion:
    char* memory                # REGION_SIZE, aligned to it
    uint64_t taken              # a bit for each arena
    HugeRegion* next

cdef PyObjectArenaAllocator arenas_before       # where others come from, and go back to
cdef HugeRegion* huge_regions = NULL
cdef PyThread_type_lock huge_lock = NULL        # interpreters with a GIL of their own share the allocator


cdef HugeRegion* huge_region_new() noexcept nogil:
    cdef HugeRegion* self = <HugeRegion*>PyMem_RawCalloc(1, sizeof(HugeRegion))
    if self is NULL:
        return NULL
    self.memory = <char*>hw_huge_new(REGION_SIZE)
    if self.memory is NULL:
        PyMem_RawFree(self)
        return NULL
    return self


cdef void* huge_arena_new() noexcept nogil:
    """NULL: there is no more room in huge pages."""
    cdef HugeRegion* region = huge_regions
    cdef int arena
    global huge_regions
    while region is not NULL and region.taken == UINT64_MAX:
        region = region.next
    if region is NULL:
        region = huge_region_new()
        if region is NULL:
            return NULL
        region.next = huge_regions
        huge_regions = region
    arena = 63 - hw_leading_zeros(~region.taken)
    region.taken |= <uint64_t>1 << arena
    return region.memory + <size_t>arena * ARENA_SIZE


cdef bint huge_arena_free(void* memory) noexcept nogil:
    """False: it is not one of ours."""
    cdef HugeRegion** place = &huge_regions
    cdef HugeRegion* region
    cdef int arena, pair
    while place[0] is not NULL and not 0 <= <char*>memory - place[0].memory < REGION_SIZE:
        place = &place[0].next
    region = place[0]
    if region is NULL:
        return False
    arena = <int>((<char*>memory - region.memory) // ARENA_SIZE)
    region.taken &= ~(<uint64_t>1 << arena)
    if region.taken == 0:
        place[0] = region.next
        hw_huge_free(region.memory, REGION_SIZE)
        PyMem_RawFree(region)
        return True
    pair = arena & ~1                   # the two arenas of a huge page, which goes back to the system as a whole
    if region.taken >> pair & 3 == 0:
        hw_huge_discard(region.memory + <size_t>pair * ARENA_SIZE, 2 * ARENA_SIZE)
    return True


cdef void* arena_alloc(void* context, size_t size) noexcept nogil:
    cdef void* memory = NULL
    if size == ARENA_SIZE:
        PyThread_acquire_lock(huge_lock, WAIT_LOCK)
        memory = huge_arena_new()
        PyThread_release_lock(huge_lock)
    return memory if memory is not NULL else arenas_before.alloc(arenas_before.ctx, size)


cdef void arena_free(void* context, void* memory, size_t size) noexcept nogil:
    cdef bint was_ours
    PyThread_acquire_lock(huge_lock, WAIT_LOCK)
    was_ours = huge_arena_free(memory)
    PyThread_release_lock(huge_lock)
    if not was_ours:
        arenas_before.free(arenas_before.ctx, memory, size)


def use_huge_pages():
    """Has Python take the memory of all small objects from now on in huge pages. True: it does; False: not here.

    With a million timers or more, most of what an operation costs is waiting for memory, and much of that is looking up
    where a page lies. This concerns the whole process and not timers alone, so it comes by request only; call it early,
    because what is there already stays where it is. The environment variable HWHEEL_HUGE_PAGES=1 does the same at the
    first import.

    Address space is taken 64 MiB at a time, and memory 2 MiB at a time, where CPython takes 1 MiB and the system gives it
    4 KiB at a time: a small program is up to 2 MiB larger by it. 2 MiB go back to the system when nothing in them is in
    use. False on systems other than Linux, with a kernel without huge pages, or with "never" in its switch, the file
    /sys/kernel/mm/transparent_hugepage/enabled; on a free-threaded CPython, and with PYTHONMALLOC=malloc, which have no
    arenas.

    Thread-safety: any thread. O(1).
    """
    cdef PyObjectArenaAllocator ours
    cdef HugeRegion* first
    global huge_regions, huge_lock
    if huge_lock is not NULL:
        return True
    if HW_FREE_THREADED or not sys.getallocatedblocks():    # it counts what lies in arenas
        return False
    first = huge_region_new()           # also to see whether there are any
    if first is NULL:
        return False
    huge_lock = PyThread_allocate_lock()
    if huge_lock is NULL:
        hw_huge_free(first.memory, REGION_SIZE)
        PyMem_RawFree(first)
        raise MemoryError
    huge_regions = first
    PyObject_GetArenaAllocator(&arenas_before)
    ours.ctx = NULL
    ours.alloc = arena_alloc
    ours.free = arena_free
    PyObject_SetArenaAllocator(&ours)
    return True


if os.environ.get("HWHEEL_HUGE_PAGES") == "1":
    use_huge_pages()
