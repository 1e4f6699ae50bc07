# Room in a list for an item that is about to be removed from elsewhere. The room is reserved before the removal, so that an
# allocation failure cannot lose the item. Until the item arrives, a None holds its place in the list.


cdef bint list_reserve(list items) except False:
    items.append(None)
    return True


cdef bint list_can_grow(list items) except -1:
    """Call list_reserve. Return False if memory is short and the list has items already: the caller returns these first."""
    cdef bint can_grow = True
    try:
        list_reserve(items)
    except MemoryError:
        if not items:
            raise
        can_grow = False
    return can_grow


cdef inline void list_fill(list items, object item) noexcept:
    items[len(items) - 1] = item


cdef void list_unreserve(list items) noexcept:
    """Remove the None if it was not replaced. (list.pop() may allocate memory for a smaller list.)"""
    cdef Py_ssize_t length = len(items)
    if length and items[length - 1] is None:
        hw_set_size(<PyObject*>items, length - 1)
        Py_DECREF(None)                 # the list's
