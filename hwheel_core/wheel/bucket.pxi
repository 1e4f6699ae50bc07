# A bucket: the tasks of one tick of one level, and the prefetch hints of their nodes.
#
# A cascade walks a bucket from its end to its beginning. Nodes lie scattered over memory, so each step would wait for
# a cache miss; a node's hint names the one that the walk reaches HINT_DISTANCE steps later, to be fetched meanwhile.
#   An append is walked before everything that is in the bucket: its hint is the append HINT_DISTANCE before it. That
# node may have been cancelled and freed since; a hint is prefetched and not read, so that does no harm.
#   A push to the front is walked last: it is the hint of the push HINT_DISTANCE before it, and has to be written into
# that older node. As long as nothing was removed from the wheel but by the cascade itself (`removals`), that node is
# there; after a removal the lead over the walk is built up anew.


cdef inline Entry* lead_take(Lead* self, Entry* added, int64_t removals) noexcept nogil:
    """The node whose hint has to name `added`, which is about to enter the list; NULL while there is none that old. The
    caller moves self.entry on by one in the direction in which the list grows."""
    if self.entry is NULL or self.removals != removals:
        self.removals = removals
        self.entry = added
        self.count = 0
    elif self.count < HINT_DISTANCE - 1:
        self.count += 1
    else:
        return self.entry
    return NULL


cdef inline void bucket_init(Bucket* self, int16_t level, int32_t index) noexcept nogil:
    list_init(&self.entries)
    self.queue_index = -1
    self.level = level
    self.entries.bucket_index = index


cdef inline void bucket_append(Bucket* self, Entry* entry) noexcept nogil:
    cdef int16_t at = self.recent_index
    entry_set_hint(entry, self.recent[at])
    self.recent[at] = entry_number(entry)
    self.recent_index = (at + 1) & (HINT_DISTANCE - 1)
    list_append(&self.entries, entry)


cdef inline void bucket_push(Bucket* self, Entry* entry, int64_t removals) noexcept nogil:
    cdef Entry* older = lead_take(&self.pushed, entry, removals)
    entry.hint = 0
    if older is not NULL:
        entry_set_hint(older, entry_number(entry))
        self.pushed.entry = older.prev
    list_push(&self.entries, entry)
