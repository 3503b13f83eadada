"""The engine: owns the arrays of one network, runs its cycles, and is all that Python sees of the core."""

import sys
from dataclasses import dataclass, field

import numpy as np

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from pyxsim.core.bits cimport lowest, set_bit
from pyxsim.core.calendar cimport next_scheduled
from pyxsim.core.inspect cimport calendar_entries, packets_of, prove_invariants, stuck_flits
from pyxsim.core.interface cimport add_pending, consume, join_sources, visit_lane
from pyxsim.core.link cimport launch_queued, take_credit
from pyxsim.core.router cimport arrive, visit_router
from pyxsim.core.state cimport (
    CREDIT,
    FLIT,
    LAUNCH,
    NONE,
    Message,
    Slot,
    State,
    grown,
)
from pyxsim.core.stats cimport settle

from pyxsim.core.wiring import wire

cdef extern from *:
    """
    #ifdef PYXSIM_DEBUG
    #define pyxsim_debug 1
    #else
    #define pyxsim_debug 0
    #endif
    """
    int DEBUG "pyxsim_debug"

build_info = {"kind": "debug" if DEBUG else "release", "python": sys.version.split()[0]}

LONGEST_DELAY = 1 << 24
LINK_ARRAYS = (
    "src", "dst", "vcs", "depth", "s_num", "s_den", "delay", "credit_delay", "output_queue", "classes", "group"
)


@dataclass
class Links:
    """Links in engine order: network links, then injection lanes, then ejection lanes. See engine.pyi."""

    network: int
    injection: int
    ejection: int
    src: object
    dst: object
    vcs: object
    depth: object
    s_num: object
    s_den: object
    delay: object
    credit_delay: object
    output_queue: object
    classes: object
    group: object


@dataclass
class Routes:
    """Digit tables. See engine.pyi."""

    digits: object
    own: object
    offset: object
    link: object
    vc_class: object


@dataclass
class RouterOptions:
    """How routers and lanes behave; docs/router.md has the words."""

    rc: int = 1
    va: int = 1
    drained: bool = False
    step_arbiter: bool = False
    interleaved: bool = False
    ordered: bool = False


@dataclass
class Stop:
    """Why `Engine.run` came back."""

    reason: str
    cycle: int
    delivered: list = field(default_factory=list)


cdef enum Reason:
    UNTIL, DELIVERED, WINDOW, NOTHING_LEFT, DEADLOCK, NO_MEMORY

REASONS = ("until", "delivered", "window", "idle", "deadlock", "memory")


# --- the cycle loop ---------------------------------------------------------------------------------------------------

cdef void arrivals(State* s) noexcept nogil:
    """Step 1 of a cycle: everything on the calendar."""
    cdef int64_t place = s.now & s.slot_mask
    cdef Slot* slot = &s.slots[place]
    cdef int32_t i, index, kind
    cdef int32_t count = slot.count
    if count == 0:
        return
    for i in range(count):
        index = slot.events[i] >> 2
        kind = slot.events[i] & 3
        if kind == FLIT:
            if s.link_dst[s.vc_link[index]] == NONE:
                consume(s, index, s.now)
            else:
                arrive(s, index, s.now)
        elif kind == CREDIT:
            take_credit(s, index)
        elif kind == LAUNCH:
            launch_queued(s, index, s.now)
        elif index < s.routers:
            set_bit(s.router_active, index)
        else:
            set_bit(s.lane_active, index - s.routers)
    slot.count = 0
    s.scheduled -= count
    s.slot_used[place >> 6] &= ~((<uint64_t> 1) << (place & 63))


cdef bint evaluate(State* s) noexcept nogil:
    """Steps 2 to 4 of a cycle. Tells whether any router or lane has to be looked at in the next one."""
    cdef int32_t word
    cdef uint64_t bits
    cdef uint64_t rest = 0
    join_sources(s)
    for word in range(s.lane_words):
        bits = s.lane_active[word]
        while bits:
            visit_lane(s, s.network_links + word * 64 + lowest(bits), s.now)
            bits &= bits - 1
        rest |= s.lane_active[word]
    for word in range(s.router_words):
        bits = s.router_active[word]
        while bits:
            visit_router(s, word * 64 + lowest(bits), s.now)
            bits &= bits - 1
        rest |= s.router_active[word]
    return rest != 0


