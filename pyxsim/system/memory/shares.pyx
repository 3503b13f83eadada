"""Max-min fair rates of flows over shared links, and their remaining bytes. See shares.pyi.

Flows over the same links have the same rate, so they form one *link set*, with one number for the bytes that each would
have moved if it had always been there. Each flow stores the value of that number at its end.

Bytes are counted in units of 1/2^64, and rates are rounded down to such units: the error over a whole flow is below one
speck, and a flow with less than a speck left has ended.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from heapq import heappop, heappush

from pyxsim.network.delay.ticks cimport int128_t
from pyxsim.raw cimport loaded, saved
from pyxsim.heap cimport grown

cdef enum:
    BITS = 64  # of a byte's parts
    SPECK_BITS = 44

cdef object ONE = 1 << <object> BITS

MOST_BYTES = 1 << 60


cdef inline object whole(int128_t parts):
    return (<object> <int64_t> (parts >> BITS) << BITS) | <object> <uint64_t> parts


cdef inline int128_t parts_of(object number) except? -1:
    return (<int128_t> <int64_t> (number >> BITS) << BITS) + <uint64_t> (number & (ONE - 1))


cdef struct Link:
    int128_t rate
    int128_t share  # of each flow, if no other link limited any
    int128_t left, level  # while rates rise
    int64_t flows, rising
    int64_t busy
    bint full
    bint stale  # its level is out of date

cdef struct LinkSet:
    int64_t begin, end  # its links, in `over`
    int64_t flows
    int64_t place  # in `active`
    int128_t rate, passed, first
    bint rising


cdef class Shares:
    cdef Link* links
    cdef LinkSet* link_sets
    cdef int32_t* over
    cdef int64_t* active  # link sets with flows
    cdef int64_t link_count, set_count, set_capacity, over_count, over_capacity, active_count, active_capacity
    cdef bint known  # the rates
    cdef dict numbers  # index of each link set
    cdef list ends  # of each link set: a heap of flow ends

    def __init__(self, rates):
        cdef int64_t link
        self.link_count = len(rates)
        self.links = <Link*> calloc(self.link_count + 1, sizeof(Link))
        if self.links == NULL:
            raise MemoryError
        for link in range(self.link_count):
            self.links[link].rate = parts_of(min(int(rates[link] * ONE), MOST_BYTES * ONE))
        self.numbers = {}
        self.ends = []

    def __dealloc__(self):
        free(self.links)
        free(self.link_sets)
        free(self.over)
        free(self.active)

    def begin(self, path, size, flow):
        cdef int64_t number = self._number(path)
        cdef LinkSet* link_set = &self.link_sets[number]
        ends = self.ends[number]
        if not link_set.flows:
            link_set.passed = link_set.rate = 0
            self.active = <int64_t*> grown(self.active, &self.active_capacity, self.active_count + 1, sizeof(int64_t))
            self.active[self.active_count] = number
            link_set.place = self.active_count
            self.active_count += 1
        elif link_set.passed >> (BITS + 60):  # avoid overflow
            passed, link_set.passed = whole(link_set.passed), 0
            ends[:] = [(end - passed, other) for end, other in ends]
        heappush(ends, (whole(link_set.passed) + size * ONE, flow))
        self._count(link_set, 1)
        link_set.first = parts_of(ends[0][0])

    def carry(self, int64_t cycles):
        cdef int64_t link, place = 0
        cdef int128_t speck = <int128_t> 1 << SPECK_BITS
        cdef LinkSet* link_set
        through = []
        self._fill()
        for link in range(self.link_count):
            if self.links[link].flows:
                self.links[link].busy += cycles
        while place < self.active_count:
            link_set = &self.link_sets[self.active[place]]
            link_set.passed += link_set.rate * cycles
            if link_set.first - link_set.passed <= speck:
                ends = self.ends[self.active[place]]
                while link_set.flows and link_set.first - link_set.passed <= speck:
                    through.append(heappop(ends)[1])
                    self._count(link_set, -1)
                    if link_set.flows:
                        link_set.first = parts_of(ends[0][0])
                if not link_set.flows:
                    self._rest(link_set)
                    continue
            place += 1
        return through

    def next(self):
        cdef int64_t place, best = -1
        cdef int128_t speck = <int128_t> 1 << SPECK_BITS, left
        cdef LinkSet* link_set
        self._fill()
        for place in range(self.active_count):
            link_set = &self.link_sets[self.active[place]]
            left = link_set.first - link_set.passed - speck
            # Division is slow; most need far more.
            if best < 0 or <double> left <= 1.000001 * <double> best * <double> link_set.rate:
                left = (left + link_set.rate - 1) // link_set.rate
                if best < 0 or left < best:
                    best = <int64_t> left
        return best

    def busy(self):
        return [self.links[link].busy for link in range(self.link_count)]

    cdef int64_t _number(self, path) except -1:
        number = self.numbers.get(path)
        if number is not None:
            return number
        self.link_sets = <LinkSet*> grown(self.link_sets, &self.set_capacity, self.set_count + 1, sizeof(LinkSet))
        self.over = <int32_t*> grown(self.over, &self.over_capacity, self.over_count + len(path), sizeof(int32_t))
        cdef LinkSet* link_set = &self.link_sets[self.set_count]
        link_set.begin = self.over_count
        for link in path:
            self.over[self.over_count] = link
            self.over_count += 1
        link_set.end = self.over_count
        link_set.flows = 0
        self.ends.append([])
        self.numbers[path] = self.set_count
        self.set_count += 1
        return self.set_count - 1

    cdef void _rest(self, LinkSet* link_set) noexcept:
        """Remove a link set without flows from `active`; the last one takes its place."""
        self.active_count -= 1
        self.active[link_set.place] = self.active[self.active_count]
        self.link_sets[self.active[link_set.place]].place = link_set.place

    cdef void _count(self, LinkSet* link_set, int64_t more) noexcept:
        """Change the number of flows of its links."""
        cdef int64_t at
        cdef Link* link
        link_set.flows += more
        self.known = False
        for at in range(link_set.begin, link_set.end):
            link = &self.links[self.over[at]]
            link.flows += more
            if link.flows:
                link.share = link.rate // link.flows

    cdef void _fill(self) noexcept:
        """Set the rates by progressive filling: all rise together until a link is full."""
        cdef int64_t number, at, rising = self.active_count
        cdef int128_t level
        cdef Link* link
        cdef LinkSet* link_set
        if self.known:
            return
        self.known = True
        for number in range(self.link_count):
            link = &self.links[number]
            link.left, link.level, link.rising, link.stale = link.rate, link.share, link.flows, False
        for number in range(self.active_count):
            self.link_sets[self.active[number]].rising = True
        while rising:
            level = -1
            for number in range(self.link_count):
                link = &self.links[number]
                if not link.rising:
                    continue
                if link.stale:
                    link.level, link.stale = link.left // link.rising, False
                if level < 0 or link.level < level:
                    level = link.level
            for number in range(self.link_count):
                link = &self.links[number]
                link.full = link.rising and link.level == level
            for number in range(self.active_count):
                link_set = &self.link_sets[self.active[number]]
                if not link_set.rising:
                    continue
                for at in range(link_set.begin, link_set.end):
                    if self.links[self.over[at]].full:
                        break
                else:
                    continue
                link_set.rising = False
                link_set.rate = level if level else 1
                rising -= 1
                for at in range(link_set.begin, link_set.end):
                    link = &self.links[self.over[at]]
                    link.left -= level * link_set.flows
                    link.rising -= link_set.flows
                    link.stale = True

    # -- checkpoints --

    def __getstate__(self):
        return {
            "links": saved(self.links, self.link_count, sizeof(Link)),
            "link_sets": saved(self.link_sets, self.set_count, sizeof(LinkSet)),
            "over": saved(self.over, self.over_count, sizeof(int32_t)),
            "active": saved(self.active, self.active_count, sizeof(int64_t)),
            "known": self.known,
            "numbers": self.numbers,
            "ends": self.ends,
        }

    def __setstate__(self, state):
        self.links, self.link_sets = <Link*> loaded(state["links"]), <LinkSet*> loaded(state["link_sets"])
        self.over, self.active = <int32_t*> loaded(state["over"]), <int64_t*> loaded(state["active"])
        self.link_count = len(state["links"]) // <int64_t> sizeof(Link)
        self.set_count = self.set_capacity = len(state["link_sets"]) // <int64_t> sizeof(LinkSet)
        self.over_count = self.over_capacity = len(state["over"]) // <int64_t> sizeof(int32_t)
        self.active_count = self.active_capacity = len(state["active"]) // <int64_t> sizeof(int64_t)
        self.known, self.numbers, self.ends = state["known"], state["numbers"], state["ends"]
