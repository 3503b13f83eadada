import numpy as np

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, qsort

from pyxsim.heap cimport grown

HOST, DEVICE, GLOO, NOTHING = range(4)
NO_TIME = INT64_MIN
cdef enum:
    C_DEVICE = 1
    C_GLOO = 2
    C_NOTHING = 3
    FEW = 16

cdef struct Cut:
    int64_t begin
    int64_t until
    int64_t turn  # breaks ties
    int64_t cause  # -1: none
    int64_t waits

cdef struct Hole:
    int64_t begin
    int64_t until


cdef inline bint earlier(const Cut *one, const Cut *other) noexcept nogil:
    if one.begin != other.begin:
        return one.begin < other.begin
    if one.until != other.until:
        return one.until < other.until
    return one.turn < other.turn


cdef int compared(const void *one, const void *other) noexcept nogil:
    return -1 if earlier(<const Cut *> one, <const Cut *> other) else 1


cdef void sort(Cut *cuts, int64_t count) noexcept nogil:
    cdef int64_t i, j
    cdef Cut held
    if count > FEW:
        qsort(cuts, count, sizeof(Cut), compared)
        return
    for i in range(1, count):
        held, j = cuts[i], i
        while j and earlier(&held, &cuts[j - 1]):
            cuts[j] = cuts[j - 1]
            j -= 1
        cuts[j] = held


