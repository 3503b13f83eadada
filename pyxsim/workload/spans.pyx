"""Stretches of time on lines, as of tasks at NPUs: what they cover, and whose each cycle is."""

import numpy as np

from libc.stdint cimport int64_t


def merged(const int64_t[::1] line, const int64_t[::1] begin, const int64_t[::1] end, int64_t lines):
    cdef int64_t i, count = 0, last = -1, rows = line.shape[0]
    starts, begins, ends = np.zeros(lines + 1, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    cdef int64_t[::1] start = starts, first = begins, until = ends
    with nogil:
        for i in range(rows):
            if line[i] == last and begin[i] <= until[count - 1]:
                until[count - 1] = max(until[count - 1], end[i])
            elif end[i] > begin[i]:
                last = line[i]
                first[count], until[count] = begin[i], end[i]
                start[last + 1] += 1
                count += 1
    return np.cumsum(starts), begins[:count], ends[:count]


cdef inline int64_t counted(int64_t time, int64_t first, int64_t last, const int64_t[::1] begin,
                            const int64_t[::1] end, const int64_t[::1] before) noexcept nogil:
    """The cycles up to a time that are outside the stretches `first` to `last` - 1. `before`: what these cover, from
    the first of all on."""
    cdef int64_t low = first, high = last, middle
    while low < high:
        middle = (low + high) // 2
        if begin[middle] < time:
            low = middle + 1
        else:
            high = middle
    if low == first:
        return time
    return time - (before[low - 1] - before[first]) - (min(end[low - 1], time) - begin[low - 1])


def shares(const int64_t[::1] line, const int64_t[::1] begin, const int64_t[::1] end, without):
    cdef const int64_t[::1] start, first, last
    cdef int64_t i, top = -1, of = -1, mine, rows = line.shape[0]
    cdef int64_t from_, until, low, high
    start, first, last = without
    lengths = np.zeros(first.shape[0] + 1, np.int64)
    np.cumsum(np.asarray(last) - np.asarray(first), out=lengths[1:])
    out = np.zeros(rows, np.int64)
    # What the rows before this one cover, as stretches one after the other: begin, end, counted cycles up to each.
    stack = np.empty((4, rows), np.int64)
    cdef const int64_t[::1] before = lengths
    cdef int64_t[::1] share = out
    cdef int64_t[:, ::1] held = stack
    with nogil:
        for i in range(rows):
            if line[i] != of:
                of, top = line[i], -1
            from_, until = begin[i], end[i]
            if until <= from_:
                continue
            low = counted(from_, start[of], start[of + 1], first, last, before)
            high = counted(until, start[of], start[of + 1], first, last, before)
            mine = high - low
            while top >= 0 and held[0, top] >= from_:
                mine -= held[3, top] - held[2, top]
                top -= 1
            if top >= 0 and held[1, top] > from_:
                mine -= held[3, top] - low
                from_, low = held[1, top], held[3, top]
            share[i] = mine
            top += 1
            held[0, top], held[1, top], held[2, top], held[3, top] = from_, until, low, high
    return out
