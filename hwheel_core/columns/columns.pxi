# The plain C part of the functions over columns: placement, sorting, and sets of rows.

# --- placement --------------------------------------------------------------------------------------------------------

# These functions place a column of times as wheel/ places single entries. tests/model/test_columns.py compares the two.

cdef void bare_wheel_init(BareWheel* self, int64_t now_ms, int64_t tick_ms, int64_t wheel_size) noexcept nogil:
    """Compute all possible levels. The interval of the last one exceeds 64 bits."""
    cdef int64_t interval_ms
    cdef bint is_last = False
    self.level_count = 0
    while not is_last:
        is_last = hw_mul_overflows(tick_ms, wheel_size, &interval_ms)
        self.tick_ms[self.level_count] = tick_ms
        self.clock_ms[self.level_count] = now_ms - now_ms % tick_ms
        self.interval_ms[self.level_count] = UINT64_MAX if is_last else <uint64_t>interval_ms
        self.level_count += 1
        tick_ms = interval_ms


cdef void bare_wheel_place(const BareWheel* self, const int64_t* times_ms, int64_t count, int64_t* levels_out,
                           int64_t* buckets_ms_out) noexcept nogil:
    cdef int64_t i, time_ms, ahead_ms, tick_ms
    cdef int32_t level
    for i in range(count):
        time_ms = max(hw_read(&times_ms[i]), 0)     # as in the wheel, a negative time counts as 0
        ahead_ms = time_ms - self.clock_ms[0]
        level = 0
        if ahead_ms < self.tick_ms[0]:
            levels_out[i] = 0
            buckets_ms_out[i] = time_ms - time_ms % self.tick_ms[0]
            continue
        while <uint64_t>ahead_ms >= self.interval_ms[level]:
            level += 1
            ahead_ms = time_ms - self.clock_ms[level]
        tick_ms = self.tick_ms[level]
        levels_out[i] = level + 1
        buckets_ms_out[i] = self.clock_ms[level] + ahead_ms // tick_ms * tick_ms


# --- sorting ----------------------------------------------------------------------------------------------------------

cdef void column_sort(const int64_t* values, int64_t count, KeyedRow** rows, KeyedRow** spare) noexcept nogil:
    """Sort rows by their values: a stable radix sort that skips the high bytes in which no values differ.

    For values that are sorted already, return at once. The sorted rows are in rows[0], which may be swapped with spare[0].
    """
    cdef int64_t counts[8][256]
    cdef int64_t i, value, begin, size, least = INT64_MAX, most = INT64_MIN, before = INT64_MIN
    cdef bint ascending = True
    cdef uint64_t spread, key
    cdef int digit, digits = 0
    cdef KeyedRow* source = rows[0]
    cdef KeyedRow* target = spare[0]
    for i in range(count):
        value = hw_read(&values[source[i].row])
        least = min(least, value)
        most = max(most, value)
        ascending &= value >= before
        before = value
        source[i].key = <uint64_t>value
    if ascending:
        return
    spread = <uint64_t>most - <uint64_t>least
    while digits < 8 and spread >> 8 * digits != 0:
        digits += 1
    memset(counts, 0, sizeof(counts))
    for i in range(count):
        key = source[i].key - <uint64_t>least
        source[i].key = key
        for digit in range(digits):
            counts[digit][key >> 8 * digit & 255] += 1
    for digit in range(digits):
        begin = 0
        for i in range(256):
            size = counts[digit][i]
            counts[digit][i] = begin
            begin += size
        for i in range(count):
            key = source[i].key >> 8 * digit & 255
            target[counts[digit][key]] = source[i]
            counts[digit][key] += 1
        rows[0], spare[0] = target, source
        source, target = target, source


# --- sets of rows -----------------------------------------------------------------------------------------------------

cdef size_t rowset_slots(int64_t count) noexcept nogil:
    cdef size_t slots = 16
    while slots < <size_t>count * 2:
        slots *= 2
    return slots


cdef int64_t* rowset_find(RowSet* self, int64_t row) noexcept nogil:
    """Return the slot of a row equal to this one, or the empty slot for it."""
    cdef uint64_t mixed = 0
    cdef int64_t* slot
    cdef uint64_t place
    cdef int i
    for i in range(self.column_count):
        mixed = (mixed ^ <uint64_t>hw_read(&self.columns[i][row])) * <uint64_t>0x9E3779B97F4A7C15
        mixed ^= mixed >> 32
    place = mixed & self.mask
    while True:
        slot = &self.slots[place]
        if slot[0] == 0 or rowset_equal(self, slot[0] - 1, row):
            return slot
        place = (place + 1) & self.mask


cdef inline bint rowset_equal(const RowSet* self, int64_t a, int64_t b) noexcept nogil:
    cdef int i
    for i in range(self.column_count):
        if hw_read(&self.columns[i][a]) != hw_read(&self.columns[i][b]):
            return False
    return True


cdef int64_t rowset_group(RowSet* self, int64_t count, int64_t* group_of, int64_t* starts_out,
                          int64_t* order_out) noexcept nogil:
    """Group equal rows, in order of their first row, and return the number of groups. starts_out has count + 1 items."""
    cdef int64_t i, group, groups = 0, begin = 0, size
    cdef int64_t* slot
    for i in range(count):
        slot = rowset_find(self, i)
        if slot[0] == 0:
            slot[0] = i + 1
            group = groups
            groups += 1
            starts_out[group] = 0
        else:
            group = group_of[slot[0] - 1]
        group_of[i] = group
        starts_out[group] += 1
    for group in range(groups):
        size = starts_out[group]
        starts_out[group] = begin
        begin += size
    for i in range(count):
        group = group_of[i]
        order_out[starts_out[group]] = i
        starts_out[group] += 1
    # Each start is now the end of its group, which is the start of the next group.
    for group in range(groups, 0, -1):
        starts_out[group] = starts_out[group - 1]
    starts_out[0] = 0
    return groups


cdef int64_t rowset_survivors(RowSet* self, const int64_t* tombstones, int64_t count, const int64_t* order,
                              int64_t order_count, int64_t* rows_out, int64_t* bad_row_out) noexcept nogil:
    """Write the first of equal rows in `order`, without those that a tombstone equals, and return their number.

    Return -1 if `order` has a row number out of range, which is written to bad_row_out.
    """
    cdef int64_t i, row, survivors = 0, taken = 0
    cdef int64_t* slot
    for i in range(count):
        if hw_read(&tombstones[i]) != 0:
            slot = rowset_find(self, i)
            taken += slot[0] == 0
            slot[0] = i + 1
    for i in range(order_count):
        row = hw_read(&order[i])
        if not 0 <= row < count:
            bad_row_out[0] = row
            return -1
        if hw_read(&tombstones[row]) != 0:
            continue
        slot = rowset_find(self, row)
        # More distinct rows than `count` appear only while another thread changes the columns. They must not fill
        # the set, because a search in a full set is endless.
        if slot[0] == 0 and taken < count:
            slot[0] = row + 1
            taken += 1
            rows_out[survivors] = row
            survivors += 1
    return survivors
