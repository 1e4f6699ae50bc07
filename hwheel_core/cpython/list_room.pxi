# Room in a list for an item that is about to be taken out of somewhere: it is made before, because what has been taken must
# not be lost for want of memory. Until then a None stands for it.


cdef bint list_make_room(list items) except False:
    items.append(None)
    return True


cdef inline void list_fill_room(list items, object item) noexcept:
    items[len(items) - 1] = item


cdef void list_drop_room(list items) noexcept:
    """Takes the None away, if it is still there. (list.pop may want memory, for a smaller list.)"""
    cdef Py_ssize_t length = len(items)
    if length and items[length - 1] is None:
        hw_set_size(<PyObject*>items, length - 1)
        Py_DECREF(None)                 # the list's
