# Rows in order of a column's values, by a radix sort.


cdef void column_sort(const int64_t* values, int64_t count, KeyedRow** rows, KeyedRow** spare) noexcept nogil:
    """Stable radix sort of rows by their values; only the bytes in which these differ are looked at, and what is in
    order already is left as it is."""
    cdef int64_t counts[8][256]
    cdef int64_t i, begin, size, least = INT64_MAX, most = INT64_MIN, before = INT64_MIN
    cdef bint ascending = True
    cdef uint64_t spread, key
    cdef int digit, digits = 0
    cdef KeyedRow* source = rows[0]
    cdef KeyedRow* target = spare[0]
    for i in range(count):
        begin = hw_read(&values[source[i].row])
        least = min(least, begin)
        most = max(most, begin)
        ascending &= begin >= before
        before = begin
        source[i].key = <uint64_t>begin
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
