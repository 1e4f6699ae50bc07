# One-dimensional int64 buffers of callers: PEP 3118 (NumPy, array.array, memoryview) or the Arrow C data interface (pyarrow,
# polars, ...). Neither needs the other package to be installed.
#
# The rule for foreign memory. The caller's threads may write to it at any moment, because functions over columns release the
# GIL, or because there is no GIL. So each number is read once, with hw_read, into a local variable. The variable is checked
# after the read and before each use as an index or in a sum. A second pass over the memory does not rely on a check of the
# first, unless the first pass has copied the numbers. A number that changes during a call may cause an error or the result
# for either value, and no other harm.

cdef array.array INT64_ARRAY = array.array("q")     # for array.clone


cdef class Int64Buffer:
    """An int64 buffer of a caller, which this object keeps alive."""

    def __dealloc__(self):
        if self.arrow.release is not NULL:
            self.arrow.release(&self.arrow)


cdef Int64Buffer int64_buffer(object source, str name):
    cdef Int64Buffer self = Int64Buffer.__new__(Int64Buffer)
    cdef const int64_t[:] view
    if PyObject_CheckBuffer(source):
        try:
            view = source
        except (ValueError, TypeError, BufferError) as error:
            raise TypeError(f"{name} must be a one-dimensional buffer of int64: {error}") from None
        self.keeper = view
        self.count = view.shape[0]
        self.stride = view.strides[0]
        self.data = <const char*>&view[0] if self.count else NULL
    elif hasattr(source, "__arrow_c_array__"):
        arrow_buffer(self, source, name)
    else:
        raise TypeError(f"{name} must be a one-dimensional buffer of int64 (a NumPy or Arrow array, array.array('q', ...)), "
                        f"got {type(source).__name__}")
    return self


cdef bint arrow_buffer(Int64Buffer self, object source, str name) except False:
    schema_capsule, array_capsule = source.__arrow_c_array__()
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    cdef ArrowArray* column = <ArrowArray*>PyCapsule_GetPointer(array_capsule, "arrow_array")
    cdef const char* bits
    cdef int64_t i, end
    if schema.release is NULL or column.release is NULL:
        raise ValueError(f"{name} is an Arrow array whose capsules were consumed before")
    if schema.format is NULL or schema.format[0] != c"l" or schema.format[1] != 0 or schema.dictionary is not NULL:
        shown = "none" if schema.format is NULL else repr((<bytes>schema.format).decode(errors="replace"))
        raise TypeError(f"{name} must be an Arrow array of int64, got format {shown}"
                        f"{'' if schema.dictionary is NULL else ' with a dictionary'}")
    # Moved, as the specification of the interface requires: from now on only this object releases it.
    self.arrow = column[0]
    column.release = NULL
    column = &self.arrow
    if (column.length < 0 or column.offset < 0 or hw_add_overflows(column.offset, column.length, &end)
            or hw_mul_overflows(end, sizeof(int64_t), &i) or column.n_buffers != 2):
        raise ValueError(f"{name} is not a valid Arrow array: length {column.length}, offset {column.offset}, "
                         f"{column.n_buffers} buffers")
    self.count = column.length
    self.stride = sizeof(int64_t)
    if self.count == 0:
        return True
    if column.buffers is NULL or column.buffers[1] is NULL:
        raise ValueError(f"{name} is not a valid Arrow array: it has {self.count} items, but no memory for them")
    bits = <const char*>column.buffers[0]
    if column.null_count > 0 and bits is NULL:
        raise ValueError(f"{name} must not contain nulls, got {column.null_count}")
    if column.null_count != 0 and bits is not NULL:
        for i in range(column.offset, end):
            if not (bits[i >> 3] >> (i & 7)) & 1:
                raise ValueError(f"{name} must not contain nulls, but [{i - column.offset}] is null")
    self.data = <const char*>(<const int64_t*>column.buffers[1] + column.offset)
    return True


cdef bint is_one_number(object source) except -1:
    """Return True for an int that is not a bool. NumPy's integers count, although they are also buffers."""
    return PyIndex_Check(source) and not isinstance(source, bool) and getattr(source, "shape", ()) == ()


cdef Int64Buffer int64_contiguous(object source, str name):
    """Return an int64_buffer(), copied if its items are not contiguous."""
    cdef Int64Buffer self = int64_buffer(source, name)
    cdef array.array copied
    cdef int64_t i
    if self.stride == sizeof(int64_t) or self.count <= 1:
        return self
    copied = array.clone(INT64_ARRAY, self.count, False)
    for i in range(self.count):
        copied.data.as_longlongs[i] = hw_read(self.data + i * self.stride)
    return int64_buffer(copied, name)


cdef Int64Buffer int64_indices(object source):
    """Return contiguous int64 indices, of a buffer or of an iterable of int."""
    if not PyObject_CheckBuffer(source) and not hasattr(source, "__arrow_c_array__"):
        try:
            numbers = iter(source)
        except TypeError:
            raise TypeError("indices must be a one-dimensional buffer of int64 or an iterable of int, "
                            f"got {type(source).__name__}") from None
        numbers = list(numbers)         # an exception of the iterator is raised unchanged
        try:
            values = array.array("q", numbers)
        except TypeError as error:
            raise TypeError(f"indices must be int: {error}") from None
        except OverflowError:
            raise IndexError("an index does not fit into 64 bits") from None
        if bool in map(type, numbers):
            raise TypeError("indices must be int, got bool")
        source = values
    return int64_contiguous(source, "indices")
