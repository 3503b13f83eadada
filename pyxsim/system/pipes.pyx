"""Shared bandwidth of the endpoints: the memory and the offload engine of each NPU (docs/endpoint.md, pipes.pyi).

A pipe serves its flows concurrently, with max-min fair shares. All flows of a pipe have the same share at any time, so
one number, the service of each since the pipe was empty, gives the progress of all, and only the first to finish is
examined. Computations are few and each has a limit of its own: they are updated one by one.

All numbers are integers: bytes and cycles in units of 1/ONE. Shares are rounded down when something begins or ends and
hold until the next change.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from pyxsim.raw cimport loaded, saved
from pyxsim.heap cimport Entry, grown, heap_saved, load_heap, pop, push

cdef enum:
    ONE = 1 << 16


cdef inline void lower_to(int64_t* wake, int64_t cycle) noexcept:
    if wake[0] < 0 or cycle < wake[0]:
        wake[0] = cycle


cdef class Pipes:
    def __init__(self, int64_t npus, int64_t memory, int64_t communication, int64_t engine):
        cdef int64_t i
        self.npus = npus
        self.pipes = <Pipe*> calloc(max(2 * npus, 1), sizeof(Pipe))
        if self.pipes == NULL:
            raise MemoryError
        for i in range(2 * npus):
            self.pipes[i].wake = -1
            self.pipes[i].rate = memory if i < npus else engine
            self.pipes[i].limit = communication if i < npus else 0
        self.counted = np.zeros((4, npus), np.int64)
        self.moved = self.counted

    def __dealloc__(self):
        cdef int64_t i
        if self.pipes != NULL:
            for i in range(2 * self.npus):
                free(self.pipes[i].flows.items)
                free(self.pipes[i].works)
        free(self.pipes)
        free(self.wakes.items)
        free(self.dirty)
        free(self.finished)

    # -- flows and computations --

    cdef bint begin(
        self, int64_t number, int64_t size, int64_t now, int32_t then, int32_t task, int32_t place
    ) except -1:
        """Start a flow of `size` bytes. Returns whether it takes any time."""
        cdef Pipe* pipe = &self.pipes[number]
        if not pipe.rate or not size:
            return False
        self._touch(number, now)
        if not pipe.flows.count:
            pipe.served = 0
        push(&pipe.flows, Entry(pipe.served + size * ONE, self.number, task, then, place))
        self.number += 1
        self.working += 1
        return True

    def move(self, int64_t npu, int32_t key, int64_t read, int64_t written, int64_t now):
        self.moved[READ, npu] += read
        self.moved[WRITTEN, npu] += written
        return self.begin(npu, read + written, now, NOTIFY, key, -1)

    def compute(self, int64_t npu, int32_t key, int64_t ticks, int64_t size, int64_t full, int64_t now):
        cdef Pipe* pipe = &self.pipes[npu]
        cdef int64_t demand = (size * ONE + ticks - 1) // ticks if pipe.rate else 0, place
        self.moved[COMPUTED, npu] += size
        self._touch(npu, now)
        pipe.works = <Work*> grown(pipe.works, &pipe.work_capacity, pipe.work_count + 1, sizeof(Work))
        place = pipe.work_count
        pipe.work_count += 1
        while place and pipe.works[place - 1].demand > demand:
            pipe.works[place] = pipe.works[place - 1]
            place -= 1
        pipe.works[place] = Work(ticks * ONE, demand, full, 0, self.number, key)
        self.number += 1
        self.working += 1

    def slow(self, int64_t npu, int64_t full, int64_t now):
        cdef Pipe* pipe = &self.pipes[npu]
        cdef int64_t i
        self._touch(npu, now)
        for i in range(pipe.work_count):
            pipe.works[i].full = full

    # -- time --

    cdef int _touch(self, int64_t number, int64_t now) except -1:
        """Advance a pipe to now, and mark it for new shares."""
        cdef Pipe* pipe = &self.pipes[number]
        self._advance(pipe, now)
        if not pipe.changed:
            pipe.changed = True
            self.dirty = <int32_t*> grown(self.dirty, &self.dirty_capacity, self.dirty_count + 1, sizeof(int32_t))
            self.dirty[self.dirty_count] = <int32_t> number
            self.dirty_count += 1
        return 0

    cdef int _advance(self, Pipe* pipe, int64_t now) except -1:
        cdef int64_t cycles = now - pipe.now, i
        cdef bint serves = pipe.flows.count > 0
        pipe.now = now
        if not cycles:
            return 0
        pipe.served += cycles * pipe.share
        for i in range(pipe.work_count):
            pipe.works[i].left -= cycles * pipe.works[i].speed
            serves = serves or pipe.works[i].demand > 0
        if serves:
            pipe.busy += cycles
        return 0

    cdef int64_t upcoming(self) except -2:
        """Return the cycle in which something finishes next, -1 for none."""
        cdef int64_t i
        cdef Pipe* pipe
        for i in range(self.dirty_count):
            pipe = &self.pipes[self.dirty[i]]
            pipe.changed = False
            self._set_shares(pipe)
            if pipe.wake >= 0:
                push(&self.wakes, Entry(pipe.wake, self.dirty[i], 0, 0, 0))
        self.dirty_count = 0
        while self.wakes.count and self.pipes[self.wakes.items[0].number].wake != self.wakes.items[0].at:
            pop(&self.wakes)
        return self.wakes.items[0].at if self.wakes.count else -1

    cdef int _set_shares(self, Pipe* pipe) except -1:
        """Set the share of each flow and computation, and when the first of them finishes."""
        cdef int64_t left = pipe.rate, sharing = pipe.flows.count, i, granted = 0, wanted, share
        cdef int64_t most = max(pipe.limit // pipe.flows.count, 1) if pipe.limit and pipe.flows.count else 0
        cdef Work* work
        pipe.share, pipe.wake = 0, -1
        for i in range(pipe.work_count):
            sharing += pipe.works[i].demand > 0
        while True:  # max-min: the smallest demands below an even share are met first, the others share the rest
            wanted = -1
            if granted < pipe.work_count:
                work = &pipe.works[granted]
                wanted = work.demand // ONE * work.full + (work.demand % ONE * work.full + ONE - 1) // ONE
            if most and not pipe.share and (wanted < 0 or most < wanted):
                if most > left // sharing:
                    break
                pipe.share = most
                left -= most * pipe.flows.count
                sharing -= pipe.flows.count
            elif wanted < 0 or (wanted > 0 and wanted > left // sharing):
                break
            else:
                work.speed = work.full
                left -= wanted
                sharing -= work.demand > 0
                granted += 1
        share = max(left // sharing, 1) if sharing else 0
        for i in range(pipe.work_count):
            work = &pipe.works[i]
            if i >= granted:
                work.speed = max(share * ONE // work.demand, 1)
            lower_to(&pipe.wake, pipe.now + (work.left + work.speed - 1) // work.speed)
        if pipe.flows.count:
            pipe.share = pipe.share or share
            lower_to(&pipe.wake, pipe.now + (pipe.flows.items[0].at - pipe.served + pipe.share - 1) // pipe.share)
        return 0

    cdef int finish(self, int64_t now) except -1:
        """Collect what finishes in this cycle: pipe by pipe, in each in order of beginning."""
        cdef Entry wake
        cdef Pipe* pipe
        self.finished_count = 0
        while self.wakes.count and self.wakes.items[0].at <= now:
            wake = pop(&self.wakes)
            pipe = &self.pipes[wake.number]
            if pipe.wake == wake.at:
                self._touch(wake.number, now)
                pipe.wake = -1
                self._collect(pipe)
        return 0

    cdef int _collect(self, Pipe* pipe) except -1:
        cdef int64_t first = self.finished_count, kept = 0, i
        cdef Work* work
        for i in range(pipe.work_count):
            work = &pipe.works[i]
            if work.left > 0:
                pipe.works[kept] = work[0]
                kept += 1
            else:
                self._finish(Entry(0, work.number, work.key, NOTIFY, -1), first)
        pipe.work_count = kept
        while pipe.flows.count and pipe.flows.items[0].at <= pipe.served:
            self._finish(pop(&pipe.flows), first)
        self.working -= self.finished_count - first
        return 0

    cdef int _finish(self, Entry flow, int64_t first) except -1:
        """Insert a finished entry among those of the same pipe, which are stored from `first` on."""
        cdef int64_t place = self.finished_count
        self.finished = <Entry*> grown(self.finished, &self.finished_capacity, place + 1, sizeof(Entry))
        self.finished_count += 1
        while place > first and self.finished[place - 1].number > flow.number:
            self.finished[place] = self.finished[place - 1]
            place -= 1
        self.finished[place] = flow
        return 0

    # -- counters --

    def totals(self):
        busy = np.zeros(self.npus, np.int64)
        cdef int64_t[::1] cycles = busy
        cdef int64_t i
        for i in range(self.npus):
            cycles[i] = self.pipes[i].busy
        names = ("read", "written", "compute", "engine")
        return {name: row.copy() for name, row in zip(names, self.counted, strict=True)} | {"busy": busy}

    # -- checkpoints --

    def __getstate__(self):
        cdef int64_t i
        cdef Pipe* pipe
        inside = []
        for i in range(2 * self.npus):
            pipe = &self.pipes[i]
            inside.append((heap_saved(&pipe.flows), saved(pipe.works, pipe.work_count, sizeof(Work))))
        return {
            "numbers": (self.npus, self.working, self.number),
            "pipes": saved(self.pipes, 2 * self.npus, sizeof(Pipe)),
            "inside": inside,
            "wakes": heap_saved(&self.wakes),
            "dirty": saved(self.dirty, self.dirty_count, sizeof(int32_t)),
            "counted": self.counted,
        }

    def __setstate__(self, state):
        cdef int64_t i
        cdef Pipe* pipe
        self.npus, self.working, self.number = state["numbers"]
        self.pipes = <Pipe*> loaded(state["pipes"])
        for i, (flows, works) in enumerate(state["inside"]):
            pipe = &self.pipes[i]
            load_heap(&pipe.flows, flows)
            pipe.works, pipe.work_capacity = <Work*> loaded(works), pipe.work_count
        load_heap(&self.wakes, state["wakes"])
        self.dirty = <int32_t*> loaded(state["dirty"])
        self.dirty_count = self.dirty_capacity = len(state["dirty"]) // <int64_t> sizeof(int32_t)
        self.counted = self.moved = state["counted"]
