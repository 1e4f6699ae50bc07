# The algorithms of the wheel for columns of int64, for callers that keep buckets elsewhere, as hwheel.spark does in a
# state store. There is no lock, because these functions share no state: the caller provides the memory.

cdef class Columns:
    cdef list buffers
    cdef const int64_t* data[8]
    cdef int width
    cdef int64_t count

cdef struct BareWheel:
    # The levels of a wheel without their buckets.
    int64_t tick_ms[64]         # MAX_LEVELS
    uint64_t interval_ms[64]    # UINT64_MAX beyond 64 bits
    int64_t clock_ms[64]
    int32_t level_count

cdef struct RowSet:
    # A hash set of row numbers. Rows are equal if all columns are.
    const int64_t** columns
    int column_count
    int64_t* slots              # row + 1, or 0 if empty; their number is a power of two, at least twice the number of rows
    uint64_t mask

cdef struct KeyedRow:
    uint64_t key                # beside its row, so that a pass reads memory sequentially
    int64_t row
