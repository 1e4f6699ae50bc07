# Sets of rows: which rows of some columns are equal, and which of them are left when some are taken back.


cdef size_t rowset_slots(int64_t count) noexcept nogil:
    cdef size_t slots = 16
    while slots < <size_t>count * 2:
        slots *= 2
    return slots


cdef int64_t* rowset_find(RowSet* self, int64_t row) noexcept nogil:
    """The slot of the row equal to this one, or the empty slot where it belongs."""
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
    """A stable grouping, groups in order of their first row; returns how many. starts_out has room for count + 1."""
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
    # Each start has moved to the end of its group, which is the start of the next.
    for group in range(groups, 0, -1):
        starts_out[group] = starts_out[group - 1]
    starts_out[0] = 0
    return groups


cdef int64_t rowset_survivors(RowSet* self, const int64_t* tombstones, int64_t count, const int64_t* order,
                          int64_t order_count, int64_t* rows_out, int64_t* bad_row_out) noexcept nogil:
    """Of the rows named by `order`, the first of each that no tombstone equals; returns how many. -1: `order` names a
    row that is not there, bad_row_out."""
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
        # More different rows than there are rows come only of columns that are being changed; they would fill the set,
        # and a search in a full one would not end.
        if slot[0] == 0 and taken < count:
            slot[0] = row + 1
            taken += 1
            rows_out[survivors] = row
            survivors += 1
    return survivors
