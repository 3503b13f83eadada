"""What is left of flows over shared links, and how fast each of them is. See shares.pyi.

Flows over the same links have the same rate, whenever they began: they are one way, with one number for what each of
them would have moved if it had always been there. Of each flow it is kept where that number will be at its end.

Bytes are counted in whole parts of 1/2^64, and rates are rounded down to parts: that is less than a speck of all that
a flow moves, and who has less than a speck left has nothing left.
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
    int128_t share  # of each flow, if no other link held any of them back
    int128_t left, level  # while rates rise
    int64_t flows, rising
    int64_t busy
    bint full
    bint stale  # its level is no longer what it is

cdef struct Way:
    int64_t begin, end  # its links, in `over`
    int64_t flows
    int64_t place  # in `active`
    int128_t rate, passed, first
    bint rising


cdef class Shares:
    cdef Link* links
    cdef Way* ways
    cdef int32_t* over
    cdef int64_t* active  # ways that have flows
    cdef int64_t link_count, way_count, way_room, over_count, over_room, active_count, active_room
    cdef bint known  # the rates
    cdef dict numbers  # of the ways
    cdef list ends  # of each way, a heap

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
        free(self.ways)
        free(self.over)
        free(self.active)

    def begin(self, path, size, flow):
        cdef int64_t number = self._number(path)
        cdef Way* way = &self.ways[number]
        ends = self.ends[number]
        if not way.flows:
            way.passed = way.rate = 0
            self.active = <int64_t*> grown(self.active, &self.active_room, self.active_count + 1, sizeof(int64_t))
            self.active[self.active_count] = number
            way.place = self.active_count
            self.active_count += 1
        elif way.passed >> (BITS + 60):  # room for more
            passed, way.passed = whole(way.passed), 0
            ends[:] = [(end - passed, other) for end, other in ends]
        heappush(ends, (whole(way.passed) + size * ONE, flow))
        self._count(way, 1)
        way.first = parts_of(ends[0][0])

    def carry(self, int64_t cycles):
        cdef int64_t link, place = 0
        cdef int128_t speck = <int128_t> 1 << SPECK_BITS
        cdef Way* way
        through = []
        self._fill()
        for link in range(self.link_count):
            if self.links[link].flows:
                self.links[link].busy += cycles
        while place < self.active_count:
            way = &self.ways[self.active[place]]
            way.passed += way.rate * cycles
            if way.first - way.passed <= speck:
                ends = self.ends[self.active[place]]
                while way.flows and way.first - way.passed <= speck:
                    through.append(heappop(ends)[1])
                    self._count(way, -1)
                    if way.flows:
                        way.first = parts_of(ends[0][0])
                if not way.flows:
                    self._rest(way)
                    continue
            place += 1
        return through

    def next(self):
        cdef int64_t place, best = -1
        cdef int128_t speck = <int128_t> 1 << SPECK_BITS, left
        cdef Way* way
        self._fill()
        for place in range(self.active_count):
            way = &self.ways[self.active[place]]
            left = way.first - way.passed - speck
            # Dividing takes long; most need more by far.
            if best < 0 or <double> left <= 1.000001 * <double> best * <double> way.rate:
                left = (left + way.rate - 1) // way.rate
                if best < 0 or left < best:
                    best = <int64_t> left
        return best

    def busy(self):
        return [self.links[link].busy for link in range(self.link_count)]

    cdef int64_t _number(self, path) except -1:
        number = self.numbers.get(path)
        if number is not None:
            return number
        self.ways = <Way*> grown(self.ways, &self.way_room, self.way_count + 1, sizeof(Way))
        self.over = <int32_t*> grown(self.over, &self.over_room, self.over_count + len(path), sizeof(int32_t))
        cdef Way* way = &self.ways[self.way_count]
        way.begin = self.over_count
        for link in path:
            self.over[self.over_count] = link
            self.over_count += 1
        way.end = self.over_count
        way.flows = 0
        self.ends.append([])
        self.numbers[path] = self.way_count
        self.way_count += 1
        return self.way_count - 1

    cdef void _rest(self, Way* way) noexcept:
        """It has no flows any more: the last way takes its place."""
        self.active_count -= 1
        self.active[way.place] = self.active[self.active_count]
        self.ways[self.active[way.place]].place = way.place

    cdef void _count(self, Way* way, int64_t more) noexcept:
        """More flows over its links, or fewer."""
        cdef int64_t at
        cdef Link* link
        way.flows += more
        self.known = False
        for at in range(way.begin, way.end):
            link = &self.links[self.over[at]]
            link.flows += more
            if link.flows:
                link.share = link.rate // link.flows

    cdef void _fill(self) noexcept:
        """All rates rise together; those over a link that is full stop there."""
        cdef int64_t number, at, rising = self.active_count
        cdef int128_t level
        cdef Link* link
        cdef Way* way
        if self.known:
            return
        self.known = True
        for number in range(self.link_count):
            link = &self.links[number]
            link.left, link.level, link.rising, link.stale = link.rate, link.share, link.flows, False
        for number in range(self.active_count):
            self.ways[self.active[number]].rising = True
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
                way = &self.ways[self.active[number]]
                if not way.rising:
                    continue
                for at in range(way.begin, way.end):
                    if self.links[self.over[at]].full:
                        break
                else:
                    continue
                way.rising = False
                way.rate = level if level else 1
                rising -= 1
                for at in range(way.begin, way.end):
                    link = &self.links[self.over[at]]
                    link.left -= level * way.flows
                    link.rising -= way.flows
                    link.stale = True

    # -- checkpoints --

    def __getstate__(self):
        return {
            "links": saved(self.links, self.link_count, sizeof(Link)),
            "ways": saved(self.ways, self.way_count, sizeof(Way)),
            "over": saved(self.over, self.over_count, sizeof(int32_t)),
            "active": saved(self.active, self.active_count, sizeof(int64_t)),
            "known": self.known,
            "numbers": self.numbers,
            "ends": self.ends,
        }

    def __setstate__(self, state):
        self.links, self.ways = <Link*> loaded(state["links"]), <Way*> loaded(state["ways"])
        self.over, self.active = <int32_t*> loaded(state["over"]), <int64_t*> loaded(state["active"])
        self.link_count = len(state["links"]) // <int64_t> sizeof(Link)
        self.way_count = self.way_room = len(state["ways"]) // <int64_t> sizeof(Way)
        self.over_count = self.over_room = len(state["over"]) // <int64_t> sizeof(int32_t)
        self.active_count = self.active_room = len(state["active"]) // <int64_t> sizeof(int64_t)
        self.known, self.numbers, self.ends = state["known"], state["numbers"], state["ends"]
