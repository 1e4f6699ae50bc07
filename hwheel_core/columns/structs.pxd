# The wheel's work on whole columns of int64, for who keeps the buckets elsewhere (hwheel.spark: in a state store). There
# is no lock, because nothing has a state that outlives its call: the caller brings all memory.

cdef class Columns:
    cdef list buffers
    cdef const int64_t* data[8]
    cdef int width
    cdef int64_t count

cdef struct Grid:
    # The levels of a wheel without their buckets.
    int64_t tick_ms[64]         # MAX_LEVELS
    uint64_t interval_ms[64]    # UINT64_MAX where it does not fit
    int64_t clock_ms[64]
    int32_t level_count

cdef struct RowSet:
    # A hash set of row numbers; rows are equal if they are so in all columns.
    const int64_t** columns
    int column_count
    int64_t* slots              # row + 1, or 0; at least twice as many as rows, a power of two
    uint64_t mask

cdef struct KeyedRow:
    uint64_t key                # beside its row, so that a pass reads memory from its beginning to its end
    int64_t row
