"""Progressive filling: max-min fair rates of messages that share links.

A *path* is a set of links, each with the share of the bytes that it carries: 1 for each link of a route, less where
routes diverge. All messages of a path have the same rate, its *level*. The levels of all paths rise together until a
link is full; the paths over that link keep their level, the others rise further (Bertsekas and Gallager, Data Networks,
section 6.5.2). The result is max-min fair: no message can get more without taking from one that has no more.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

import numpy as np

from pyxsim.raw cimport loaded, saved

cdef enum:
    NONE = -1

cdef double WHOLE = 1 - 2.0 ** -40  # from this fraction of the top on, a level equals the top except for rounding
MOST_STEPS = 2**26  # links of all paths together: some GB


cdef void *room_for(void *old, int64_t count, size_t size) except NULL:
    cdef void *larger = realloc(old, <size_t> (count if count > 0 else 1) * size)
    if larger == NULL:
        raise MemoryError(f"{count} records of {size} bytes")
    return larger


cdef class Filling:
    """Links with capacities in bytes per cycle, and paths over them."""

    def __cinit__(self):
        self.use, self.steps, self.link, self.affected, self.reached = NULL, NULL, NULL, NULL, NULL

    def __init__(self, capacities):
        self.paths = self.links = self.epoch = self.step_count = 0
        self.path_capacity = self.step_capacity = self.link_capacity = 0
        self.add_links(capacities)

    def add_links(self, capacities):
        """Add links with these capacities, in bytes per cycle."""
        cdef int64_t needed = self.links + len(capacities)
        if needed > self.link_capacity:
            needed *= 2
            self.link = <Link*> room_for(self.link, needed, sizeof(Link))
            self.reached = <int64_t*> room_for(self.reached, needed, sizeof(int64_t))
            self.link_capacity = needed
        for capacity in capacities:
            self.link[self.links].capacity = self.link[self.links].left = capacity
            self.link[self.links].first_step, self.link[self.links].seen = NONE, 0
            self.links += 1

    def __dealloc__(self):
        free(self.use)
        free(self.steps)
        free(self.link)
        free(self.affected)
        free(self.reached)

    def extend(self, lengths, links, shares):
        """Add paths: `lengths` is the number of links of each; `links` and `shares` are those of all paths in order."""
        cdef const int64_t[::1] length = np.ascontiguousarray(lengths, np.int64)
        cdef const int64_t[::1] link = np.ascontiguousarray(links, np.int64)
        cdef const double[::1] share = np.ascontiguousarray(shares, np.float64)
        cdef int64_t i, step, next = self.step_count
        cdef double most
        cdef Use *use
        if len(length) and np.min(length) < 1:
            raise ValueError("a path without links")
        if len(link) != np.sum(lengths) or len(share) != len(link):
            raise ValueError("links or shares are missing")
        if len(link) and (not 0 <= np.min(link) <= np.max(link) < self.links or not np.min(share) > 0):
            raise ValueError("an unknown link, or a share that is not positive")
        if self.step_count + len(link) > MOST_STEPS:
            raise OverflowError(f"the paths of messages have more than {MOST_STEPS} links together")
        self._reserve(self.paths + len(length), self.step_count + len(link))
        for i in range(len(length)):
            use = &self.use[self.paths]
            use.first, use.last = next, next + length[i]
            most = 0
            for step in range(use.first, use.last):
                self.steps[step].link = <int32_t> link[step - self.step_count]
                self.steps[step].path = <int32_t> self.paths
                self.steps[step].share = share[step - self.step_count]
                most = max(most, self.steps[step].share / self.link[self.steps[step].link].capacity)
            use.top = 1 / most
            use.level = 0
            use.messages = use.seen = 0
            next = use.last
            self.paths += 1
        self.step_count = next

    cdef int _reserve(self, int64_t paths, int64_t steps) except -1:
        if paths > self.path_capacity:
            paths *= 2
            self.use = <Use*> room_for(self.use, paths, sizeof(Use))
            self.affected = <int64_t*> room_for(self.affected, paths, sizeof(int64_t))
            self.path_capacity = paths
        if steps > self.step_capacity:
            steps *= 2
            self.steps = <Step*> room_for(self.steps, steps, sizeof(Step))
            self.step_capacity = steps
        return 0

    cdef void join(self, int64_t number) noexcept nogil:
        """Enter a path into the lists of its links."""
        cdef int64_t i
        cdef Use *use = &self.use[number]
        cdef Link *link
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            self.steps[i].previous, self.steps[i].next = NONE, <int32_t> link.first_step
            if link.first_step != NONE:
                self.steps[link.first_step].previous = <int32_t> i
            link.first_step = i

    cdef void leave(self, int64_t number) noexcept nogil:
        cdef int64_t i
        cdef Use *use = &self.use[number]
        cdef Step *step
        for i in range(use.first, use.last):
            step = &self.steps[i]
            if step.previous == NONE:
                self.link[step.link].first_step = step.next
            else:
                self.steps[step.previous].next = step.next
            if step.next != NONE:
                self.steps[step.next].previous = step.previous

    cdef void fill(self, const int64_t *touched, int64_t count) noexcept nogil:
        """Compute the levels of all paths that are connected, over shared links, with the `touched` ones."""
        cdef int64_t i, k
        self.epoch += 1
        self.affected_count = self.reached_count = 0
        for i in range(count):
            for k in range(self.use[touched[i]].first, self.use[touched[i]].last):
                self._reach(self.steps[k].link)
        i = 0
        while i < self.affected_count:
            for k in range(self.use[self.affected[i]].first, self.use[self.affected[i]].last):
                self._reach(self.steps[k].link)
            i += 1
        self._rise()

    cdef void _reach(self, int64_t number) noexcept nogil:
        cdef Link *link = &self.link[number]
        cdef int64_t step = link.first_step, path
        if link.seen == self.epoch:
            return
        link.seen = self.epoch
        link.left, link.weight, link.rising = link.capacity, 0, 0
        if step == NONE:
            return
        self.reached[self.reached_count] = number
        self.reached_count += 1
        while step != NONE:
            path = self.steps[step].path
            link.weight += self.steps[step].share * <double> self.use[path].messages
            link.rising += 1
            if self.use[path].seen != self.epoch:
                self.use[path].seen = self.epoch
                self.use[path].fixed = False
                self.affected[self.affected_count] = path
                self.affected_count += 1
            step = self.steps[step].next

    cdef void _rise(self) noexcept nogil:
        """Fix the level of the paths over the link that is full first, then over the next one, and so on."""
        cdef int64_t i, step, rising = self.affected_count
        cdef double level, water = 0
        cdef Link *link
        for i in range(self.reached_count):
            link = &self.link[self.reached[i]]
            link.level = link.left / link.weight
        for i in range(self.reached_count // 2 - 1, -1, -1):
            self._sink(i)
        while rising:
            link = &self.link[self.reached[0]]
            if not link.rising:
                self.reached_count -= 1
                self.reached[0] = self.reached[self.reached_count]
                self._sink(0)
                continue
            # The level of a link only rises as paths over it are fixed elsewhere, so it is updated when it is lowest.
            level = max(link.left / link.weight, water)
            if level > link.level:
                link.level = level
                self._sink(0)
                continue
            water = level
            step = link.first_step
            while step != NONE:
                if not self.use[self.steps[step].path].fixed:
                    self._fix(self.steps[step].path, level)
                    rising -= 1
                step = self.steps[step].next

    cdef void _fix(self, int64_t number, double level) noexcept nogil:
        """Fix the level of a path, and take its rate from the capacity of its links."""
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

    cdef void _sink(self, int64_t position) noexcept nogil:
        cdef int64_t *heap = self.reached
        cdef int64_t moved, below = 2 * position + 1
        if position >= self.reached_count:
            return
        moved = heap[position]
        while below < self.reached_count:
            if below + 1 < self.reached_count and self.link[heap[below + 1]].level < self.link[heap[below]].level:
                below += 1
            if not self.link[heap[below]].level < self.link[moved].level:
                break
            heap[position] = heap[below]
            position = below
            below = 2 * position + 1
        heap[position] = moved

    # `affected`, `reached` and the heap of links hold no state between fillings.

    def __getstate__(self):
        return {
            "numbers": (self.paths, self.links, self.epoch, self.step_count),
            "use": saved(self.use, self.paths, sizeof(Use)),
            "steps": saved(self.steps, self.step_count, sizeof(Step)),
            "link": saved(self.link, self.links, sizeof(Link)),
        }

    def __setstate__(self, state):
        self.paths, self.links, self.epoch, self.step_count = state["numbers"]
        self.path_capacity, self.link_capacity, self.step_capacity = self.paths, self.links, self.step_count
        self.use, self.steps = <Use*> loaded(state["use"]), <Step*> loaded(state["steps"])
        self.link = <Link*> loaded(state["link"])
        self.affected = <int64_t*> room_for(NULL, self.path_capacity, sizeof(int64_t))
        self.reached = <int64_t*> room_for(NULL, self.link_capacity, sizeof(int64_t))
