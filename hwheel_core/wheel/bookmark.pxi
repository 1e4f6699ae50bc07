# Counting what a bucket holds. Nothing is counted while nobody looks, because a cancel does not know its bucket. Who looks
# goes along the list, and gives the lock up now and then: what comes next is remembered by a bookmark, which those who take
# entries out meanwhile move on. They pay for it with one look at a pointer that is NULL.
#   The way is from the end to the beginning, as a cascade's, because the hints (bucket.pxi) are made for that; and because
# what is added meanwhile stands behind, it cannot make the way longer.
#
# Thread-safety: as everything of a wheel, a bookmark is guarded by the lock around it.


cdef inline void bookmark_put(Bookmark* self, Wheel* wheel, const Bucket* bucket) noexcept nogil:
    self.bucket = bucket
    self.entry = bucket.entries.prev
    self.next = wheel.bookmarks
    wheel.bookmarks = self


cdef inline void bookmark_remove(Bookmark* self, Wheel* wheel) noexcept nogil:
    cdef Bookmark** link = &wheel.bookmarks
    while link[0] is not NULL:      # a fork has forgotten those of other threads
        if link[0] is self:
            link[0] = self.next
            return
        link = &link[0].next


cdef inline int64_t bookmark_count(Bookmark* self, int64_t most) noexcept nogil:
    """Goes on by at most so many entries; returns by how many. Less: it has come to the end, or its bucket was taken."""
    cdef const Entry* entry = self.entry
    cdef int64_t count = 0
    if self.bucket is NULL:
        return 0
    while count < most and entry is not &self.bucket.entries:
        hw_prefetch(entry_hinted(entry))
        entry = entry.prev
        count += 1
    self.entry = entry
    return count


cdef void bookmarks_leave(Wheel* self, const Entry* entry) noexcept nogil:
    """An entry is about to be unlinked, and may be freed after."""
    cdef Bookmark* bookmark = self.bookmarks
    while bookmark is not NULL:
        if bookmark.entry is entry:
            bookmark.entry = entry.prev
        bookmark = bookmark.next


cdef void bookmarks_lose(Wheel* self, const Bucket* bucket) noexcept nogil:
    """The bucket is taken: its entries go elsewhere, all at once."""
    cdef Bookmark* bookmark = self.bookmarks
    while bookmark is not NULL:
        if bookmark.bucket is bucket:
            bookmark.bucket = NULL
            bookmark.entry = NULL
        bookmark = bookmark.next