cdef inline int64_t up_to(const int64_t[::1] sorted_times, int64_t time) noexcept nogil:
    """How many of ascending times are not after this one."""
    cdef int64_t low = 0, high = sorted_times.shape[0], middle
    while low < high:
        middle = (low + high) >> 1
        if sorted_times[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


cdef class Pieces:
    """Pieces, as they are found."""

    cdef Piece *rows
    cdef int64_t count, room

    def __dealloc__(self):
        free(self.rows)

    cdef int add(self, int64_t start, int64_t end, int64_t outer, int64_t waits, int64_t cause) except -1:
        self.rows = <Piece *> grown(self.rows, &self.room, self.count + 1, sizeof(Piece))
        self.rows[self.count] = Piece(start, end, outer, waits, cause)
        self.count += 1
        return 0

cdef struct Piece:
    int64_t start
    int64_t end
    int64_t outer
    int64_t waits
    int64_t cause


def pieces(const int32_t[::1] thread, const int64_t[::1] start, const int64_t[::1] end, const uint8_t[::1] waits,
           const uint8_t[::1] calls, const int64_t[::1] began, const int64_t[::1] ends):
    cdef Pieces found = Pieces()
    cdef Cut *cuts = NULL
    cdef Hole *quiet = NULL
    cdef int64_t room = 0, more = 0, count, holes, place = 0, rows = start.shape[0], outer, inner, covered, last, at, k
    cdef int64_t begin, until
    try:
        while place < rows:
            outer, covered, last, holes, count = place, start[place], max(end[place], start[place] + 1), 0, 0
            place += 1
            while place < rows and thread[place] == thread[outer] and start[place] < last:
                if place > outer + 1 and ends.shape[0]:
                    quiet = <Hole *> grown(quiet, &more, holes + 1, sizeof(Hole))
                    quiet[holes] = Hole(covered, start[place])
                    holes += 1
                covered, last = max(covered, end[place]), max(last, end[place])
                place += 1
            if place > outer + 1:
                quiet = <Hole *> grown(quiet, &more, holes + 1, sizeof(Hole))
                quiet[holes] = Hole(covered, end[outer])
                holes += 1
            for inner in range(outer, place):
                if waits[inner]:
                    begin, until, k = start[inner], end[inner], -1
                elif began[inner] != INT64_MIN:
                    begin, until, k = start[inner], min(end[inner], max(start[inner], began[inner])), inner
                    if calls[inner]:
                        quiet = <Hole *> grown(quiet, &more, holes + 1, sizeof(Hole))
                        quiet[holes] = Hole(until, end[inner])
                        holes += 1
                else:
                    continue
                cuts = <Cut *> grown(cuts, &room, count + 1, sizeof(Cut))
                cuts[count] = Cut(begin, until, count, k, C_DEVICE if k < 0 else C_NOTHING)
                count += 1
            for k in range(holes):
                if up_to(ends, quiet[k].begin) < up_to(ends, quiet[k].until):
                    cuts = <Cut *> grown(cuts, &room, count + 1, sizeof(Cut))
                    cuts[count] = Cut(quiet[k].begin, quiet[k].until, count, -1, C_GLOO)
                    count += 1
            sort(cuts, count)
            at = start[outer]
            for k in range(count):
                begin, until = max(at, cuts[k].begin), max(at, cuts[k].until)
                if cuts[k].waits == C_NOTHING:
                    found.add(at, until, outer, C_NOTHING, cuts[k].cause)
                else:
                    if begin > at:
                        found.add(at, begin, outer, C_NOTHING, -1)
                    found.add(begin, until, outer, cuts[k].waits, -1)
                at = until
            covered = max(end[outer], covered)
            if last > at and (covered > at or not count):
                found.add(at, covered, outer, C_NOTHING, -1)
    finally:
        free(cuts)
        free(quiet)
    table = np.zeros((0, 5), np.int64)
    if found.count:
        table = np.asarray(<int64_t[:found.count, :5]> <int64_t *> found.rows)
    one, two, three, four, five = table.T.copy()
    return one, two, three, four.astype(np.uint8), five


cdef class Waits:
    """What tasks wait for, one task after the other."""

    cdef int64_t *rows
    cdef int64_t count, room

    def __dealloc__(self):
        free(self.rows)

    cdef int add(self, int64_t task) except -1:
        self.rows = <int64_t *> grown(self.rows, &self.room, self.count + 1, sizeof(int64_t))
        self.rows[self.count] = task
        self.count += 1
        return 0


def replay(const int64_t[::1] order, const int64_t[::1] start, const int64_t[::1] end, const uint8_t[::1] kind,
           const int32_t[::1] lane, const int64_t[::1] after, const uint8_t[::1] waits, by_end):
    cdef int64_t rows = start.shape[0], lanes = (1 + np.max(lane)) if rows else 0, tasks = 0
    activities, times = np.empty(2 * rows, np.int64), np.empty(2 * rows, np.int64)
    starts = np.zeros(2 * rows + 1, np.int64)
    cdef int64_t[::1] activity_of = activities, ns = times, before_start = starts
    cdef int64_t[::1] task = np.full(rows, -1, np.int64), newest = np.full(lanes, -1, np.int64)
    cdef int64_t[::1] told = np.full(2 * rows, -1, np.int64)  # the last activity that waits for a task
    cdef const int64_t[::1] of_host = by_end[0], of_device = by_end[1], of_gloo = by_end[2]
    cdef const int64_t[::1] own, own_ends
    cdef const int64_t[::1] host_ends = np.asarray(end)[by_end[0]], device_ends = np.asarray(end)[by_end[1]]
    cdef const int64_t[::1] gloo_ends = np.asarray(end)[by_end[2]]
    cdef Waits before = Waits()
    cdef int64_t first = np.min(start) if rows else 0, turn, row, k, low, high, known, begun, two[2]
    for turn in range(rows):
        row = order[turn]
        two[0], two[1] = newest[lane[row]], after[row]
        newest[lane[row]] = row
        known = INT64_MIN
        for k in range(2):
            if two[k] >= 0:
                known = max(known, end[two[k]])
                if task[two[k]] >= 0 and told[task[two[k]]] != turn:
                    told[task[two[k]]] = turn
                    before.add(task[two[k]])
        if two[0] < 0 and two[1] < 0:
            known = first
        if start[row] > known:
            # It waited for what has ended since: every collective of gloo, and what ended last.
            begun = known
            if kind[row] != C_DEVICE and gloo_ends.shape[0]:
                low, high = up_to(gloo_ends, begun), up_to(gloo_ends, start[row])
                for k in range(low, high):
                    if task[of_gloo[k]] >= 0:
                        known = max(known, gloo_ends[k])
                        if told[task[of_gloo[k]]] != turn:
                            told[task[of_gloo[k]]] = turn
                            before.add(task[of_gloo[k]])
            if kind[row] == C_DEVICE:
                own, own_ends = of_device, device_ends
            elif kind[row] == C_GLOO:
                own, own_ends = of_gloo, gloo_ends
            else:
                own, own_ends = of_host, host_ends
            k = up_to(own_ends, start[row]) - 1
            while k >= 0 and own_ends[k] > begun and task[own[k]] < 0:
                k -= 1
            if k >= 0 and own_ends[k] > begun:
                known = max(known, own_ends[k])
                if told[task[own[k]]] != turn:
                    told[task[own[k]]] = turn
                    before.add(task[own[k]])
        if start[row] > known:
            activity_of[tasks], ns[tasks] = -1, start[row] - known
            tasks += 1
            before_start[tasks] = before.count
            before.add(tasks - 1)
        begun = start[row]
        if waits[row] != C_NOTHING:
            if waits[row] == C_GLOO:
                own, own_ends = of_gloo, gloo_ends
            else:
                own, own_ends = of_device, device_ends
            low, high = up_to(own_ends, begun), up_to(own_ends, end[row])
            if waits[row] == C_GLOO:
                for k in range(low, high):
                    if task[own[k]] >= 0:
                        begun = max(begun, own_ends[k])
                        before.add(task[own[k]])
            else:
                k = high - 1
                while k >= low and task[own[k]] < 0:
                    k -= 1
                if k >= low:
                    begun = own_ends[k]
                    before.add(task[own[k]])
        activity_of[tasks], ns[tasks] = row, end[row] - begun
        task[row] = tasks
        tasks += 1
        before_start[tasks] = before.count
    which = np.zeros(0, np.int64)
    if before.count:
        which = np.asarray(<int64_t[:before.count]> before.rows).copy()
    return activities[:tasks], times[:tasks], starts[:tasks + 1], which
