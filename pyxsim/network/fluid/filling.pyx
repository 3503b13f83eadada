"""Progressive filling: what rates of messages that share links are fair.

A *way* is a set of links, each with the share of the bytes that goes over it: 1 for each link of a route, less where
routes part. All messages of a way get the same. The level of all rises alike until a link is full; the ways over that
link keep what they have, the others rise on (Bertsekas and Gallager, Data Networks, section 6.5.2). So nobody can have
more without somebody having less who has no more anyway: max-min fairness.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

import numpy as np

from pyxsim.raw cimport loaded, saved

cdef enum:
    NOBODY = -1

cdef double WHOLE = 1 - 2.0 ** -40  # a level of so much of the top is the top, but for rounding
MOST_STEPS = 2**26  # links of all ways together: some GB


cdef void *room_for(void *old, int64_t count, size_t size) except NULL:
    cdef void *larger = realloc(old, <size_t> (count if count > 0 else 1) * size)
    if larger == NULL:
        raise MemoryError(f"{count} records of {size} bytes")
    return larger


cdef class Filling:
    """Links of some bytes per cycle each, and ways over them."""

    def __cinit__(self):
        self.use, self.steps, self.link, self.found, self.reached = NULL, NULL, NULL, NULL, NULL

    def __init__(self, capacities):
        self.ways = self.links = self.epoch = self.way_room = self.step_room = self.link_room = self.step_count = 0
        self.add_links(capacities)

    def add_links(self, capacities):
        """More links, numbered on: their bytes per cycle."""
        cdef int64_t room = self.links + len(capacities)
        if room > self.link_room:
            room *= 2
            self.link = <Link*> room_for(self.link, room, sizeof(Link))
            self.reached = <int64_t*> room_for(self.reached, room, sizeof(int64_t))
            self.link_room = room
        for capacity in capacities:
            self.link[self.links].capacity = self.link[self.links].left = capacity
            self.link[self.links].ways, self.link[self.links].seen = NOBODY, 0
            self.links += 1

    def __dealloc__(self):
        free(self.use)
        free(self.steps)
        free(self.link)
        free(self.found)
        free(self.reached)

    def extend(self, lengths, links, shares):
        """More ways: how many links each has, the links, and the shares that go over them, one way behind the other."""
        cdef const int64_t[::1] length = np.ascontiguousarray(lengths, np.int64)
        cdef const int64_t[::1] link = np.ascontiguousarray(links, np.int64)
        cdef const double[::1] share = np.ascontiguousarray(shares, np.float64)
        cdef int64_t i, step, behind = self.step_count
        cdef double most
        cdef Use *use
        if len(length) and np.min(length) < 1:
            raise ValueError("a way without links")
        if len(link) != np.sum(lengths) or len(share) != len(link):
            raise ValueError("links or shares are missing")
        if len(link) and (not 0 <= np.min(link) <= np.max(link) < self.links or not np.min(share) > 0):
            raise ValueError("a link that is not there, or a share of nothing")
        if self.step_count + len(link) > MOST_STEPS:
            raise OverflowError(f"the ways of messages have more than {MOST_STEPS} links together")
        self._make_room(self.ways + len(length), self.step_count + len(link))
        for i in range(len(length)):
            use = &self.use[self.ways]
            use.first, use.last = behind, behind + length[i]
            most = 0
            for step in range(use.first, use.last):
                self.steps[step].link = <int32_t> link[step - self.step_count]
                self.steps[step].way = <int32_t> self.ways
                self.steps[step].share = share[step - self.step_count]
                most = max(most, self.steps[step].share / self.link[self.steps[step].link].capacity)
            use.top = 1 / most
            use.level = 0
            use.messages = use.seen = 0
            behind = use.last
            self.ways += 1
        self.step_count = behind

    cdef int _make_room(self, int64_t ways, int64_t steps) except -1:
        if ways > self.way_room:
            ways *= 2
            self.use = <Use*> room_for(self.use, ways, sizeof(Use))
            self.found = <int64_t*> room_for(self.found, ways, sizeof(int64_t))
            self.way_room = ways
        if steps > self.step_room:
            steps *= 2
            self.steps = <Step*> room_for(self.steps, steps, sizeof(Step))
            self.step_room = steps
        return 0

    cdef void join(self, int64_t number) noexcept nogil:
        """A way begins to use its links."""
        cdef int64_t i
        cdef Use *use = &self.use[number]
        cdef Link *link
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            self.steps[i].before, self.steps[i].behind = NOBODY, <int32_t> link.ways
            if link.ways != NOBODY:
                self.steps[link.ways].before = <int32_t> i
            link.ways = i

    cdef void leave(self, int64_t number) noexcept nogil:
        cdef int64_t i
        cdef Use *use = &self.use[number]
        cdef Step *step
        for i in range(use.first, use.last):
            step = &self.steps[i]
            if step.before == NOBODY:
                self.link[step.link].ways = step.behind
            else:
                self.steps[step.before].behind = step.behind
            if step.behind != NOBODY:
                self.steps[step.behind].before = step.before

    cdef void fill(self, const int64_t *touched, int64_t count) noexcept nogil:
        """The levels of all ways that are connected, over links and other ways, with some that have been touched."""
        cdef int64_t i, k
        self.epoch += 1
        self.in_found = self.in_reached = 0
        for i in range(count):
            for k in range(self.use[touched[i]].first, self.use[touched[i]].last):
                self._reach(self.steps[k].link)
        i = 0
        while i < self.in_found:
            for k in range(self.use[self.found[i]].first, self.use[self.found[i]].last):
                self._reach(self.steps[k].link)
            i += 1
        self._rise()

    cdef void _reach(self, int64_t number) noexcept nogil:
        cdef Link *link = &self.link[number]
        cdef int64_t step = link.ways, way
        if link.seen == self.epoch:
            return
        link.seen = self.epoch
        link.left, link.weight, link.rising = link.capacity, 0, 0
        if step == NOBODY:
            return
        self.reached[self.in_reached] = number
        self.in_reached += 1
        while step != NOBODY:
            way = self.steps[step].way
            link.weight += self.steps[step].share * <double> self.use[way].messages
            link.rising += 1
            if self.use[way].seen != self.epoch:
                self.use[way].seen = self.epoch
                self.use[way].fixed = False
                self.found[self.in_found] = way
                self.in_found += 1
            step = self.steps[step].behind

    cdef void _rise(self) noexcept nogil:
        """Progressive filling: the link that is full first fixes the ways over it at its level, and so on."""
        cdef int64_t i, step, rising = self.in_found
        cdef double level, water = 0
        cdef Link *link
        for i in range(self.in_reached):
            link = &self.link[self.reached[i]]
            link.level = link.left / link.weight
        for i in range(self.in_reached // 2 - 1, -1, -1):
            self._sink(i)
        while rising:
            link = &self.link[self.reached[0]]
            if not link.rising:
                self.in_reached -= 1
                self.reached[0] = self.reached[self.in_reached]
                self._sink(0)
                continue
            # The level of a link only rises as ways over it are fixed elsewhere: it is looked at when it is the lowest.
            level = max(link.left / link.weight, water)
            if level > link.level:
                link.level = level
                self._sink(0)
                continue
            water = level
            step = link.ways
            while step != NOBODY:
                if not self.use[self.steps[step].way].fixed:
                    self._fix(self.steps[step].way, level)
                    rising -= 1
                step = self.steps[step].behind

    cdef void _fix(self, int64_t number, double level) noexcept nogil:
        """A way has found its rate: what it takes of its links is not for others."""
        cdef Use *use = &self.use[number]
        cdef Link *link
        cdef int64_t i
        cdef double weight
        use.fixed = True
        use.level = use.top if level >= use.top * WHOLE else level
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            weight = self.steps[i].share * <double> use.messages
            link.left -= weight * level
            link.weight -= weight
            link.rising -= 1

    cdef void _sink(self, int64_t place) noexcept nogil:
        cdef int64_t *heap = self.reached
        cdef int64_t moved, below = 2 * place + 1
        if place >= self.in_reached:
            return
        moved = heap[place]
        while below < self.in_reached:
            if below + 1 < self.in_reached and self.link[heap[below + 1]].level < self.link[heap[below]].level:
                below += 1
            if not self.link[heap[below]].level < self.link[moved].level:
                break
            heap[place] = heap[below]
            place = below
            below = 2 * place + 1
        heap[place] = moved

    # What is found and reached, and the heap of links, is of one filling.

    def __getstate__(self):
        return {
            "numbers": (self.ways, self.links, self.epoch, self.step_count),
            "use": saved(self.use, self.ways, sizeof(Use)),
            "steps": saved(self.steps, self.step_count, sizeof(Step)),
            "link": saved(self.link, self.links, sizeof(Link)),
        }

    def __setstate__(self, state):
        self.ways, self.links, self.epoch, self.step_count = state["numbers"]
        self.way_room, self.link_room, self.step_room = self.ways, self.links, self.step_count
        self.use, self.steps = <Use*> loaded(state["use"]), <Step*> loaded(state["steps"])
        self.link = <Link*> loaded(state["link"])
        self.found = <int64_t*> room_for(NULL, self.way_room, sizeof(int64_t))
        self.reached = <int64_t*> room_for(NULL, self.link_room, sizeof(int64_t))
