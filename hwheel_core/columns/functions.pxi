# The functions over columns that Python sees: place, group, order_by, survivors. Columns come as buffers of int64 and go
# out as array('q').

cdef class Columns:
    """Contiguous int64 columns of one length, kept alive by this object."""


cdef Columns int64_columns(tuple sources, str name):
    cdef Columns self = Columns.__new__(Columns)
    cdef Int64Buffer column
    if not 0 < len(sources) <= 8:
        raise ValueError(f"{name} must be from 1 to 8 columns, not {len(sources)}")
    self.buffers = []
    self.width = 0
    for source in sources:
        column = int64_contiguous(source, name)
        if self.width and column.count != self.count:
            raise ValueError(f"{name} must have one length, not {self.count} and {column.count}")
        self.count = column.count
        self.buffers.append(column)
        self.data[self.width] = <const int64_t*>column.data
        self.width += 1
    return self


cdef array.array int64_room(int64_t count):
    cdef array.array room = array.clone(array.array("q"), count, zero=False)
    hw_advise_huge(room.data.as_voidptr, count * sizeof(int64_t))
    return room


cdef int64_t* int64_memory(int64_t count, bint zeroed) except NULL:
    cdef int64_t* memory
    if zeroed:
        memory = <int64_t*>PyMem_RawCalloc(max(count, 1), sizeof(int64_t))
    else:
        memory = <int64_t*>PyMem_RawMalloc(max(count, 1) * sizeof(int64_t))
    if memory is NULL:
        raise MemoryError
    # It is used from end to end, so page faults would cost as much as the work.
    hw_advise_huge(memory, count * sizeof(int64_t))
    return memory


def place(times_ms, now_ms, tick_ms, wheel_size):
    """Where a wheel whose clock stands at now_ms puts what expires at these times.

    Arguments:
        times_ms: one-dimensional buffer of int64 (NumPy, Arrow, array), in ms.
        now_ms, tick_ms, wheel_size: as TimingWheel's start_ms, tick_ms and wheel_size.
    Returns:
        (levels, buckets_ms), two array('q'): the level, from 1, and the expiration of the bucket. Level 0: due already;
        its bucket is its tick.
    Raises:
        TypeError, ValueError, OverflowError: as TimingWheel.

    Runtime complexity: O(1) a time (O(levels)).
    Thread-safety: no state; the GIL is released.

    >>> from array import array
    >>> place(array("q", [5, 30, 230]), 0, 20, 10)
    (array('q', [0, 1, 2]), array('q', [0, 20, 200]))
    """
    cdef Columns times = int64_columns((times_ms,), "times_ms")
    cdef int64_t now = integer_argument(now_ms, "now_ms")
    cdef int64_t tick = integer_argument(tick_ms, "tick_ms")
    cdef int64_t size = integer_argument(wheel_size, "wheel_size")
    cdef Grid grid
    if tick < 1:
        raise ValueError(f"tick_ms must be at least 1, not {tick}")
    if not 2 <= size <= MAX_WHEEL_SIZE:
        raise ValueError(f"wheel_size must be from 2 to {MAX_WHEEL_SIZE}, not {size}")
    if now < 0:
        raise ValueError(f"now_ms must not be negative, not {now}")
    cdef array.array levels = int64_room(times.count)
    cdef array.array buckets = int64_room(times.count)
    cdef int64_t* levels_out = <int64_t*>levels.data.as_longlongs
    cdef int64_t* buckets_out = <int64_t*>buckets.data.as_longlongs
    with nogil:
        grid_init(&grid, now, tick, size)
        grid_place(&grid, times.data[0], times.count, levels_out, buckets_out)
    return levels, buckets


