"""Messages that have arrived and receptions that wait for one, by (source, destination, bytes, tag): a hash table.

A key is in the table while one of both waits. Receptions wait in order; messages of a key are equal, so they count.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free

from pyxsim.heap cimport grown, resized


cdef struct Key:
    int64_t src, dst, size, tag

cdef struct Place:
    Key key
    int64_t arrived      # messages that wait for a reception
    int64_t first, last  # receptions that wait for a message, as the caller numbers them; -1: none
    int64_t following    # place of the same bucket, or free place; -1: none

cdef struct Matching:
    Place* places
    int64_t* buckets
    int64_t place_count, place_capacity, unused, used, bucket_count


cdef inline uint64_t hashed(const Key* key) noexcept nogil:
    cdef uint64_t mixed = (<uint64_t> key.src << 32) ^ <uint64_t> key.dst
    mixed = (mixed ^ <uint64_t> key.tag * <uint64_t> 0xD6E8FEB86659FD93) * <uint64_t> 0x9E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 32) ^ <uint64_t> key.size) * <uint64_t> 0x9E3779B97F4A7C15
    return mixed >> 20


cdef inline bint same(const Key* one, const Key* other) noexcept nogil:
    return one.src == other.src and one.dst == other.dst and one.tag == other.tag and one.size == other.size


cdef inline int begin_matching(Matching* table) except -1 nogil:
    """Begin with an empty table; `table` is zero."""
    table.unused, table.bucket_count = -1, 64
    table.buckets = <int64_t*> resized(NULL, table.bucket_count, sizeof(int64_t))
    cdef int64_t i
    for i in range(table.bucket_count):
        table.buckets[i] = -1
    return 0


cdef inline void end_matching(Matching* table) noexcept nogil:
    free(table.places)
    free(table.buckets)


cdef inline int _spread(Matching* table) except -1 nogil:
    """Double the buckets."""
    cdef int64_t i, place, following, bucket, before = table.bucket_count
    table.buckets = <int64_t*> resized(table.buckets, 2 * before, sizeof(int64_t))
    table.bucket_count = 2 * before
    for i in range(before, 2 * before):
        table.buckets[i] = -1
    for i in range(before):
        place = table.buckets[i]
        table.buckets[i] = -1
        while place >= 0:
            following = table.places[place].following
            bucket = <int64_t> (hashed(&table.places[place].key) & <uint64_t> (2 * before - 1))
            table.places[place].following = table.buckets[bucket]
            table.buckets[bucket] = place
            place = following
    return 0


cdef inline int64_t place_of(Matching* table, const Key* key) except -1 nogil:
    """The place of a key, a new one if it has none."""
    cdef int64_t bucket = <int64_t> (hashed(key) & <uint64_t> (table.bucket_count - 1))
    cdef int64_t place = table.buckets[bucket]
    while place >= 0:
        if same(&table.places[place].key, key):
            return place
        place = table.places[place].following
    if table.used == table.bucket_count:
        _spread(table)
        bucket = <int64_t> (hashed(key) & <uint64_t> (table.bucket_count - 1))
    place = table.unused
    if place >= 0:
        table.unused = table.places[place].following
    else:
        place = table.place_count
        table.places = <Place*> grown(table.places, &table.place_capacity, place + 1, sizeof(Place))
        table.place_count += 1
    cdef Place* new = &table.places[place]
    new.key, new.arrived, new.first, new.last = key[0], 0, -1, -1
    new.following = table.buckets[bucket]
    table.buckets[bucket] = place
    table.used += 1
    return place


cdef inline void leave_if_empty(Matching* table, int64_t place) noexcept nogil:
    """Take a key out of the table if nothing waits there."""
    cdef Place* this = &table.places[place]
    if this.arrived or this.first >= 0:
        return
    cdef int64_t* link = &table.buckets[hashed(&this.key) & <uint64_t> (table.bucket_count - 1)]
    while link[0] != place:
        link = &table.places[link[0]].following
    link[0] = this.following
    this.following = table.unused
    table.unused = place
    table.used -= 1
