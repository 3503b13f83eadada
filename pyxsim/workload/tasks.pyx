"""Carries out a graph of tasks: what starts when, on which resource. See tasks.pyi and docs/workload.md.

Plain C over arrays, entered once for a batch of ends. An NPU depends on others only while something of it is at work
whose end the system layer tells (a collective, a message). As long as there is nothing of the kind an NPU goes ahead
of the others, up to the cycle in which it communicates next: so Python is entered when somebody communicates, not
when somebody computes.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, qsort

import numpy as np

from pyxsim.raw cimport arrays, loaded, saved
from pyxsim.heap cimport Entry, Heap, grown, heap_saved, load_heap, pop, push

cpdef enum Way:  # how a task ends
    TIMED       # after its ticks
    SEND        # when its message has arrived
    RECEIVE     # when the message of the matching send has arrived
    TOLD        # when it is told so

cdef struct List:
    int32_t* items
    int64_t count, capacity

cdef struct Npu:
    int64_t wake    # the cycle in which it has something to do; -1: when it is told something
    int64_t told    # of its tasks at work, those whose end it is told
    bint begun
    bint due
    Heap timers     # of tasks
    List ends       # what ends in this cycle, not yet taken in
    List starts     # what starts in the cycle of `wake`, and communicates


cdef int push_task(List* to, int32_t task) except -1 nogil:
    if to.count == to.capacity:
        to.items = <int32_t*> grown(to.items, &to.capacity, to.count + 1, sizeof(int32_t))
    to.items[to.count] = task
    to.count += 1
    return 0


cdef bytes list_saved(const List* tasks):
    return saved(tasks.items, tasks.count, sizeof(int32_t))


cdef int load_list(List* tasks, bytes data) except -1:
    tasks.items = <int32_t*> loaded(data)
    tasks.count = tasks.capacity = len(data) // <int64_t> sizeof(int32_t)
    return 0


cdef int ascending(const void* a, const void* b) noexcept nogil:
    cdef int32_t one = (<const int32_t*> a)[0], other = (<const int32_t*> b)[0]
    return (one > other) - (one < other)


cdef void sort(List* tasks) noexcept nogil:
    if tasks.count > 1:
        qsort(tasks.items, tasks.count, sizeof(int32_t), &ascending)


cdef turned(const int64_t[::1] before_start, const int64_t[::1] before):
    """The other way round: for each task those that wait for it, ascending."""
    cdef int64_t count = before_start.shape[0] - 1, task, i
    start, after = np.zeros(count + 2, np.int64), np.empty(before.shape[0], np.int32)
    cdef int64_t[::1] begin = start
    cdef int32_t[::1] which = after
    with nogil:
        for i in range(before.shape[0]):
            begin[before[i] + 2] += 1
        for i in range(count):
            begin[i + 2] += begin[i + 1]
        for task in range(count):
            for i in range(before_start[task], before_start[task + 1]):
                which[begin[before[i] + 1]] = <int32_t> task
                begin[before[i] + 1] += 1
    return start[:count + 1], after


def find_cycle(const int64_t[::1] before_start, const int64_t[::1] before):
    cdef int64_t count = before_start.shape[0] - 1, task, i, ended = 0, next_one = 0
    start, following = turned(before_start, before)
    cdef int64_t[::1] begin = start
    cdef int32_t[::1] after = following
    missing_of = np.diff(before_start)
    cdef int64_t[::1] missing = missing_of
    cdef int32_t[::1] free_ones = np.empty(count, np.int32)
    for task in range(count):
        if not missing[task]:
            free_ones[ended] = <int32_t> task
            ended += 1
    while next_one < ended:
        task = free_ones[next_one]
        next_one += 1
        for i in range(begin[task], begin[task + 1]):
            missing[after[i]] -= 1
            if not missing[after[i]]:
                free_ones[ended] = after[i]
                ended += 1
    if ended == count:
        return []
    task = int((missing_of > 0).argmax())
    way, place = [], {}
    while task not in place:  # back from task to task: each of these waits for one of them
        place[task] = len(way)
        way.append(task)
        for i in range(before_start[task], before_start[task + 1]):
            if missing[before[i]] > 0:
                task = before[i]
                break
    return way[place[task]:]


cdef class Tasks:
    cdef readonly object ready, start, end, cause, slot, sender, receiver
    cdef readonly int64_t left
    cdef int64_t count, resources
    cdef Npu* npus
    cdef int64_t npu_count
    cdef Heap wakes  # of NPUs; what differs from `wake` is out of date
    cdef List box, due
    cdef int32_t[::1] npu_of, missing, after, cause_of, slot_of, queue, queued, at_work, freed_by, room, roots
    cdef int32_t[::1] sent, posted, sender_of, receiver_of
    cdef int8_t[::1] way, resource
    cdef uint8_t[::1] arrived
    cdef int64_t[::1] ticks, after_start, ready_at, start_at, end_at, queue_start, root_start, slot_start

    def __init__(self, npus, npu, way, ticks, resource, room, before_start, before, channel, begin):
        cdef int64_t count = len(npu), each
        self.count, self.left, self.npu_count = count, count, npus
        self.npu_of = np.ascontiguousarray(npu, np.int32)
        self.way, self.ticks = np.ascontiguousarray(way, np.int8), np.ascontiguousarray(ticks, np.int64)
        self.resource, self.room = np.ascontiguousarray(resource, np.int8), np.array(room, np.int32)
        self.resources = len(room)
        self.missing = np.diff(before_start).astype(np.int32)
        self.after_start, self.after = turned(before_start, before)
        self.ready, self.start, self.end = (np.full(count, -1, np.int64) for _ in range(3))
        self.ready_at, self.start_at, self.end_at = self.ready, self.start, self.end
        self.cause = np.full(count, -1, np.int32)
        self.cause_of = self.cause
        self._lay_out_queues(np.asarray(self.npu_of), np.asarray(self.resource))
        self._lay_out_channels(np.array(channel, np.int32), np.asarray(self.way))
        self.npus = <Npu*> calloc(max(self.npu_count, 1), sizeof(Npu))
        if self.npus == NULL:
            raise MemoryError
        for each in range(self.npu_count):
            self._wake(<int32_t> each, begin[each])

    def __dealloc__(self):
        cdef int64_t n
        if self.npus != NULL:
            for n in range(self.npu_count):
                free(self.npus[n].timers.items)
                free(self.npus[n].ends.items)
                free(self.npus[n].starts.items)
        free(self.npus)
        free(self.wakes.items)
        free(self.box.items)
        free(self.due.items)

    def _lay_out_queues(self, npu, resource):
        """All queues in one array: what wants a resource of an NPU stands in a part of its own."""
        lines = npu.astype(np.int64) * self.resources + resource
        many = np.bincount(lines[resource >= 0], minlength=self.npu_count * self.resources)
        self.queue_start = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
        self.queue = np.zeros(int(many.sum()), np.int32)
        self.queued, self.at_work, self.freed_by = (np.zeros(len(many), np.int32) for _ in range(3))
        roots = np.flatnonzero(np.asarray(self.missing) == 0)
        roots = roots[np.argsort(npu[roots], kind="stable")]
        self.roots = roots.astype(np.int32)
        self.root_start = np.searchsorted(npu[roots], np.arange(self.npu_count + 1)).astype(np.int64)

    def _lay_out_channels(self, channel, way):
        """A slot for each message; those of a channel one behind the other."""
        sends = channel[way == SEND]
        channels = int(sends.max()) + 1 if len(sends) else 0
        self.slot_start = np.concatenate([[0], np.cumsum(np.bincount(sends, minlength=channels))]).astype(np.int64)
        self.sent, self.posted = np.zeros(channels, np.int32), np.zeros(channels, np.int32)
        self.arrived = np.zeros(len(sends), np.uint8)
        self.sender, self.receiver = np.full(len(sends), -1, np.int32), np.full(len(sends), -1, np.int32)
        self.sender_of, self.receiver_of = self.sender, self.receiver
        self.slot = channel  # the number of its channel, and its slot as soon as it starts
        self.slot_of = self.slot

    # -- what is asked from outside --

    def run(self, int64_t now, const int64_t[::1] told):
        cdef int64_t i, at
        cdef int32_t n
        with nogil:
            for i in range(told.shape[0]):
                self._tell(<int32_t> told[i])
            while self.wakes.count and self.wakes.items[0].at <= now:
                at = self.wakes.items[0].at
                n = <int32_t> pop(&self.wakes).number
                if self.npus[n].wake == at:
                    self._mark(n)
            sort(&self.due)
            for i in range(self.due.count):
                n = self.due.items[i]
                self.npus[n].due = False
                self._work(n, now)
            self.due.count = 0

    def next(self):
        while self.wakes.count and self.npus[self.wakes.items[0].number].wake != self.wakes.items[0].at:
            pop(&self.wakes)
        return self.wakes.items[0].at if self.wakes.count else -1

    def outbox(self):
        cdef int64_t i
        out = np.empty(self.box.count, np.int32)
        cdef int32_t[::1] into = out
        for i in range(self.box.count):
            into[i] = self.box.items[i]
        self.box.count = 0
        return out

    # -- one NPU --

    cdef int _wake(self, int32_t n, int64_t at) except -1 nogil:
        self.npus[n].wake = at
        return push(&self.wakes, Entry(at, n, 0, 0, 0))

    cdef int _mark(self, int32_t n) except -1 nogil:
        if not self.npus[n].due:
            self.npus[n].due = True
            push_task(&self.due, n)
        return 0

    cdef int _tell(self, int32_t task) except -1 nogil:
        """The system layer has ended a task, in this cycle."""
        cdef int32_t n = self.npu_of[task], slot
        self.npus[n].told -= 1
        push_task(&self.npus[n].ends, task)
        self._mark(n)
        if self.way[task] == SEND:
            slot = self.slot_of[task]
            self.arrived[slot] = 1
            task = self.receiver_of[slot]
            if task >= 0:
                n = self.npu_of[task]
                self.npus[n].told -= 1
                push_task(&self.npus[n].ends, task)
                self._mark(n)
        return 0

    cdef int _work(self, int32_t n, int64_t now) except -1 nogil:
        """Carry an NPU on: all rounds of this cycle, and those of later cycles up to where it communicates."""
        cdef Npu* own = &self.npus[n]
        cdef int64_t cycle = now, i
        cdef bint talks
        own.wake = -1
        if own.starts.count:
            self._begin(n, cycle)
        while True:
            while own.timers.count and own.timers.items[0].at <= cycle:
                push_task(&own.ends, <int32_t> pop(&own.timers).number)
            if own.begun and not own.ends.count:
                if own.timers.count:
                    if own.told:
                        return self._wake(n, own.timers.items[0].at)
                    cycle = own.timers.items[0].at
                    continue
                return 0
            self._round(n, cycle)
            talks = False
            for i in range(own.starts.count):
                talks = talks or self.way[own.starts.items[i]] != TIMED
            if talks and cycle > now:
                return self._wake(n, cycle)
            self._begin(n, cycle)

    cdef int _round(self, int32_t n, int64_t cycle) except -1 nogil:
        """Take in what has ended, and say what starts: those that need no resource, and the first of each queue."""
        cdef Npu* own = &self.npus[n]
        cdef int32_t task, following
        cdef int64_t i, k, line, resource
        if not own.begun:
            own.begun = True
            for i in range(self.root_start[n], self.root_start[n + 1]):
                self._ready(own, self.roots[i], -1, cycle)
        sort(&own.ends)
        for i in range(own.ends.count):
            task = own.ends.items[i]
            self.end_at[task] = cycle
            self.left -= 1
            if self.resource[task] >= 0:
                line = n * self.resources + self.resource[task]
                self.at_work[line] -= 1
                self.freed_by[line] = task
            for k in range(self.after_start[task], self.after_start[task + 1]):
                following = self.after[k]
                self.missing[following] -= 1
                if not self.missing[following]:
                    self._ready(own, following, task, cycle)
        own.ends.count = 0
        for resource in range(self.resources):
            line = n * self.resources + resource
            while self.queued[line] and self.at_work[line] < self.room[resource]:
                self.at_work[line] += 1
                task = self._first(line)
                if self.ready_at[task] < cycle:
                    self.cause_of[task] = self.freed_by[line]
                push_task(&own.starts, task)
        sort(&own.starts)
        return 0

    cdef int _ready(self, Npu* own, int32_t task, int32_t cause, int64_t cycle) except -1 nogil:
        cdef int64_t line, begin, place, above
        self.ready_at[task], self.cause_of[task] = cycle, cause
        if self.resource[task] < 0:
            return push_task(&own.starts, task)
        line = self.npu_of[task] * self.resources + self.resource[task]
        begin, place = self.queue_start[line], self.queued[line]
        self.queued[line] += 1
        while place:  # a heap: the lowest number first
            above = (place - 1) >> 1
            if self.queue[begin + above] < task:
                break
            self.queue[begin + place] = self.queue[begin + above]
            place = above
        self.queue[begin + place] = task
        return 0

    cdef int32_t _first(self, int64_t line) noexcept nogil:
        """Take the task with the lowest number out of a queue."""
        cdef int64_t begin = self.queue_start[line], place = 0, below = 1, count
        cdef int32_t first = self.queue[begin], last
        self.queued[line] -= 1
        count = self.queued[line]
        last = self.queue[begin + count]
        while below < count:
            if below + 1 < count and self.queue[begin + below + 1] < self.queue[begin + below]:
                below += 1
            if last < self.queue[begin + below]:
                break
            self.queue[begin + place] = self.queue[begin + below]
            place, below = below, 2 * below + 1
        self.queue[begin + place] = last
        return first

    cdef int _begin(self, int32_t n, int64_t cycle) except -1 nogil:
        """Begin with what starts in this cycle."""
        cdef Npu* own = &self.npus[n]
        cdef int32_t task, channel, slot
        cdef int64_t i
        for i in range(own.starts.count):
            task = own.starts.items[i]
            self.start_at[task] = cycle
            if self.way[task] == TIMED:
                if self.ticks[task]:
                    push(&own.timers, Entry(cycle + self.ticks[task], task, 0, 0, 0))
                else:
                    push_task(&own.ends, task)
                continue
            own.told += 1
            if self.way[task] == RECEIVE:
                channel = self.slot_of[task]
                slot = <int32_t> self.slot_start[channel] + self.posted[channel]
                self.posted[channel] += 1
                self.slot_of[task] = slot
                self.receiver_of[slot] = task
                if self.arrived[slot]:
                    own.told -= 1
                    push_task(&own.ends, task)
                continue
            if self.way[task] == SEND:
                channel = self.slot_of[task]
                slot = <int32_t> self.slot_start[channel] + self.sent[channel]
                self.sent[channel] += 1
                self.slot_of[task] = slot
                self.sender_of[slot] = task
            push_task(&self.box, task)
        own.starts.count = 0
        return 0

    # -- checkpoints --

    def __getstate__(self):
        cdef int64_t n
        inside = []
        for n in range(self.npu_count):
            inside.append((heap_saved(&self.npus[n].timers), list_saved(&self.npus[n].ends),
                           list_saved(&self.npus[n].starts)))
        views = arrays([
            self.npu_of, self.missing, self.after, self.queue, self.queued, self.at_work, self.freed_by, self.room,
            self.roots, self.sent, self.posted, self.way, self.resource, self.arrived, self.ticks, self.after_start,
            self.queue_start, self.root_start, self.slot_start])
        return {
            "numbers": (self.left, self.count, self.resources, self.npu_count),
            "told": (self.ready, self.start, self.end, self.cause, self.slot, self.sender, self.receiver),
            "views": views,
            "npus": saved(self.npus, self.npu_count, sizeof(Npu)),
            "inside": inside,
            "lists": (heap_saved(&self.wakes), list_saved(&self.box), list_saved(&self.due)),
        }

    def __setstate__(self, state):
        cdef int64_t n
        self.left, self.count, self.resources, self.npu_count = state["numbers"]
        self.ready, self.start, self.end, self.cause, self.slot, self.sender, self.receiver = state["told"]
        self.ready_at, self.start_at, self.end_at = self.ready, self.start, self.end
        self.cause_of, self.slot_of = self.cause, self.slot
        self.sender_of, self.receiver_of = self.sender, self.receiver
        (self.npu_of, self.missing, self.after, self.queue, self.queued, self.at_work, self.freed_by, self.room,
         self.roots, self.sent, self.posted, self.way, self.resource, self.arrived, self.ticks, self.after_start,
         self.queue_start, self.root_start, self.slot_start) = state["views"]
        self.npus = <Npu*> loaded(state["npus"])
        for n, (timers, ends, starts) in enumerate(state["inside"]):
            load_heap(&self.npus[n].timers, timers)
            load_list(&self.npus[n].ends, ends)
            load_list(&self.npus[n].starts, starts)
        wakes, box, due = state["lists"]
        load_heap(&self.wakes, wakes)
        load_list(&self.box, box)
        load_list(&self.due, due)
