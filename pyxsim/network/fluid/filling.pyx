"""Progressive filling: max-min fair rates of messages that share links.

A *path* is a set of links, each with the share of the bytes that it carries: 1 for each link of a route, less where
routes diverge. All messages of a path have the same rate, its *level*. The levels of all paths rise together until a
link is full; the paths over that link keep their level, the others rise further (Bertsekas and Gallager, Data Networks,
section 6.5.2). The result is max-min fair: no message can get more without taking from one that has no more.

`fill` repeats this only for what differs from the last time. A link that *limits* paths (the bottleneck of these) has a
level; a change of one path can only change links with higher levels. So links that need attention are visited in the
order of their levels, from the links of the paths that have changed. Where the level of a link has changed, its paths
are *released*: they rise from their old level, until the first of their links is full again; this changes what the
other links of these paths have left, and so on. All other paths keep their level to the bit.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

import numpy as np

from pyxsim.raw cimport loaded, saved

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef enum:
    NONE = -1
    AHEAD = 8  # crossings between a prefetch of a path and its use; a link has memory for as many beyond its last one

cdef double WHOLE = 1 - 2.0 ** -40  # from this fraction of the top on, a level equals the top except for rounding
cdef double SAME = 2.0 ** -44  # levels with a smaller relative difference are equal except for rounding
cdef double CLEAR = 2.0 ** -30  # a larger relative difference is more than rounding, without a new sum
cdef double RISING = float("inf")
MOST_STEPS = 2**26  # links of all paths together: some GB


cdef void *room_for(void *old, int64_t count, size_t size) except NULL:
    cdef void *larger = realloc(old, <size_t> (count if count > 0 else 1) * size)
    if larger == NULL:
        raise MemoryError(f"{count} records of {size} bytes")
    return larger


cdef class Filling:
    """Links with capacities in bytes per cycle, and paths over them."""

    def __cinit__(self):
        self.use, self.steps, self.link, self.affected, self.heap = NULL, NULL, NULL, NULL, NULL
        self.links = 0

    def __init__(self, capacities):
        self.paths = self.links = self.epoch = self.step_count = self.heap_count = 0
        self.path_capacity = self.step_capacity = self.link_capacity = 0
        self.add_links(capacities)

    def add_links(self, capacities):
        """Add links with these capacities, in bytes per cycle."""
        cdef int64_t needed = self.links + len(capacities)
        cdef Link *link
        if needed > self.link_capacity:
            needed *= 2
            self.link = <Link*> room_for(self.link, needed, sizeof(Link))
            self.heap = <Waiting*> room_for(self.heap, needed, sizeof(Waiting))
            self.link_capacity = needed
        for capacity in capacities:
            link = &self.link[self.links]
            memset(link, 0, sizeof(Link))
            link.capacity = link.left = capacity
            link.position = NONE
            self.links += 1

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.links):
            free(self.link[i].crossings)
        free(self.use)
        free(self.steps)
        free(self.link)
        free(self.affected)
        free(self.heap)

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
            memset(use, 0, sizeof(Use))
            use.first, use.last, use.bottleneck = <int32_t> next, <int32_t> (next + length[i]), NONE
            most = 0
            for step in range(use.first, use.last):
                self.steps[step].link = <int32_t> link[step - self.step_count]
                self.steps[step].share = share[step - self.step_count]
                self.link[self.steps[step].link].crossing += 1
                most = max(most, self.steps[step].share / self.link[self.steps[step].link].capacity)
            use.top = 1 / most
            next = use.last
            self.paths += 1
        self.step_count = next
        self._enlarge_crossings()

    def _enlarge_crossings(self):
        cdef int64_t i
        cdef Link *link
        for i in range(self.links):
            link = &self.link[i]
            if link.crossing and link.crossing + AHEAD > link.room:
                link.crossings = <Crossing*> room_for(link.crossings, 2 * link.crossing + AHEAD, sizeof(Crossing))
                memset(&link.crossings[link.room], 0, (2 * link.crossing + AHEAD - link.room) * sizeof(Crossing))
                link.room = 2 * link.crossing + AHEAD

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
        cdef Crossing *crossing
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            crossing = &link.crossings[link.paths]
            crossing.share, crossing.path, crossing.step = self.steps[i].share, <int32_t> number, <int32_t> i
            self.steps[i].position = <int32_t> link.paths
            link.paths += 1

    cdef void leave(self, int64_t number) noexcept nogil:
        cdef int64_t i
        cdef Use *use = &self.use[number]
        cdef Link *link
        cdef Step *step
        for i in range(use.first, use.last):
            step = &self.steps[i]
            link = &self.link[step.link]
            link.paths -= 1
            if step.position != link.paths:
                link.crossings[step.position] = link.crossings[link.paths]
                self.steps[link.crossings[step.position].step].position = step.position

    # -- filling --

    cdef void fill(self, const int64_t *touched, int64_t count) noexcept nogil:
        """Compute the levels of the `touched` paths and of all others that change with them."""
        cdef int64_t i, k
        cdef Link *link
        self.epoch += 1
        self.affected_count = self.rising = 0
        self.water = 0
        for i in range(count):
            if self.use[touched[i]].held and not self.use[touched[i]].messages:
                self._change(touched[i])
        for i in range(count):
            if self.use[touched[i]].messages and not self._fill_alone(touched[i]):
                self._change(touched[i])
        for i in range(count):
            if self.use[touched[i]].fixed:
                continue
            for k in range(self.use[touched[i]].first, self.use[touched[i]].last):
                link = &self.link[self.steps[k].link]
                if (link.rising or link.limited) and link.position == NONE:
                    self._push(self.steps[k].link, self._lowest(link))
        while self.heap_count:
            self._attend(self._pop())
            if not self.rising:
                self._drop_slack()
        for i in range(count):
            self._sum_up(&self.use[touched[i]])

    cdef void _change(self, int64_t number) noexcept nogil:
        """Return what a path had to its links, and let it rise from 0 if it has messages."""
        cdef Use *use = &self.use[number]
        cdef Link *link
        cdef int64_t i
        cdef double held
        for i in range(use.first, use.last):
            link = self._reach(self.steps[i].link)
            held = self.steps[i].share * use.held
            link.left = link.left + held * use.water if link.paths else link.capacity
            link.changes += 1
            if use.bottleneck == self.steps[i].link:
                link.limited -= 1
                link.weight = link.weight - held if link.limited else 0
            if use.messages:
                link.rising += 1
                link.rising_weight += self.steps[i].share * <double> use.messages
            link.fresh = False
        use.held, use.bottleneck, use.water, use.level = use.messages, NONE, 0, 0
        use.seen, use.fixed = self.epoch, False
        self.rising += 1 if use.messages else 0

    cdef bint _fill_alone(self, int64_t number) noexcept nogil:
        """Set the level of a path if no other one uses its links."""
        cdef Use *use = &self.use[number]
        cdef Link *link
        cdef int64_t i
        cdef int32_t bottleneck = NONE
        cdef double level = RISING, weight
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            if link.paths > 1:
                return False
            weight = self.steps[i].share * <double> use.messages
            if link.capacity / weight < level:
                level, bottleneck = link.capacity / weight, self.steps[i].link
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            weight = self.steps[i].share * <double> use.messages
            link.left, link.level, link.changes = link.capacity - weight * level, level, 0
            link.limited, link.weight = 0, 0
        self.link[bottleneck].limited, self.link[bottleneck].weight = 1, self.link[bottleneck].capacity / level
        use.held, use.water, use.bottleneck, use.seen, use.fixed = use.messages, level, bottleneck, self.epoch, True
        use.level = use.top if level >= use.top * WHOLE else level
        self.affected[self.affected_count] = number
        self.affected_count += 1
        return True

    cdef inline Link *_reach(self, int64_t number) noexcept nogil:
        cdef Link *link = &self.link[number]
        if link.seen != self.epoch:
            link.seen = self.epoch
            link.rising, link.rising_weight, link.base = 0, 0, 0
            link.fresh = False
        return link

    cdef void _release(self, int64_t number) noexcept nogil:
        """Let the paths that a link limits rise from their level."""
        cdef Link *link = &self.link[number]
        cdef Link *other
        cdef Use *use
        cdef int64_t i, k
        cdef double held
        for i in range(link.paths):
            __builtin_prefetch(&self.use[link.crossings[i + AHEAD].path])
            use = &self.use[link.crossings[i].path]
            if use.bottleneck != number or use.seen == self.epoch:
                continue
            use.seen, use.fixed, use.bottleneck = self.epoch, False, NONE
            self.rising += 1
            for k in range(use.first, use.last):
                other = self._reach(self.steps[k].link)
                held = self.steps[k].share * use.held
                other.rising += 1
                other.rising_weight += held
                other.base += held * use.water
                if self.steps[k].link == number:
                    other.limited -= 1
                    other.weight = other.weight - held if other.limited else 0
                else:
                    other.fresh = False
                    self._push(self.steps[k].link, self._bound(other))

    cdef void _drop_slack(self) noexcept nogil:
        """Remove the links that limit no path from the heap, when no level rises."""
        cdef int64_t i, count = self.heap_count
        cdef Link *link
        cdef Waiting entry
        self.heap_count = 0
        for i in range(count):
            entry = self.heap[i]
            link = &self.link[entry.link]
            link.position = NONE
            if link.limited or link.left < -SAME * link.capacity:
                self._push(entry.link, entry.key)

    cdef inline double _bound(self, Link *link) noexcept nogil:
        """A lower bound of the level at which a link is full, except for rounding.

        `left` is negative while the paths above this level, which others limit, have not yet fallen to it.
        """
        return max(0.0, (link.left + link.base + link.weight * link.level) / (link.rising_weight + link.weight))

    cdef inline double _lowest(self, Link *link) noexcept nogil:
        """A lower bound of the levels at which paths of a link are fixed or released next."""
        return min(self._bound(link), link.level) if link.limited else self._bound(link)

    cdef void _attend(self, int64_t number) noexcept nogil:
        """See whether the level of a link has changed; when it is its turn, fix the paths that it limits."""
        cdef Link *link = &self.link[number]
        cdef double level, key = self.key
        if not link.rising and not link.limited:
            if link.left >= -SAME * link.capacity:
                return
            self._measure(number)  # paths that others limit must fall
        elif not link.fresh:
            level = self._lowest(link)
            if level > key * (1 + SAME):
                self._push(number, level)
                return
            if link.limited and self._bound(link) > link.level * (1 + CLEAR):
                self._release(number)
                self._push(number, self._bound(link))
                return
            self._measure(number)
        level = link.full
        if level == RISING:
            return
        if link.limited and -SAME * link.level <= level - link.level <= SAME * link.level:
            level = link.level
            if not link.rising:
                return
        elif link.limited and level > link.level:
            self._release(number)
        if level > key * (1 + SAME):
            self._push(number, level)
        else:
            self._fix_paths(number, level)

    cdef void _measure(self, int64_t number) noexcept nogil:
        """Sum up what a link has left, and compute the level at which it is full."""
        cdef Link *link = &self.link[number]
        cdef Use *use
        cdef int64_t i
        cdef double weight, total = 0, highest = 0, level, all, rising = 0, base = 0, limited = 0, limited_base = 0
        for i in range(link.paths):
            __builtin_prefetch(&self.use[link.crossings[i + AHEAD].path])
            use = &self.use[link.crossings[i].path]
            weight = link.crossings[i].share * use.held
            if use.seen == self.epoch and not use.fixed:
                rising += weight
                base += weight * use.water
            elif use.bottleneck == number and use.seen != self.epoch:
                limited += weight
                limited_base += weight * use.water
            else:
                total += weight * use.water
                if use.seen != self.epoch:
                    highest = max(highest, use.water)
        link.left = link.capacity - (total + base + limited_base)
        link.rising_weight, link.base, link.changes = rising, base, 0
        link.fresh, link.full = True, RISING
        level = 0
        if rising + limited > 0:
            level = (link.capacity - total) / (rising + limited)
        elif total <= link.capacity * (1 + SAME):
            return
        level = max(level, self.water)
        while highest > level * (1 + SAME):
            # The paths with a higher level, which others limit, fall to that of this link.
            total, all, highest = 0, rising + limited, 0
            for i in range(link.paths):
                use = &self.use[link.crossings[i].path]
                weight = link.crossings[i].share * use.held
                if use.seen == self.epoch:
                    if use.fixed:
                        total += weight * use.water
                elif use.bottleneck != number:
                    if use.water > level:
                        all += weight
                        highest = max(highest, use.water)
                    else:
                        total += weight * use.water
            if not link.capacity - total > level * (1 + SAME) * all:
                break
            level = (link.capacity - total) / all
        link.full = level

    cdef void _fix_paths(self, int64_t number, double level) noexcept nogil:
        """Fix the level of the paths over a link that still rise, and of those above this level."""
        cdef Link *link = &self.link[number]
        cdef Use *use
        cdef int64_t i
        cdef bint limited
        self.water = max(self.water, level)
        limited = link.limited and level == link.level
        for i in range(link.paths):
            __builtin_prefetch(&self.use[link.crossings[i + AHEAD].path])
            use = &self.use[link.crossings[i].path]
            if use.seen == self.epoch:
                if not use.fixed:
                    self._fix(link.crossings[i].path, number, level)
            elif use.water > level * (1 + SAME) or (use.bottleneck == number and not limited):
                self._fix(link.crossings[i].path, number, level)
        link.level = level

    cdef void _fix(self, int64_t path, int64_t number, double level) noexcept nogil:
        """Fix the level of a path that this link limits, and take its rate from the capacity of its links."""
        cdef Use *use = &self.use[path]
        cdef Link *link
        cdef int64_t i
        cdef double weight, before = use.water
        cdef bint rising = use.seen == self.epoch
        cdef bint same = before * (1 - SAME) <= level <= before * (1 + SAME)
        cdef int32_t bottleneck = use.bottleneck
        if not same:
            self.affected[self.affected_count] = path
            self.affected_count += 1
            use.water = level
            use.level = use.top if level >= use.top * WHOLE else level
        use.seen, use.fixed, use.bottleneck = self.epoch, True, <int32_t> number
        self.rising -= rising
        for i in range(use.first, use.last):
            link = self._reach(self.steps[i].link)
            weight = self.steps[i].share * use.held
            if rising:
                link.rising -= 1
                link.rising_weight = link.rising_weight - weight if link.rising else 0
                link.base = link.base - weight * before if link.rising else 0
            link.left -= weight * (use.water - before)
            link.changes += 1
            link.fresh = False
            if bottleneck == self.steps[i].link:
                link.limited -= 1
                link.weight = link.weight - weight if link.limited else 0
            if self.steps[i].link == number:
                link.limited += 1
                link.weight += weight
            elif link.limited and not same:
                self._push(self.steps[i].link, self.water)

    cdef void _sum_up(self, Use *use) noexcept nogil:
        """Sum up anew what the links of a path have left, now and then, so that rounding errors do not add up."""
        cdef Link *link
        cdef int64_t i, k
        cdef double held
        for i in range(use.first, use.last):
            link = &self.link[self.steps[i].link]
            if link.changes <= link.paths + 64:
                continue
            link.changes, held = 0, 0
            for k in range(link.paths):
                held += link.crossings[k].share * (self.use[link.crossings[k].path].held
                                                   * self.use[link.crossings[k].path].water)
            link.left = link.capacity - held

    # -- the heap of links --

    cdef void _push(self, int64_t number, double key) noexcept nogil:
        """Enter a link, or lower its key."""
        cdef Waiting *heap = self.heap
        cdef Link *links = self.link
        cdef int64_t position = links[number].position, above
        if position == NONE:
            position = self.heap_count
            self.heap_count += 1
        elif not key < heap[position].key:
            return
        while position:
            above = (position - 1) >> 1
            if not key < heap[above].key:
                break
            heap[position] = heap[above]
            links[heap[position].link].position = <int32_t> position
            position = above
        heap[position].key, heap[position].link = key, number
        links[number].position = <int32_t> position

    cdef int64_t _pop(self) noexcept nogil:
        """Remove the link with the lowest key, which is in `key` then."""
        cdef Waiting *heap = self.heap
        cdef Link *links = self.link
        cdef int64_t number = heap[0].link, position = 0, below = 1, count
        cdef Waiting moved
        self.key = heap[0].key
        links[number].position = NONE
        self.heap_count -= 1
        count = self.heap_count
        if not count:
            return number
        moved = heap[count]
        while below < count:
            if below + 1 < count and heap[below + 1].key < heap[below].key:
                below += 1
            if not heap[below].key < moved.key:
                break
            heap[position] = heap[below]
            links[heap[position].link].position = <int32_t> position
            position = below
            below = 2 * position + 1
        heap[position] = moved
        links[moved.link].position = <int32_t> position
        return number

    # -- checkpoints: `affected` and the heap hold no state between fillings --

    def __getstate__(self):
        return {
            "numbers": (self.paths, self.links, self.epoch, self.step_count),
            "use": saved(self.use, self.paths, sizeof(Use)),
            "steps": saved(self.steps, self.step_count, sizeof(Step)),
            "link": saved(self.link, self.links, sizeof(Link)),
        }

    def __setstate__(self, state):
        cdef int64_t i, k
        cdef Crossing *crossing
        self.paths, links, self.epoch, self.step_count = state["numbers"]
        self.path_capacity, self.link_capacity, self.step_capacity = self.paths, links, self.step_count
        self.use, self.steps = <Use*> loaded(state["use"]), <Step*> loaded(state["steps"])
        self.link = <Link*> loaded(state["link"])
        for i in range(links):
            self.link[i].crossings, self.link[i].room = NULL, 0
        self.links = links
        self._enlarge_crossings()
        for i in range(self.paths):
            if self.use[i].messages:
                for k in range(self.use[i].first, self.use[i].last):
                    crossing = &self.link[self.steps[k].link].crossings[self.steps[k].position]
                    crossing.share, crossing.path, crossing.step = self.steps[k].share, <int32_t> i, <int32_t> k
        self.affected = <int64_t*> room_for(NULL, self.path_capacity, sizeof(int64_t))
        self.heap = <Waiting*> room_for(NULL, self.link_capacity, sizeof(Waiting))
