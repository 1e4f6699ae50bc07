# One-dimensional int64 buffers from outside: PEP 3118 (NumPy, array.array, memoryview) or the Arrow C data interface
# (pyarrow, polars, ...), neither of which needs the other package to be installed.
#
# The rule for foreign memory. Whoever lent it may write to it at any moment, because functions over columns give the
# GIL up, and where there is no GIL every line does. So a number is read with hw_read, once, into a variable of ours;
# what it is used for (an index, a sum) is checked on that variable, after the read, at each use; and nothing that was
# found out in one pass over the memory is relied upon in a second one, unless the first has copied it. Numbers that
# change meanwhile may give an error, or the answer for either of their values, but never more than that.


cdef class Int64Buffer:
    """Someone else's memory, kept alive by this object."""

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
                        f"not {type(source).__name__}")
    return self


cdef bint arrow_buffer(Int64Buffer self, object source, str name) except False:
    schema_capsule, array_capsule = source.__arrow_c_array__()
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    cdef ArrowArray* column = <ArrowArray*>PyCapsule_GetPointer(array_capsule, "arrow_array")
    cdef const char* bits
    cdef int64_t i, end
    if schema.release is NULL or column.release is NULL:
        raise ValueError(f"{name} is an Arrow array that somebody else has taken out of its capsules")
    if schema.format is NULL or schema.format[0] != c"l" or schema.format[1] != 0 or schema.dictionary is not NULL:
        shown = "none" if schema.format is NULL else repr((<bytes>schema.format).decode(errors="replace"))
        raise TypeError(f"{name} must be an Arrow array of int64, not of format {shown}"
                        f"{'' if schema.dictionary is NULL else ' with a dictionary'}")
    # Moved, as the interface's specification has it: from now on nobody else can release it.
    self.arrow = column[0]
    column.release = NULL
    column = &self.arrow
    if (column.length < 0 or column.offset < 0 or hw_add_overflows(column.offset, column.length, &end)
            or hw_mul_overflows(end, sizeof(int64_t), &i) or column.n_buffers != 2):
        raise ValueError(f"{name} is no Arrow array: length {column.length}, offset {column.offset}, "
                         f"{column.n_buffers} buffers")
    self.count = column.length
    self.stride = sizeof(int64_t)
    if self.count == 0:
        return True
    if column.buffers is NULL or column.buffers[1] is NULL:
        raise ValueError(f"{name} is no Arrow array: it has {self.count} items, and no memory for them")
    bits = <const char*>column.buffers[0]
    if column.null_count > 0 and bits is NULL:
        raise ValueError(f"{name} must not contain nulls, but has {column.null_count}")
    if column.null_count != 0 and bits is not NULL:
        for i in range(column.offset, end):
            if not (bits[i >> 3] >> (i & 7)) & 1:
                raise ValueError(f"{name} must not contain nulls, but [{i - column.offset}] is null")
    self.data = <const char*>(<const int64_t*>column.buffers[1] + column.offset)
    return True


cdef bint is_one_number(object source) except -1:
    """Whether it is an int, also one of NumPy's, which say that they are buffers, too; and no bool."""
    return PyIndex_Check(source) and not isinstance(source, bool) and getattr(source, "shape", ()) == ()


cdef Int64Buffer int64_contiguous(object source, str name):
    """int64_buffer, and a copy where the items do not stand side by side."""
    cdef Int64Buffer self = int64_buffer(source, name)
    cdef array.array copied
    cdef int64_t i
    if self.stride == sizeof(int64_t) or self.count <= 1:
        return self
    copied = array.clone(INT64, self.count, False)
    for i in range(self.count):
        copied.data.as_longlongs[i] = hw_read(self.data + i * self.stride)
    return int64_buffer(copied, name)


cdef Int64Buffer int64_indices(object source):
    """Contiguous int64 indices; an iterable of int will do as well."""
    if not PyObject_CheckBuffer(source) and not hasattr(source, "__arrow_c_array__"):
        try:
            numbers = iter(source)
        except TypeError:
            raise TypeError("indices must be a one-dimensional buffer of int64 or an iterable of int, "
                            f"not {type(source).__name__}") from None
        numbers = list(numbers)         # what this raises is somebody's own
        try:
            values = array.array("q", numbers)
        except TypeError as error:
            raise TypeError(f"indices must be int: {error}") from None
        except OverflowError:
            raise IndexError("an index does not fit into 64 bits") from None
        if bool in map(type, numbers):
            raise TypeError("indices must be int, not bool")
        source = values
    return int64_contiguous(source, "indices")