def group(*columns):
    """Groups rows that are equal in all columns.

    Arguments:
        columns: one to eight buffers of int64, of one length.
    Returns:
        (order, starts), two array('q'): the row numbers, group after group, in each as they stood; and where in `order`
        each group begins, with the length of `order` at the end. Groups stand in order of their first row.
    Raises:
        TypeError, ValueError: no int64 buffer, or of different lengths.

    Runtime complexity: O(rows).
    Thread-safety: no state; the GIL is released.

    >>> from array import array
    >>> group(array("q", [7, 5, 7]), array("q", [0, 0, 0]))
    (array('q', [0, 2, 1]), array('q', [0, 2, 3]))
    """
    cdef Columns rows = int64_columns(columns, "columns")
    cdef size_t slots = rowset_slots(rows.count)
    cdef array.array order = int64_room(rows.count)
    cdef array.array starts = int64_room(rows.count + 1)
    cdef int64_t* order_out = <int64_t*>order.data.as_longlongs
    cdef int64_t* starts_out = <int64_t*>starts.data.as_longlongs
    cdef int64_t* group_of = NULL
    cdef int64_t groups
    cdef RowSet row_set
    row_set.columns = rows.data
    row_set.column_count = rows.width
    row_set.mask = slots - 1
    row_set.slots = int64_memory(slots, True)
    try:
        group_of = int64_memory(rows.count, False)
        with nogil:
            groups = rowset_group(&row_set, rows.count, group_of, starts_out, order_out)
    finally:
        PyMem_RawFree(row_set.slots)
        PyMem_RawFree(group_of)
    array.resize(starts, groups + 1)
    return order, starts


def order_by(*columns):
    """The stable order of rows by the first column, then the second, and so on.

    Arguments:
        columns: one to eight buffers of int64, of one length.
    Returns:
        array('q') of row numbers.
    Raises:
        TypeError, ValueError: no int64 buffer, or of different lengths.

    Runtime complexity: O(rows) for each byte in which a column's values differ.
    Thread-safety: no state; the GIL is released.

    >>> from array import array
    >>> order_by(array("q", [20, 10, 20]), array("q", [3, 2, 1]))
    array('q', [1, 2, 0])
    """
    cdef Columns rows = int64_columns(columns, "columns")
    cdef array.array result = int64_room(rows.count)
    cdef int64_t* result_out = <int64_t*>result.data.as_longlongs
    cdef KeyedRow* order = <KeyedRow*>int64_memory(2 * rows.count, False)
    cdef KeyedRow* spare = NULL
    cdef int64_t i
    cdef int column
    try:
        spare = <KeyedRow*>int64_memory(2 * rows.count, False)
        with nogil:
            for i in range(rows.count):
                order[i].row = i
            for column in range(rows.width - 1, -1, -1):
                column_sort(rows.data[column], rows.count, &order, &spare)
            for i in range(rows.count):
                result_out[i] = order[i].row
    finally:
        PyMem_RawFree(order)
        PyMem_RawFree(spare)
    return result


def survivors(order, tombstones, *columns):
    """Of the rows in `order`, the first of each that are equal in all columns, unless a tombstone is equal to them.

    Arguments:
        order: row numbers; not every row need be there.
        tombstones: for each row, 1 if it is a tombstone, else 0. Tombstones count wherever they stand, also those that
            are not in `order`.
        columns: one to eight columns. These are buffers of int64, all but `order` of one length.
    Returns:
        array('q') of row numbers, as they stood in `order`.
    Raises:
        TypeError, ValueError: no int64 buffer, or of different lengths.
        IndexError: `order` names a row that is not there.

    Runtime complexity: O(rows).
    Thread-safety: no state; the GIL is released.

    >>> from array import array
    >>> survivors(array("q", [3, 0, 1]), array("q", [0, 0, 1, 0]), array("q", [7, 8, 8, 7]))
    array('q', [3])
    """
    cdef Columns named = int64_columns((order,), "order")
    cdef Columns flags = int64_columns((tombstones,), "tombstones")
    cdef Columns rows = int64_columns(columns, "columns")
    cdef int64_t count, bad_row = 0
    cdef RowSet row_set
    if flags.count != rows.count:
        raise ValueError(f"tombstones must be as long as the columns, {rows.count}, not {flags.count}")
    cdef size_t slots = rowset_slots(rows.count)
    cdef array.array result = int64_room(named.count)
    cdef int64_t* result_out = <int64_t*>result.data.as_longlongs
    row_set.columns = rows.data
    row_set.column_count = rows.width
    row_set.mask = slots - 1
    row_set.slots = int64_memory(slots, True)
    try:
        with nogil:
            count = rowset_survivors(&row_set, flags.data[0], rows.count, named.data[0], named.count, result_out,
                                 &bad_row)
    finally:
        PyMem_RawFree(row_set.slots)
    if count < 0:
        raise IndexError(f"order must name rows from 0 to {rows.count - 1}, not {bad_row}")
    array.resize(result, count)
    return result
