# One-dimensional int64 buffers from outside: PEP 3118 (NumPy, array.array, memoryview) or the Arrow C data interface
# (pyarrow, polars, ...), neither of which needs the other package to be installed.

cdef extern from *:
    """
    /* The Arrow C data interface: a stable ABI, defined by its specification, made to be declared by who uses it. */
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    struct ArrowSchema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct ArrowSchema **children, *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ArrowArray **children, *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    """
    cdef struct ArrowSchema:
        const char* format
    cdef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        const void** buffers


@cython.auto_pickle(False)      # which would read `data` up to a zero
cdef class Int64Buffer:
    """Someone else's memory, kept alive by this object."""
    cdef const char* data
    cdef int64_t count
    cdef Py_ssize_t stride      # in bytes
    cdef object keeper          # a memoryview or an Arrow capsule


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
    cdef int64_t i
    if schema.format[0] != c"l" or schema.format[1] != 0:
        raise TypeError(f"{name} must be an Arrow array of int64, not of format {schema.format.decode()!r}")
    self.keeper = array_capsule
    self.count = column.length
    self.stride = sizeof(int64_t)
    if column.null_count != 0 and column.buffers[0] is not NULL:
        bits = <const char*>column.buffers[0]
        for i in range(column.offset, column.offset + column.length):
            if not (bits[i >> 3] >> (i & 7)) & 1:
                raise ValueError(f"{name} must not contain nulls, but [{i - column.offset}] is null")
    self.data = <const char*>(<const int64_t*>column.buffers[1] + column.offset)
    return True


cdef Int64Buffer int64_indices(object source):
    """Contiguous int64 indices; an iterable of int will do as well."""
    cdef Int64Buffer self
    if not PyObject_CheckBuffer(source) and not hasattr(source, "__arrow_c_array__"):
        try:
            source = array.array("q", source)
        except TypeError:
            raise TypeError("indices must be a one-dimensional buffer of int64 or an iterable of int, "
                            f"not {type(source).__name__}") from None
        except OverflowError:
            raise IndexError("an index does not fit into 64 bits") from None
    self = int64_buffer(source, "indices")
    if self.stride != sizeof(int64_t) and self.count > 1:
        self = int64_buffer(array.array("q", memoryview(source)), "indices")
    return self
