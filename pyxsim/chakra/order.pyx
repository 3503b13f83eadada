"""Nodes in an order in which they can be done: how deep each one lies, and when it could end at the earliest.

Row r waits for the rows `before[ptr[r]:ptr[r + 1]]`.
"""

import numpy as np

from libc.stdint cimport int64_t


def levels(const int64_t[::1] ptr, const int64_t[::1] before, const int64_t[::1] weight):
    """The level of each row (0: waits for nothing; -1: waits for a cycle), and its end if each takes its `weight`."""
    cdef Py_ssize_t n = ptr.shape[0] - 1, head = 0, tail = 0, k
    cdef int64_t row, other
    level_array, end_array = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    cdef int64_t[::1] level = level_array, end = end_array
    cdef int64_t[::1] depth = np.zeros(n, dtype=np.int64), queue = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] left = np.empty(n, dtype=np.int64), place = np.zeros(n + 1, dtype=np.int64)
    cdef int64_t[::1] filled = np.zeros(n, dtype=np.int64), behind = np.empty(before.shape[0], dtype=np.int64)
    with nogil:
        for k in range(before.shape[0]):
            place[before[k] + 1] += 1
        for row in range(n):
            place[row + 1] += place[row]
        for row in range(n):
            left[row] = ptr[row + 1] - ptr[row]
            if left[row] == 0:
                queue[tail] = row
                tail += 1
            for k in range(ptr[row], ptr[row + 1]):
                other = before[k]
                behind[place[other] + filled[other]] = row
                filled[other] += 1
        while head < tail:
            row = queue[head]
            head += 1
            level[row] = depth[row]
            end[row] += weight[row]
            for k in range(place[row], place[row + 1]):
                other = behind[k]
                if depth[other] < depth[row] + 1:
                    depth[other] = depth[row] + 1
                if end[other] < end[row]:
                    end[other] = end[row]
                left[other] -= 1
                if left[other] == 0:
                    queue[tail] = other
                    tail += 1
    return level_array, end_array
