# The functions over columns for Python: place, group, order_by, and survivors. They take buffers of int64 and return
# array('q').

cdef class Columns:
    """Contiguous int64 columns of the same length, which this object keeps alive."""


cdef Columns int64_columns(tuple sources, str name):
    cdef Columns self = Columns.__new__(Columns)
    cdef Int64Buffer column
    if not 0 < len(sources) <= 8:
        raise ValueError(f"{name} must be from 1 to 8 columns, got {len(sources)}")
    self.buffers = []
    self.width = 0
    for source in sources:
        column = int64_contiguous(source, name)
        if self.width and column.count != self.count:
            raise ValueError(f"{name} must have the same length, got {self.count} and {column.count}")
        self.count = column.count
        self.buffers.append(column)
        self.data[self.width] = <const int64_t*>column.data
        self.width += 1
    return self


cdef array.array int64_array(int64_t count):
    cdef array.array created = array.clone(array.array("q"), count, zero=False)
    hw_advise_huge(created.data.as_voidptr, count * sizeof(int64_t))
    return created


cdef int64_t* int64_memory(int64_t count, bint zeroed) except NULL:
    cdef int64_t* memory
    if zeroed:
        memory = <int64_t*>PyMem_RawCalloc(max(count, 1), sizeof(int64_t))
    else:
        memory = <int64_t*>PyMem_RawMalloc(max(count, 1) * sizeof(int64_t))
    if memory is NULL:
        raise MemoryError
    # The callers touch all of this memory, and with small pages the page faults would take as long as the work.
    hw_advise_huge(memory, count * sizeof(int64_t))
    return memory


def place(times_ms, now_ms, tick_ms, wheel_size):
    """Return the levels and buckets in which a wheel holds entries with these expirations.

    Args:
        times_ms: The expirations in ms: a one-dimensional buffer of int64 (NumPy, Arrow, array).
        now_ms: The wheel's clock, as ``start_ms`` of TimingWheel.
        tick_ms, wheel_size: As in TimingWheel.

    Returns:
        ``(levels, buckets_ms)``, two array('q'): the level, from 1, and the expiration of the bucket. Level 0 means
        that the entry has expired; its bucket is its tick.

    Raises:
        TypeError, ValueError, OverflowError: An argument is invalid, as in TimingWheel.

    O(levels) per time. Thread-safe; releases the GIL.

    >>> from array import array
    >>> place(array("q", [5, 30, 230]), 0, 20, 10)
    (array('q', [0, 1, 2]), array('q', [0, 20, 200]))
    """
    cdef Columns times = int64_columns((times_ms,), "times_ms")
    cdef int64_t now = integer_argument(now_ms, "now_ms")
    cdef int64_t tick = integer_argument(tick_ms, "tick_ms")
    cdef int64_t size = integer_argument(wheel_size, "wheel_size")
    cdef BareWheel grid
    wheel_check_size(tick, size)
    if now < 0:
        raise ValueError(f"now_ms must not be negative, got {now}")
    cdef array.array levels = int64_array(times.count)
    cdef array.array buckets = int64_array(times.count)
    cdef int64_t* levels_out = <int64_t*>levels.data.as_longlongs
    cdef int64_t* buckets_out = <int64_t*>buckets.data.as_longlongs
    with nogil:
        bare_wheel_init(&grid, now, tick, size)
        bare_wheel_place(&grid, times.data[0], times.count, levels_out, buckets_out)
    return levels, buckets


def group(*columns):
    """Group rows that are equal in all columns.

    Args:
        columns: One to eight buffers of int64 with the same length.

    Returns:
        ``(order, starts)``, two array('q'). ``order`` has the row numbers, group by group, and ascending within a group.
        ``starts`` has the index in ``order`` at which each group begins, followed by the length of ``order``. Groups are in
        order of their first row.

    Raises:
        TypeError, ValueError: A column is not a buffer of int64, or the lengths differ.

    O(rows). Thread-safe; releases the GIL.

    >>> from array import array
    >>> group(array("q", [7, 5, 7]), array("q", [0, 0, 0]))
    (array('q', [0, 2, 1]), array('q', [0, 2, 3]))
    """
    cdef Columns rows = int64_columns(columns, "columns")
    cdef size_t slots = rowset_slots(rows.count)
    cdef array.array order = int64_array(rows.count)
    cdef array.array starts = int64_array(rows.count + 1)
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
    """Return the stable order of rows by the first column, then the second, and so on.

    Args:
        columns: One to eight buffers of int64 with the same length.

    Returns:
        An array('q') of row numbers.

    Raises:
        TypeError, ValueError: A column is not a buffer of int64, or the lengths differ.

    O(rows) for each byte in which a column's values differ. Thread-safe; releases the GIL.

    >>> from array import array
    >>> order_by(array("q", [20, 10, 20]), array("q", [3, 2, 1]))
    array('q', [1, 2, 0])
    """
    cdef Columns rows = int64_columns(columns, "columns")
    cdef array.array result = int64_array(rows.count)
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
    """Return the first of equal rows, without rows that a tombstone equals.

    Args:
        order: The row numbers to consider, in order: a buffer of int64.
        tombstones: 1 for each row that is a tombstone, else 0. Tombstones count even if ``order`` lacks them.
        columns: One to eight buffers of int64, with the same length as ``tombstones``.

    Returns:
        An array('q') of row numbers, in their order in ``order``.

    Raises:
        TypeError, ValueError: An argument is not a buffer of int64, or the lengths differ.
        IndexError: ``order`` has a row number out of range.

    O(rows). Thread-safe; releases the GIL.

    >>> from array import array
    >>> survivors(array("q", [3, 0, 1]), array("q", [0, 0, 1, 0]), array("q", [7, 8, 8, 7]))
    array('q', [3])
    """
    cdef Columns order_rows = int64_columns((order,), "order")
    cdef Columns flags = int64_columns((tombstones,), "tombstones")
    cdef Columns rows = int64_columns(columns, "columns")
    cdef int64_t count, bad_row = 0
    cdef RowSet row_set
    if flags.count != rows.count:
        raise ValueError(f"tombstones must have the length of the columns, {rows.count}, got {flags.count}")
    cdef size_t slots = rowset_slots(rows.count)
    cdef array.array result = int64_array(order_rows.count)
    cdef int64_t* result_out = <int64_t*>result.data.as_longlongs
    row_set.columns = rows.data
    row_set.column_count = rows.width
    row_set.mask = slots - 1
    row_set.slots = int64_memory(slots, True)
    try:
        with nogil:
            count = rowset_survivors(&row_set, flags.data[0], rows.count, order_rows.data[0],
                                     order_rows.count, result_out, &bad_row)
    finally:
        PyMem_RawFree(row_set.slots)
    if count < 0:
        raise IndexError(f"order must have row numbers from 0 to {rows.count - 1}, got {bad_row}")
    array.resize(result, count)
    return result
