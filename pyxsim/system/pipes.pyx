"""The pipes of an endpoint: the memory of each NPU, and its offload engine. See docs/endpoint.md and pipes.pyi.

A pipe serves what is in it side by side, in fair shares. All flows of a pipe have the same share, whenever they began;
so one number, what has been served to each, says how far all of them are, and only the first to be through is looked
at. Computations are few and each has a limit of its own: they are gone through one by one.

Numbers are whole: bytes and cycles in parts of 1/ONE. Shares are cut to whole parts when something begins or ends, and
hold until the next time.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from pyxsim.raw cimport loaded, saved
from pyxsim.heap cimport Entry, grown, heap_saved, load_heap, pop, push

cdef enum:
    ONE = 1 << 16


cdef inline void sooner_of(int64_t* wake, int64_t cycle) noexcept:
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
        free(self.through)

    # -- what goes in --

    cdef bint begin(self, int64_t pipe, int64_t size, int64_t now, int32_t then, int32_t task, int32_t place) except -1:
        """So many bytes begin to go through a pipe; whether that takes any time."""
        cdef Pipe* own = &self.pipes[pipe]
        if not own.rate or not size:
            return False
        self._touch(pipe, now)
        if not own.flows.count:
            own.served = 0
        push(&own.flows, Entry(own.served + size * ONE, self.number, task, then, place))
        self.number += 1
        self.working += 1
        return True

    def move(self, int64_t npu, int32_t key, int64_t read, int64_t written, int64_t now):
        self.moved[READ, npu] += read
        self.moved[WRITTEN, npu] += written
        return self.begin(npu, read + written, now, TOLD, key, -1)

    def compute(self, int64_t npu, int32_t key, int64_t ticks, int64_t size, int64_t full, int64_t now):
        cdef Pipe* own = &self.pipes[npu]
        cdef int64_t demand = (size * ONE + ticks - 1) // ticks if own.rate else 0, place
        self.moved[COMPUTED, npu] += size
        self._touch(npu, now)
        own.works = <Work*> grown(own.works, &own.work_room, own.work_count + 1, sizeof(Work))
        place = own.work_count
        own.work_count += 1
        while place and own.works[place - 1].demand > demand:
            own.works[place] = own.works[place - 1]
            place -= 1
        own.works[place] = Work(ticks * ONE, demand, full, 0, self.number, key)
        self.number += 1
        self.working += 1

    def slow(self, int64_t npu, int64_t full, int64_t now):
        cdef Pipe* own = &self.pipes[npu]
        cdef int64_t i
        self._touch(npu, now)
        for i in range(own.work_count):
            own.works[i].full = full

    # -- time --

    cdef int _touch(self, int64_t number, int64_t now) except -1:
        """Count a pipe up to now; its shares are looked at anew before time goes on."""
        cdef Pipe* pipe = &self.pipes[number]
        self._advance(pipe, now)
        if not pipe.changed:
            pipe.changed = True
            self.dirty = <int32_t*> grown(self.dirty, &self.dirty_room, self.dirty_count + 1, sizeof(int32_t))
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
        """The cycle in which something is through next; -1: none."""
        cdef int64_t i
        cdef Pipe* pipe
        for i in range(self.dirty_count):
            pipe = &self.pipes[self.dirty[i]]
            pipe.changed = False
            self._share_out(pipe)
            if pipe.wake >= 0:
                push(&self.wakes, Entry(pipe.wake, self.dirty[i], 0, 0, 0))
        self.dirty_count = 0
        while self.wakes.count and self.pipes[self.wakes.items[0].number].wake != self.wakes.items[0].at:
            pop(&self.wakes)
        return self.wakes.items[0].at if self.wakes.count else -1

    cdef int _share_out(self, Pipe* pipe) except -1:
        """What each gets from now on, and when the first of them is through."""
        cdef int64_t left = pipe.rate, sharing = pipe.flows.count, i, granted = 0, wanted, share
        cdef int64_t most = max(pipe.limit // pipe.flows.count, 1) if pipe.limit and pipe.flows.count else 0
        cdef Work* work
        pipe.share, pipe.wake = 0, -1
        for i in range(pipe.work_count):
            sharing += pipe.works[i].demand > 0
        while True:  # who wants less than an even share gets it, the most modest first: the others share the rest
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
            sooner_of(&pipe.wake, pipe.now + (work.left + work.speed - 1) // work.speed)
        if pipe.flows.count:
            pipe.share = pipe.share or share
            sooner_of(&pipe.wake, pipe.now + (pipe.flows.items[0].at - pipe.served + pipe.share - 1) // pipe.share)
        return 0

    cdef int finish(self, int64_t now) except -1:
        """Collect what is through in this cycle: pipe by pipe, in each in order of beginning."""
        cdef Entry wake
        cdef Pipe* pipe
        self.through_count = 0
        while self.wakes.count and self.wakes.items[0].at <= now:
            wake = pop(&self.wakes)
            pipe = &self.pipes[wake.number]
            if pipe.wake == wake.at:
                self._touch(wake.number, now)
                pipe.wake = -1
                self._collect(pipe)
        return 0

    cdef int _collect(self, Pipe* pipe) except -1:
        cdef int64_t first = self.through_count, kept = 0, i
        cdef Work* work
        for i in range(pipe.work_count):
            work = &pipe.works[i]
            if work.left > 0:
                pipe.works[kept] = work[0]
                kept += 1
            else:
                self._let_out(Entry(0, work.number, work.key, TOLD, -1), first)
        pipe.work_count = kept
        while pipe.flows.count and pipe.flows.items[0].at <= pipe.served:
            self._let_out(pop(&pipe.flows), first)
        self.working -= self.through_count - first
        return 0

    cdef int _let_out(self, Entry flow, int64_t first) except -1:
        """Something is through: it has its place among what began in the same pipe, which stands from `first` on."""
        cdef int64_t place = self.through_count
        self.through = <Entry*> grown(self.through, &self.through_room, place + 1, sizeof(Entry))
        self.through_count += 1
        while place > first and self.through[place - 1].number > flow.number:
            self.through[place] = self.through[place - 1]
            place -= 1
        self.through[place] = flow
        return 0

    # -- what there is to see --

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
            pipe.works, pipe.work_room = <Work*> loaded(works), pipe.work_count
        load_heap(&self.wakes, state["wakes"])
        self.dirty = <int32_t*> loaded(state["dirty"])
        self.dirty_count = self.dirty_room = len(state["dirty"]) // <int64_t> sizeof(int32_t)
        self.counted = self.moved = state["counted"]