cdef Reason run_cycles(State* s, int64_t until, int64_t slack, int64_t window) noexcept nogil:
    cdef int64_t stop = until
    cdef int64_t boundary = (s.reported // window + 1) * window if window else INT64_MAX
    cdef int64_t following
    while True:
        if not s.arrived:
            if s.now >= boundary:
                # A window in which nothing was counted is passed over without a word.
                s.reported = s.now
                if s.changed or s.in_flight:
                    s.changed = 0
                    return WINDOW
                boundary = (s.now // window + 1) * window
            arrivals(s)
            s.arrived = 1
        if s.failed:
            return NO_MEMORY
        if s.delivered_count and s.delivered_at[0] + slack < stop:
            stop = s.delivered_at[0] + slack
        if s.now >= stop:
            return DELIVERED if s.delivered_count else UNTIL
        following = s.now + 1
        if not evaluate(s):
            # Nothing to look at in the next cycle: on to the next one with an arrival, a timer or a new message.
            following = INT64_MAX
            if s.scheduled:
                following = next_scheduled(s)
            if s.pending_count and s.messages[s.pending[0]].at < following:
                following = s.messages[s.pending[0]].at
            if following == INT64_MAX:
                s.now += 1
                s.arrived = 0
                return DEADLOCK if s.in_flight else NOTHING_LEFT
            if following > stop:
                following = stop
            if following > boundary and (s.in_flight or s.changed):
                following = boundary   # everything is counted in the window in which it happens
        s.now = following
        s.arrived = 0


# --- the Python face -------------------------------------------------------------------------------------------------

cdef class Engine:
    """One network. docs/router.md is the contract, engine.pyi the description of the methods."""

    cdef State s
    cdef dict arrays      # name -> array, of all that is fixed in size
    cdef dict deciding    # name -> does it decide?

    def __init__(self, int routers, links, routes, options, *, bint trace=False):
        cdef State* s = &self.s
        self.arrays = {}
        self.deciding = {}
        s.routers = routers
        s.network_links = links.network
        s.injection_links = links.injection
        s.links = links.network + links.injection + links.ejection
        s.rc = options.rc
        s.va = options.va
        s.drained = options.drained
        s.step_arbiter = options.step_arbiter
        s.interleaved = options.interleaved
        s.ordered = options.ordered
        s.tracing = trace
        s.now = 0
        s.reported = 0
        s.changed = 0
        s.node_free = NONE
        s.packet_free = NONE
        self._take_links(links)
        self._take_routes(routes)
        self._wire()
        self._allocate()
        self._make_calendar()

    # -- construction --

    cdef object _own(self, str name, values, dtype, bint deciding):
        """A flat array that lives as long as the engine. Empty ones get an entry, so that they have an address."""
        array = np.array(values, dtype=dtype).reshape(-1)
        if array.size == 0:
            array = np.zeros(1, dtype=dtype)
        self.arrays[name] = array
        self.deciding[name] = deciding
        return array

    cdef int32_t* _ints(self, str name, values, bint deciding=True) except NULL:
        cdef int32_t[::1] view = self._own(name, values, np.int32, deciding)
        return &view[0]

    cdef int64_t* _longs(self, str name, values, bint deciding=True) except NULL:
        cdef int64_t[::1] view = self._own(name, values, np.int64, deciding)
        return &view[0]

    cdef uint64_t* _mask(self, str name, int64_t words) except NULL:
        cdef uint64_t[::1] view = self._own(name, np.zeros(words), np.uint64, True)
        return &view[0]

    cdef uint8_t* _bytes(self, str name, int64_t count, bint deciding=True) except NULL:
        cdef uint8_t[::1] view = self._own(name, np.zeros(count), np.uint8, deciding)
        return &view[0]

    def _take_links(self, links):
        cdef State* s = &self.s
        cdef int64_t count = s.links
        for name in LINK_ARRAYS:
            if len(getattr(links, name)) != count:
                raise ValueError(f"links.{name} has {len(getattr(links, name))} entries for {count} links")
        num, den = np.asarray(links.s_num, dtype=np.int64), np.asarray(links.s_den, dtype=np.int64)
        delay, credit = np.asarray(links.delay, dtype=np.int64), np.asarray(links.credit_delay, dtype=np.int64)
        vcs, classes = np.asarray(links.vcs), np.asarray(links.classes)
        if count and ((den < 1).any() or (num < den).any()):
            raise ValueError("a link carries at most one flit per cycle: s_num / s_den must be at least 1")
        if count and ((delay < 1).any() or (credit < 1).any()):
            raise ValueError("delays and credit delays are at least one cycle")
        depth = np.asarray(links.depth)
        if count and ((vcs < 1) | (depth < 1) | (classes < 1) | (classes > vcs)).any():
            raise ValueError("a link needs at least one VC per class, and a slot per VC")
        s.link_src = self._ints("link_src", links.src)
        s.link_dst = self._ints("link_dst", links.dst)
        s.link_vcs = self._ints("link_vcs", vcs)
        s.link_depth = self._ints("link_depth", links.depth)
        s.link_num = self._longs("link_num", num)
        s.link_den = self._longs("link_den", den)
        s.link_delay = self._longs("link_delay", delay)
        s.link_credit_delay = self._longs("link_credit_delay", credit)
        s.link_queued = self._ints("link_queued", links.output_queue)
        s.link_classes = self._ints("link_classes", classes)
        s.link_group = self._ints("link_group", links.group)

    def _take_routes(self, routes):
        cdef State* s = &self.s
        digits = np.asarray(routes.digits, dtype=np.int32)
        if digits.ndim != 2:
            raise ValueError("routes.digits must be [nodes, dims]")
        s.nodes, s.dims = digits.shape
        own = np.asarray(routes.own, dtype=np.int32)
        if own.size % max(1, s.dims * s.routers):
            raise ValueError("routes.own must be [planes * routers, dims]")
        s.digits = self._ints("digits", digits)
        s.own = self._ints("own", own)
        s.offset = self._longs("offset", routes.offset)
        s.table_link = self._ints("table_link", routes.link)
        s.table_class = self._ints("table_class", routes.vc_class)

    def _wire(self):
        cdef State* s = &self.s
        found = wire(s.routers, *(self.arrays[name][: s.links] for name in ("link_src", "link_dst", "link_vcs")))
        s.in_start = self._ints("in_start", found["in_start"])
        s.in_links = self._ints("in_links", found["in_links"])
        s.out_start = self._ints("out_start", found["out_start"])
        s.out_links = self._ints("out_links", found["out_links"])
        s.link_port = self._ints("link_port", found["link_port"])
        s.link_vc_offset = self._ints("link_vc_offset", found["link_vc_offset"])
        s.input_vcs = self._ints("input_vcs", found["input_vcs"])
        s.link_base = self._ints("link_base", found["link_base"])
        s.link_word = self._ints("link_word", found["link_word"])
        s.link_words = self._ints("link_words", found["link_words"])
        s.vc_link = self._ints("vc_link", found["vc_link"])
        s.vcs = len(found["vc_link"])

    def _allocate(self):
        cdef State* s = &self.s
        cdef int64_t words = int(self.arrays["link_words"].sum())
        cdef int32_t link, number
        per_link, per_vc = np.zeros(s.links, dtype=np.int32), np.zeros(s.vcs, dtype=np.int32)
        none_link, none_vc = per_link - 1, per_vc - 1
        s.link_free = self._longs("link_free", per_link)
        s.in_pointer = self._ints("in_pointer", per_link)
        s.out_pointer = self._ints("out_pointer", per_link)
        s.open_pointer = self._ints("open_pointer", per_link)
        s.launch_pointer = self._ints("launch_pointer", per_link)
        s.occupied = self._mask("occupied", words)
        s.unheld = self._mask("unheld", words)
        s.opened = self._mask("opened", words)
        s.occupancy = self._ints("occupancy", per_vc)
        depth, vcs = self.arrays["link_depth"][: s.links], self.arrays["link_vcs"][: s.links]
        s.credit = self._ints("credit", np.repeat(depth, vcs))
        s.closing = self._ints("closing", per_vc)
        s.vc_state = self._bytes("vc_state", s.vcs)
        s.left = self._ints("left", per_vc)
        s.want = self._ints("want", none_vc)
        s.range_low = self._ints("range_low", per_vc)
        s.range_high = self._ints("range_high", per_vc)
        s.hold = self._ints("hold", none_vc)
        s.ready = self._longs("ready", per_vc)
        s.front = self._longs("front", per_vc)
        s.va_next = self._ints("va_next", per_vc)
        s.va_requester = self._ints("va_requester", per_vc)
        s.fifo_head = self._ints("fifo_head", none_vc)
        s.fifo_tail = self._ints("fifo_tail", none_vc)
        s.send_packet = self._ints("send_packet", none_vc)
        s.send_left = self._ints("send_left", per_vc)
        s.queue_head = self._ints("queue_head", none_link)
        s.queue_tail = self._ints("queue_tail", none_link)
        s.source_head = self._ints("source_head", none_link)
        s.source_tail = self._ints("source_tail", none_link)
        s.waiting = self._ints("waiting", np.zeros(s.routers))
        s.router_words = (s.routers + 63) // 64
        s.lane_words = (s.injection_links + 63) // 64
        s.router_active = self._mask("router_active", s.router_words)
        s.lane_active = self._mask("lane_active", s.lane_words)
        s.flits = self._longs("flits", per_link, False)
        s.stall_vc = self._longs("stall_vc", per_link, False)
        s.stall_credit = self._longs("stall_credit", per_link, False)
        s.stall_serial = self._longs("stall_serial", per_link, False)
        s.stall_arbitration = self._longs("stall_arbitration", per_link, False)
        s.queued_since = self._longs("queued_since", per_link, False)
        s.occupancy_max = self._ints("occupancy_max", per_vc, False)
        s.stalled = self._bytes("stalled", s.links, False)
        s.router_stalled = self._bytes("router_stalled", s.routers, False)
        s.looked = self._longs("looked", np.full(s.routers, -1), False)
        s.pick_port = self._ints("pick_port", per_link, False)
        s.pick_vc = self._ints("pick_vc", none_link, False)
        s.pick_distance = self._ints("pick_distance", per_link, False)
        s.oldest = self._ints("oldest", none_link, False)
        s.eligible = self._ints("eligible", per_link, False)
        s.touched = self._ints("touched", per_link, False)
        s.va_pick = self._ints("va_pick", none_vc, False)
        s.va_distance = self._ints("va_distance", per_vc, False)
        s.va_touched = self._ints("va_touched", per_vc, False)
        for link in range(s.links):
            for number in range(s.link_vcs[link]):
                set_bit(&s.unheld[s.link_word[link]], number)

    def _make_calendar(self):
        """A wheel longer than anything that is ever scheduled: arrivals, credits, link and pipeline timers."""
        cdef State* s = &self.s
        if s.links:
            num, den = self.arrays["link_num"], self.arrays["link_den"]
            delays = np.maximum(self.arrays["link_delay"], self.arrays["link_credit_delay"])
            longest = int((-(-num // den) + delays).max())
        else:
            longest = 1
        longest += s.rc + s.va + 4
        if longest > LONGEST_DELAY:
            raise ValueError(f"a delay of {longest} cycles is more than the engine's {LONGEST_DELAY}")
        size = 64
        while size < longest:
            size *= 2
        s.slot_mask = size - 1
        s.slot_words = size // 64
        s.slots = <Slot*> calloc(size, sizeof(Slot))
        s.slot_used = <uint64_t*> calloc(s.slot_words, sizeof(uint64_t))
        if s.slots == NULL or s.slot_used == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef State* s = &self.s
        cdef int64_t place
        if s.slots != NULL:
            for place in range(s.slot_mask + 1):
                free(s.slots[place].events)
        free(s.slots)
        free(s.slot_used)
        free(s.nodes_pool)
        free(s.packets)
        free(s.messages)
        free(s.pending)
        free(s.delivered)
        free(s.delivered_at)
        free(s.log)

    # -- use --

    def send(self, int inject, int eject, int dst, int plane, int packets, int flits, int last_flits, int64_t at):
        cdef State* s = &self.s
        cdef Message* m
        cdef int32_t room
        if not (0 <= inject < s.injection_links and 0 <= eject < s.links - s.network_links - s.injection_links):
            raise IndexError(f"no lane {inject} -> {eject}")
        if not 0 <= dst < s.nodes or packets < 1 or flits < 1 or last_flits < 1:
            raise ValueError(f"no message of {packets} packets of {flits} ({last_flits}) flits to node {dst}")
        if not 0 <= (<int64_t> plane + 1) * s.routers * s.dims <= len(self.arrays["own"]):
            raise IndexError(f"no plane {plane}")
        if at < s.now:
            raise ValueError(f"cycle {at} is past: it is {s.now}")
        if s.message_count == s.message_room:
            room = s.message_room * 2 + 1024
            s.messages = <Message*> grown(s, s.messages, room, sizeof(Message))
            if s.failed:
                raise MemoryError
            s.message_room = room
        m = &s.messages[s.message_count]
        m.lane = s.network_links + inject
        m.eject = s.network_links + s.injection_links + eject
        m.dst, m.plane, m.packets, m.flits, m.last_flits = dst, plane, packets, flits, last_flits
        m.opened = m.delivered = 0
        m.next = NONE
        m.at, m.first, m.last = at, -1, -1
        s.message_count += 1
        add_pending(s, s.message_count - 1)
        if s.failed:
            raise MemoryError
        return s.message_count - 1

    def run(self, int64_t until, *, int64_t slack=0, int64_t window=0):
        cdef State* s = &self.s
        cdef Reason reason
        cdef int32_t i
        if DEBUG:   # every cycle on its own, proved
            while True:
                with nogil:
                    reason = run_cycles(s, min(until, s.now + s.arrived), INT64_MAX // 2, window)
                self.check()
                if s.delivered_count:
                    until = min(until, s.delivered_at[0] + slack)
                if reason not in (UNTIL, DELIVERED) or s.now >= until:
                    break
        else:
            with nogil:
                reason = run_cycles(s, until, slack, window)
        if reason == NO_MEMORY:
            raise MemoryError("the network's state does not fit into memory")
        delivered = sorted([(s.delivered_at[i], s.delivered[i]) for i in range(s.delivered_count)])
        s.delivered_count = 0
        return Stop(REASONS[<int> reason], s.now, [(message, cycle) for cycle, message in delivered])

    @property
    def now(self):
        return self.s.now

    @property
    def flits_in_flight(self):
        return self.s.in_flight

    @property
    def router_visits(self):
        return self.s.router_visits

    @property
    def messages_pending(self):
        return self.s.message_count - self.s.messages_delivered

    def counters(self):
        settle(&self.s)
        names = ("flits", "stall_credit", "stall_vc", "stall_arbitration", "stall_serial")
        return {name: self.arrays[name][: self.s.links].copy() for name in names}

    def buffer_max(self):
        return self.arrays["occupancy_max"][: self.s.vcs].copy()

    def totals(self):
        cdef State* s = &self.s
        return {
            "messages": s.message_count,
            "messages_delivered": s.messages_delivered,
            "packets": s.packets_delivered,
            "flits": s.flits_delivered,
            "router_visits": s.router_visits,
            "latency_sum": s.latency_sum,
            "network_latency_sum": s.network_latency_sum,
        }

    def message_times(self, int message):
        if not 0 <= message < self.s.message_count:
            raise IndexError(f"no message {message}")
        cdef Message* m = &self.s.messages[message]
        return m.at, m.first, m.last

    def trace(self):
        cdef State* s = &self.s
        cdef int64_t i
        rows = np.empty((s.log_count, 6), dtype=np.int64)
        cdef int64_t[:, ::1] view = rows
        for i in range(s.log_count):
            view[i, 0] = s.log[i].cycle
            view[i, 1] = s.log[i].link
            view[i, 2] = s.log[i].vc
            view[i, 3] = s.log[i].packet_message
            view[i, 4] = s.log[i].packet_number
            view[i, 5] = s.log[i].flit
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))]

    def state(self, deciding=None):
        cdef State* s = &self.s
        cdef int32_t i
        names = [name for name in self.arrays if deciding is None or self.deciding[name] == deciding]
        found = {name: self.arrays[name].copy() for name in names}
        if deciding is None or deciding:
            found["calendar"] = np.array(calendar_entries(s), dtype=np.int64).reshape(-1, 3)
            found["fifo"] = np.array(
                [(vc, packet) for vc in range(s.vcs) for packet in packets_of(s, vc)], dtype=np.int64).reshape(-1, 2)
            found["pending"] = np.array([s.pending[i] for i in range(s.pending_count)], dtype=np.int64)
        return found

    # -- looking inside --

    def check(self):
        prove_invariants(&self.s)

    def waiting(self):
        return stuck_flits(&self.s)
