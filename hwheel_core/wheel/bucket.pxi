# A bucket is the list of entries of one tick of one level. A bookmark is the position of a thread that walks over a list.
#
# Hints of a bucket. A cascade walks a bucket from its end to its beginning. It reaches an appended entry before all older ones,
# so the hint of an appended entry names the entry that was appended HINT_DISTANCE appends earlier. It reaches a pushed entry
# after all older ones. So a pushed entry is the target for the hint of the entry that was pushed HINT_DISTANCE pushes earlier,
# and the push must write into that older entry. The older entry still exists if only cascades have removed entries since
# (Wheel.removals). After any other removal, no hint is written until HINT_DISTANCE more entries have been pushed.


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


# --- bookmarks ----------------------------------------------------------------------------------------------------

# A bucket has no counter, because a cancelled entry does not know its bucket. A thread that wants the number, or all entries,
# walks the list, and releases the lock every few entries. Its bookmark remembers the next entry, and a thread that removes that
# entry moves the bookmark. While no walk is running, this costs a removal one comparison of a pointer with NULL.
#   The walk goes from the end to the beginning: the hints point in that direction, and entries that are appended during the
# walk cannot make it longer.


cdef inline void bookmark_put(Bookmark* self, Wheel* wheel, const Entry* head) noexcept nogil:
    self.head = head
    self.entry = head.prev
    self.next = wheel.bookmarks
    wheel.bookmarks = self


cdef inline void bookmark_remove(Bookmark* self, Wheel* wheel) noexcept nogil:
    cdef Bookmark** link = &wheel.bookmarks
    while link[0] is not NULL:      # in the child of a fork, the list is empty
        if link[0] is self:
            link[0] = self.next
            return
        link = &link[0].next


cdef inline int64_t bookmark_count(Bookmark* self, int64_t most) noexcept nogil:
    """Advance by at most `most` entries and return by how many.

    A smaller number means that the walk is at its end, or that the bucket was taken.
    """
    cdef const Entry* entry = self.entry
    cdef int64_t count = 0
    if self.head is NULL:
        return 0
    while count < most and entry is not self.head:
        hw_prefetch(entry_hinted(entry))
        entry = entry.prev
        count += 1
    self.entry = entry
    return count


cdef inline const Entry* bookmark_step(Bookmark* self) noexcept nogil:
    """Return the next entry, and move on. Return NULL at the end, or if the bucket was taken."""
    cdef const Entry* entry = self.entry
    if self.head is NULL or entry is self.head:
        return NULL
    hw_prefetch(entry_hinted(entry))
    self.entry = entry.prev
    return entry


cdef void bookmarks_leave(Wheel* self, const Entry* entry) noexcept nogil:
    """Move all bookmarks off an entry that is about to be unlinked."""
    cdef Bookmark* bookmark = self.bookmarks
    while bookmark is not NULL:
        if bookmark.entry is entry:
            bookmark.entry = entry.prev
        bookmark = bookmark.next


cdef void bookmarks_invalidate(Wheel* self, const Bucket* bucket) noexcept nogil:
    """Invalidate the bookmarks of a bucket whose entries are moved elsewhere."""
    cdef Bookmark* bookmark = self.bookmarks
    while bookmark is not NULL:
        if bookmark.head is &bucket.entries:
            bookmark.head = NULL
            bookmark.entry = NULL
        bookmark = bookmark.next
