"""The arrays of one network: made from its description, owned, and freed. network_state.pxd says what they are."""

import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc

from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.latency.latency_records cimport LaneBook, LinkBook, Owner, Rival, VcBook, VcMargin
from pyxsim.core.router.buffer cimport LAST_WORD
from pyxsim.core.fast_path.vc_masks cimport LATEST
from pyxsim.core.parallel.partition cimport MOST_PARTS
from pyxsim.core.state.network_state cimport (
    CREDIT,
    INPUT_FIRST,
    KINDS,
    LANE_CREDIT,
    NONE,
    PRIORITY_SHIFT,
    ROTATING,
    ROUTE_SHIFT,
    SELECT_EACH,
    SELECT_RANDOM,
    Bounds,
    InPort,
    Inputs,
    Link,
    Message,
    Node,
    Out,
    Packet,
    Queued,
    Range,
    Router,
    Slot,
    Vc,
    free_state,
)
from pyxsim.core.fast_path.bitmask_sa cimport MOST_OUTPUTS, MOST_WORDS, WINNERS_AHEAD

from pyxsim.core.state.large_pages import Pages
from pyxsim.core.state.record_dtypes import BOOKS, BOUNDS, IN_PORT, INPUTS, LINK, OUT, RANGE, ROUTER, VC, check_size
from pyxsim.core.state.wiring import classes_of_vcs, wire

LONGEST_DELAY = 1 << 24
LINK_ARRAYS = ("src", "dst", "vcs", "depth", "s_num", "s_den", "delay", "credit_delay", "output_queue", "group",
               "pool", "classes", "ranges")
MAX_PRIORITY = 255
MAX_SLOTS = 2**31 - 1
MAX_NUMBER = 2**15 - 1
KNOWN_ROUTES = 2**18
LARGE_BYTES = 2**20  # records of VCs that are worth large pages
NEAR_BYTES = 2**19   # records that stay in the nearest caches by themselves
MIDDLE_BYTES = 2**22   # below this the switch with all options loses more by looking ahead than it gains


SIZES = {"inputs": sizeof(Inputs), "in_port": sizeof(InPort), "bounds": sizeof(Bounds), "vc": sizeof(Vc),
         "out": sizeof(Out), "ranges": sizeof(Range), "link": sizeof(Link), "router": sizeof(Router),
         "owner": sizeof(Owner),
         "vc_book": sizeof(VcBook), "vc_margin": sizeof(VcMargin), "link_book": sizeof(LinkBook),
         "lane_book": sizeof(LaneBook)}


cdef class Machine:
    """What the cycle loop works on. The engine is its face."""

    def __init__(self, int routers, links, routes, options, *, bint trace=False, bint recycle=False, int attribution=0,
                 bint by_masks=True):
        cdef State* s = &self.s
        flags = {"trace": trace, "recycle": recycle, "attribution": attribution, "by_masks": by_masks}
        self.made_of = (routers, links, routes, options), flags
        self.arrays = {}
        self.deciding = {}
        self.records = {}
        self.memory = []
        self.pages = Pages(large=int(np.sum(links.vcs)) * sizeof(Vc) >= LARGE_BYTES)
        self.by_masks = by_masks
        s.routers = routers
        s.network_links = links.network
        s.injection_links = links.injection
        s.links = links.network + links.injection + links.ejection
        s.tracing = trace
        s.recycling = recycle
        s.attribution = attribution
        s.packet_free = s.message_free = s.next_message = NONE
        s.watch_serial = NONE
        self._take_options(options)
        self._take_links(links)
        self._take_routes(routes)
        self._wire()
        self._allocate()
        self._allocate_scratch(s)
        self._open_books()
        self._make_calendar()
    # -- construction --

    def _records(self, kind, fields, int count):
        """Records that the C code sees as an array of structs: a structured numpy array at a cache line's beginning."""
        dtype = np.dtype({"names": list(fields), "formats": list(fields.values())}, align=True)
        check_size(kind, SIZES[kind], dtype.itemsize)
        room = self.pages.room(max(count, 1) * dtype.itemsize)
        records = room[: count * dtype.itemsize].view(dtype)
        self.memory.append(room)
        self.records[kind] = records
        return records

    cdef void* _address(self, records) except NULL:
        cdef size_t address = records.ctypes.data
        return <void*> address

    cdef object _own(self, str name, values, dtype, bint deciding):
        """A flat array that lives as long as the engine. Empty ones get an entry, so that they have an address."""
        array = np.asarray(values)
        # What is as it should be may be a table of the caller, and of other engines: it is not copied.
        if array.dtype != dtype or not array.flags.c_contiguous or not array.size:
            array = self.pages.room(max(array.size, 1) * np.dtype(dtype).itemsize).view(dtype)
            array[: np.size(values)] = np.reshape(values, -1)
        array = array.reshape(-1)
        self.arrays[name] = array
        self.deciding[name] = deciding
        return array

    cdef int32_t* _ints(self, str name, values, bint deciding=True) except NULL:
        cdef int32_t[::1] view = self._own(name, values, np.int32, deciding)
        return &view[0]

    cdef int64_t* _longs(self, str name, values, bint deciding=True) except NULL:
        cdef int64_t[::1] view = self._own(name, values, np.int64, deciding)
        return &view[0]

    cdef int16_t* _shorts(self, str name, values) except NULL:
        cdef int16_t[::1] view = self._own(name, values, np.int16, False)
        return &view[0]

    cdef uint64_t* _mask(self, str name, int64_t words) except NULL:
        cdef uint64_t[::1] view = self._own(name, np.zeros(words), np.uint64, True)
        return &view[0]

    cdef uint8_t* _bytes(self, str name, int64_t count, bint deciding=True) except NULL:
        cdef uint8_t[::1] view = self._own(name, np.zeros(count), np.uint8, deciding)
        return &view[0]

    def _take_options(self, options):
        cdef State* s = &self.s
        s.rc, s.va, s.st = options.rc, options.va, options.st
        s.drained = options.drained
        s.step_arbiter = options.step_arbiter
        s.interleaved = options.interleaved
        s.ordered = options.ordered
        s.va_allocator, s.va_iterations = options.va_allocator, options.va_iterations
        s.sa_allocator, s.sa_iterations = options.sa_allocator, options.sa_iterations
        s.speculative = options.speculative
        s.flow = options.flow
        s.parts, s.ticks = options.input_speedup, options.speedup
        s.vnets, s.classes = options.vnets, len(options.class_vnet)
        s.seed = options.seed % 2**64
        priority = np.asarray(options.class_priority, dtype=np.int64)
        vnet = np.asarray(options.class_vnet, dtype=np.int32)
        if min(s.parts, s.ticks, s.vnets, s.classes, s.va_iterations, s.sa_iterations) < 1:
            raise ValueError("speed-ups, iterations, virtual networks and message classes are at least 1")
        if len(priority) != s.classes or (priority < 0).any() or (priority > MAX_PRIORITY).any():
            raise ValueError(f"each message class has a priority of 0 to {MAX_PRIORITY}")
        if (vnet < 0).any() or (vnet >= s.vnets).any():
            raise ValueError("a message class names no virtual network")
        if s.classes > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} message classes")
        if s.speculative and not s.va:
            raise ValueError("speculation needs a VA stage")
        s.priorities = len(np.unique(priority)) > 1
        s.class_vnet = self._ints("class_vnet", vnet)
        s.class_rank = self._longs("class_rank", (priority.max() - priority) << PRIORITY_SHIFT)

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
        longest = max(delay.max(initial=0), credit.max(initial=0))
        if longest > LONGEST_DELAY:
            raise ValueError(f"a delay of {longest} cycles is more than the engine's {LONGEST_DELAY}")
        depth = np.asarray(links.depth)
        if count and ((vcs < 1) | (depth < 1) | (classes < 1) | (classes > vcs)).any():
            raise ValueError("a link needs at least one VC per class, and a slot per VC")
        rows = np.asarray(links.ranges) + s.vnets * classes
        if count and (rows.max() > len(links.low) or len(links.low) != len(links.high)):
            raise ValueError("links.low and links.high end before the last range")
        if count and (depth.max() + np.asarray(links.pool).max()) * vcs.max() > MAX_SLOTS:
            raise ValueError(f"more than {MAX_SLOTS} slots behind a link")
        if count and vcs.max() > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} VCs on a link")
        queued = np.asarray(links.output_queue) != 0
        if s.ticks > 1:   # a switch that is faster than its links
            queued |= np.asarray(links.src) >= 0
        s.queues = bool(queued.any())
        s.pool = self._ints("pool", links.pool)
        s.low = self._ints("low", links.low)
        s.high = self._ints("high", links.high)
        s.range_mask = self._mask("range_mask", len(links.low))
        self.deciding["range_mask"] = False
        for i in range(len(links.low)):
            for number in range(s.low[i], min(s.high[i], 64)):
                set_bit(&s.range_mask[i], number)
        records = self._records("link", LINK, count)
        s.link = <Link*> self._address(records)
        for name, values in {
            "src": links.src, "dst": links.dst, "vcs": vcs, "depth": depth, "num": num, "den": den, "delay": delay,
            "credit_delay": credit, "queued": queued, "classes": classes, "group": links.group,
            "pool_left": links.pool, "range": links.ranges, "pick_vc": NONE, "queue_head": NONE, "queue_tail": NONE,
            "sink": np.asarray(links.dst) < 0,
        }.items():
            records[name] = values

    def _take_routes(self, routes):
        cdef State* s = &self.s
        digits = np.asarray(routes.digits, dtype=np.int32)
        if digits.ndim != 2:
            raise ValueError("routes.digits must be [nodes, dims]")
        s.nodes, s.dims = digits.shape
        own = np.asarray(routes.own, dtype=np.int32)
        if own.size % max(1, s.dims * s.routers):
            raise ValueError("routes.own must be [planes * routers, dims]")
        planes = own.size // max(1, s.dims * s.routers)
        home = np.asarray(routes.home, dtype=np.int32)
        if len(home) != s.nodes or (s.nodes and not 0 <= home.min() <= home.max() < s.routers):
            raise ValueError("routes.home names a router for each node")
        resident = np.full(s.routers, NONE, np.int32)
        resident[home[::-1]] = np.arange(s.nodes)[::-1]
        s.home = self._ints("home", home)
        s.resident = self._ints("resident", resident)
        s.digits = self._ints("digits", digits)
        s.own = self._ints("own", own)
        s.offset = self._longs("offset", routes.offset)
        s.table_link = self._ints("table_link", routes.link)
        s.table_class = self._ints("table_class", routes.vc_class)
        s.set_start = self._longs("set_start", routes.set_start)
        s.set_link = self._ints("set_link", routes.set_link)
        s.set_class = self._ints("set_class", routes.set_class)
        plain = {"plane_any": 0, "plane_select": SELECT_RANDOM, "plane_escape": NONE, "plane_sticky": 0,
                 "plane_equal": 0}
        for name, value in plain.items():
            given = getattr(routes, name)
            plain[name] = np.asarray(given if len(given) else [value] * planes, dtype=np.int32)
            if len(plain[name]) != planes:
                raise ValueError(f"routes.{name} has {len(plain[name])} entries for {planes} planes")
        s.plane_any = self._ints("plane_any", plain["plane_any"])
        s.plane_select = self._ints("plane_select", plain["plane_select"])
        s.plane_escape = self._ints("plane_escape", plain["plane_escape"])
        s.plane_sticky = self._ints("plane_sticky", plain["plane_sticky"])
        s.plane_equal = self._ints("plane_equal", plain["plane_equal"])
        s.ways, s.choose = len(routes.way_last), routes.choose
        s.way_first = self._ints("way_first", routes.way_first)
        s.way_last = self._ints("way_last", routes.way_last)
        s.way_via = self._ints("way_via", routes.way_via)
        s.way_bias = self._longs("way_bias", routes.way_bias)
        s.wrap = self._ints("wrap", routes.wrap)
        s.stride = self._longs("stride", routes.stride)
        s.keyed = bool(s.ways or len(routes.set_link) or plain["plane_any"].any())
        # What the tables say is remembered, if that does not take more room than the nearest caches.
        if planes * s.routers * s.nodes <= KNOWN_ROUTES and s.links < 1 << (31 - ROUTE_SHIFT):
            s.known = self._ints("known", np.full(planes * s.routers * s.nodes, NONE), False)
        adaptive = (plain["plane_select"] != SELECT_RANDOM) & (plain["plane_select"] != SELECT_EACH)
        s.lazy = (s.ways and s.choose) or bool(adaptive.any())
        if not s.va and (plain["plane_select"] == SELECT_EACH).any():
            raise ValueError("a plane that asks for each candidate needs a VA stage")
        sizes = np.diff(np.asarray(routes.set_start, dtype=np.int64))
        self.most_found = 2 * max(1, s.dims) * int(max(1, sizes.max(initial=1)))

    def _wire(self):
        cdef State* s = &self.s
        cdef int32_t i, row
        cdef Link* one
        link = self.records["link"]
        found = wire(s.routers, *(link[name].astype(np.int32) for name in ("src", "dst", "vcs")))
        s.in_links = self._ints("in_links", found["in_links"])
        s.out_links = self._ints("out_links", found["out_links"])
        s.out_router = self._ints("out_router", link["src"][found["out_links"]])
        for name in ("base", "port", "out_port", "vc_offset", "out_offset", "word", "words"):
            link[name] = found["link_" + name]
        self.listed = found["in_listed"]
        s.vcs = len(self.listed)
        router = self._records("router", ROUTER, s.routers)
        s.router = <Router*> self._address(router)
        s.out_ports = len(found["out_links"])
        self._choose_switch(found)
        fan_in = np.diff(found["in_start"])
        words = ((fan_in << s.shift if s.masked else found["input_vcs"]) + 63) // 64
        port_words = (np.diff(found["out_start"]) + 63) // 64
        for name, values in {
            "in_start": found["in_start"][: s.routers], "in_end": found["in_start"][1:],
            "out_start": found["out_start"][: s.routers], "out_end": found["out_start"][1:],
            "base": found["base"], "input_vcs": found["input_vcs"], "output_vcs": found["output_vcs"],
            "words": words, "word": np.cumsum(words) - words,
            "port_words": port_words, "port_word": np.cumsum(port_words) - port_words, "looked": -1,
            "filled": np.where((words > LAST_WORD) & (not s.masked), np.uint64(1) << np.uint64(LAST_WORD), 0),
        }.items():
            router[name] = values
        if s.routers and (router["in_end"] - router["in_start"]).max() > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} input ports at a router")
        self._give_places(words)
        at = found["vc_link"]
        number = np.arange(s.vcs) - link["base"][at]
        ends = link["dst"][at]
        offset = np.where(s.masked, link["port"][at] << s.shift, link["vc_offset"][at]) + number
        vc = self._records("vc", VC, s.vcs)
        s.vc = <Vc*> self._address(vc)
        for name, values in {
            "want": NONE, "hold": NONE, "head": NONE, "tail": NONE, "packet": NONE, "link": at,
            "router": ends, "spot": np.where(ends < 0, NONE, 64 * router["word"][ends] + offset),
            "port": np.where(ends < 0, NONE, router["in_start"][ends] + link["port"][at]),
            "vc_class": classes_of_vcs(
                link["base"], link["vcs"], s.vnets, link["classes"], link["range"], self.arrays["low"],
                self.arrays["high"]),
        }.items():
            vc[name] = values
        self._name_places(vc[ends >= 0], np.flatnonzero(ends >= 0))
        self._choose_stages()
        out = self._records("out", OUT, s.vcs)
        s.out = <Out*> self._address(out)
        for name, values in {
            "credit": link["depth"][at], "link": at, "src": link["src"][at], "send_packet": NONE,
            "holder": s.nobody,
        }.items():
            out[name] = values

        ranges = self._records("ranges", RANGE, s.vcs)
        s.ranges = <Range*> self._address(ranges)
        ranges["pick"] = NONE
        for name in ("word", "base", "outlet"):
            ranges[name] = link[name][at]
        for i in range(s.links):
            one = &s.link[i]
            for row in range(one.range, one.range + s.vnets * one.classes):
                s.ranges[one.base + s.low[row]].mask = s.range_mask[row]

    def _name_places(self, vc, number):
        """Which input VC has which place: one table for all routers, where that holds for all; else one for each."""
        cdef State* s = &self.s
        router = self.records["router"]
        bounds = self._records("bounds", BOUNDS, s.routers)
        s.bounds = <Bounds*> self._address(bounds)
        for name in ("base", "input_vcs", "out_start"):
            bounds[name] = router[name]
        bounds["in_ports"] = router["in_end"] - router["in_start"]
        at, there = vc["spot"] - 64 * router["word"][vc["router"]], number - router["base"][vc["router"]]
        shared = np.zeros(64 * s.most_words, np.int16)
        if s.masked:
            shared[at] = there
            s.apart = NONE if (shared[at] != there).any() else 0
        if s.apart:
            shared = np.zeros(64 * s.words, np.int16)
            shared[vc["spot"]] = there
        s.input_at = self._shorts("input_at", shared)

    def _choose_stages(self):
        """Whether the routers go through a cycle together, stage by stage (batch_path.pxd), and the lanes, too."""
        cdef State* s = &self.s
        link, words = self.records["link"], self.records["router"]["words"]
        s.plain = (
            s.masked and not s.apart and bool((words == 1).all()) and s.va and s.va_allocator == ROTATING
            and not s.lazy and not s.drained and not s.step_arbiter and not s.attribution and not s.tracing
            and not link["queued"].any() and bool((link["vcs"] <= 64).all())
            and bool((self.records["router"]["output_vcs"] <= 64).all())
            and bool((self.records["router"]["port_words"] == 1).all())
            and not (self.arrays["plane_select"] == SELECT_EACH).any()
        )
        s.plain_lanes = s.plain and s.classes == 1
        s.unit = bool((link["num"] == link["den"]).all())

    def _choose_switch(self, found):
        """SA by masks, where nothing but two round robins decides, and ports are few: bitmask_sa.pxd."""
        cdef State* s = &self.s
        link = self.records["link"]
        vcs, fan_in = int(link["vcs"].max(initial=1)), int(np.diff(found["in_start"]).max(initial=0))
        while 1 << s.shift < vcs:
            s.shift += 1
        s.masked = (
            self.by_masks and s.sa_allocator == INPUT_FIRST and s.flow == 0 and s.parts == 1 and s.ticks == 1
            and not s.priorities and not s.ordered and not s.speculative and not np.any(self.arrays["pool"])
            and s.rc + max(s.va - 1, 0) <= LATEST
            and 1 << s.shift <= 64 and (fan_in << s.shift) <= 64 * MOST_WORDS
            and int(np.diff(found["out_start"]).max(initial=0)) <= MOST_OUTPUTS
        )

    def _give_places(self, words):
        """Which bits of the masks stand for the input VCs of a router."""
        cdef State* s = &self.s
        cdef int32_t i, port, number, places
        cdef Link* one
        s.words = int(words.sum())
        s.most_words = int(words.max(initial=1)) if s.masked else 1
        link = self.records["link"]
        in_links = self.arrays["in_links"][: s.routers and int(self.records["router"]["in_end"][s.routers - 1])]
        ports = self._records("in_port", IN_PORT, len(in_links))
        ports["base"] = link["base"][in_links]
        ports["credit_delay"] = link["credit_delay"][in_links]
        ports["group"] = link["group"][in_links]
        routers = self.records["router"]
        fan_in = routers["in_end"] - routers["in_start"]
        behind = np.arange(len(in_links)) - np.repeat(routers["in_start"], fan_in) + 1
        ports["following"] = np.where(behind < np.repeat(fan_in, fan_in), behind, 0)
        link["outlet"] = link["out_port"] + np.where(link["src"] < 0, 0, routers["out_start"][link["src"]])
        ports["credit_kind"] = np.where(link["src"][in_links] == NONE, LANE_CREDIT, CREDIT)
        s.in_port = <InPort*> self._address(ports)
        s.nobody = 64 * s.words
        s.inputs = <Inputs*> self._address(self._records("inputs", INPUTS, s.words + 1 + MOST_PARTS))
        s.places = self._mask("places", s.words)
        self.deciding["places"] = False
        if not s.masked:
            return
        places = 1 << s.shift
        for port in range(0, 64, places):
            s.port_low |= <uint64_t> 1 << port
            s.port_high |= <uint64_t> 1 << (port + places - 1)
        for i in range(s.links):
            one = &s.link[i]
            if one.dst >= 0:
                for number in range(one.vcs):
                    set_bit(&s.places[s.router[one.dst].word], one.port * places + number)

    def _allocate(self):
        cdef State* s = &self.s
        link, router = self.records["link"], self.records["router"]
        cdef int64_t words = int(link["words"].sum())
        cdef int32_t i, number
        per_link = np.zeros(s.links, dtype=np.int32)
        per_input = np.zeros(len(self.arrays["in_links"]) * s.parts)
        s.in_pointer = self._ints("in_pointer", per_input)
        s.out_pointer = self._ints("out_pointer", np.zeros(s.out_ports))
        s.turn = self._mask("turn", s.words)
        if s.masked:
            self.arrays["turn"][:] = self.arrays["places"]
        s.wants = self._mask("wants", <int64_t> s.out_ports * s.most_words if s.masked else 0)
        s.out_at = self._bytes("out_at", 64 * s.words if s.masked else 0, False)
        s.busy = self._mask("busy", s.routers)
        s.blocked = self._mask("blocked", s.words if s.masked else 0)
        s.free_from = self._longs("free_from", np.zeros(s.out_ports if s.masked else 0), False)
        s.stalls = self._mask("stalls", s.out_ports)
        for name in ("wants", "busy", "blocked", "stalls"):
            self.deciding[name] = False
        s.sa_grant = self._ints("sa_grant", per_link)
        s.accept_pointer = self._ints("accept_pointer", per_input)
        # Arrays of matrix allocators and of bids stay empty without.
        matrix = np.zeros(s.vcs if s.va_allocator != ROTATING else 0, dtype=np.int32)
        bids = np.zeros(s.vcs if s.speculative else 0, dtype=np.int32)
        s.va_grant = self._ints("va_grant", matrix)
        s.va_accept = self._ints("va_accept", matrix.copy())
        s.va_wave = self._ints("va_wave", np.zeros(s.routers))
        s.sa_wave = self._ints("sa_wave", np.zeros(s.routers))
        s.open_pointer = self._ints("open_pointer", np.zeros(s.injection_links * s.vnets))
        s.class_pointer = self._ints("class_pointer", np.zeros(s.injection_links))
        s.open_count = self._ints("open_count", np.zeros(s.injection_links * s.classes))
        s.unheld = self._mask("unheld", words)
        s.opened = self._mask("opened", words)
        s.front = self._longs("front", np.zeros(0 if s.plain else s.vcs))
        s.rank = self._longs("rank", np.zeros(s.vcs if s.priorities else 0))
        s.closing = self._bytes("closing", s.vcs)
        s.bid = self._longs("bid", bids - 1)
        s.bid_link = self._ints("bid_link", bids - 1)
        s.source_head = self._ints("source_head", np.full(s.injection_links * s.classes, NONE))
        s.source_tail = self._ints("source_tail", np.full(s.injection_links * s.classes, NONE))
        s.router_words = (s.routers + 63) // 64
        s.lane_words = (s.injection_links + 63) // 64
        s.router_active = self._mask("router_active", s.router_words)
        s.lane_active = self._mask("lane_active", s.lane_words)
        s.stalled_ports = self._mask("stalled_ports", int(router["port_words"].sum()))
        self.deciding["stalled_ports"] = False
        for i in range(s.links):
            for number in range(s.link[i].vcs):
                set_bit(&s.unheld[s.link[i].word], number)

    cdef int _allocate_scratch(self, State* s) except -1:
        """Of the whole network, or of a part."""
        router = self.records["router"]
        per_link, per_vc = np.zeros(s.links, dtype=np.int32), np.zeros(s.vcs, dtype=np.int32)
        fan_in = int((router["in_end"] - router["in_start"]).max(initial=0))
        fan_out = int((router["out_end"] - router["out_start"]).max(initial=0))
        inputs = max(int(router["input_vcs"].max(initial=0)), fan_in * s.parts)
        outputs = max(int(router["output_vcs"].max(initial=0)), fan_out)
        s.oldest = self._ints("oldest", per_link - 1, False)
        s.woken = self._bytes("woken", 64 * s.router_words, False)
        s.woken_words = self._bytes("woken_words", s.router_words, False)
        s.active = self._ints("active", np.zeros(s.routers), False)
        s.far = sum(records.nbytes for records in self.records.values()) > (NEAR_BYTES if s.masked else MIDDLE_BYTES)
        # One more than can win in a cycle: there is a place to write to also where nobody won.
        ahead = 2 * WINNERS_AHEAD + 1
        s.won = self._ints("won", np.zeros(s.out_ports + len(self.records["in_port"]) + ahead), False)
        s.out_pick = self._ints("out_pick", np.full(s.out_ports, NONE), False)
        s.gone = self._ints("gone", np.zeros(s.out_ports + 1), False)
        s.fronts = self._ints("fronts", np.zeros(s.out_ports + len(self.records["in_port"]) + 1), False)
        s.touched = self._ints("touched", np.zeros(fan_out), False)
        s.able = self._ints("able", np.zeros(fan_out), False)
        s.part_pick = self._ints("part_pick", np.full(s.parts, NONE), False)
        s.part_key = self._longs("part_key", np.zeros(s.parts), False)
        s.va_key = self._longs("va_key", per_vc, False)
        s.va_touched = self._ints("va_touched", np.zeros(outputs), False)
        s.asked_link = self._ints("asked_link", np.full(s.vcs if s.va_allocator != ROTATING else 0, NONE), False)
        s.found_link = self._ints("found_link", np.zeros(self.most_found), False)
        s.found_class = self._ints("found_class", np.zeros(self.most_found), False)
        s.best_in = self._ints("best_in", np.zeros(inputs), False)
        s.best_out = self._ints("best_out", np.zeros(outputs), False)
        s.match_in = self._ints("match_in", np.zeros(inputs), False)
        s.match_out = self._ints("match_out", np.zeros(outputs), False)

    def _open_books(self):
        """Attribution (docs/attribution.md): records that stay empty without it."""
        cdef State* s = &self.s
        cdef bint kept = s.attribution > 0
        sizes = {"vc_book": s.vcs, "vc_margin": s.vcs, "owner": s.vcs, "link_book": s.links,
                 "lane_book": s.injection_links}
        for kind, (fields, plain) in BOOKS.items():
            records = self._records(kind, fields, sizes[kind] if kept else 0)
            for name, value in plain.items():
                records[name] = value
        s.books.vc = <VcBook*> self._address(self.records["vc_book"])
        s.books.margin = <VcMargin*> self._address(self.records["vc_margin"])
        s.books.link = <LinkBook*> self._address(self.records["link_book"])
        s.books.lane = <LaneBook*> self._address(self.records["lane_book"])
        s.books.owner = <Owner*> self._address(self.records["owner"])
        inputs = int(self.records["router"]["input_vcs"].max(initial=0))
        s.books.rivals = <Rival*> self._ints("rivals", np.zeros(inputs * 3), False)
        s.books.winners = <Rival*> self._ints("winners", np.zeros(len(self.arrays["touched"]) * 3), False)
        s.books.lost_to = self._ints("lost_to", np.zeros(s.vcs if kept else 0), False)
        s.books.pipeline = (s.rc + s.va + (s.st if s.ticks > 1 else 0) - s.speculative) // s.ticks
        s.books.stay_free = s.books.rider_free = NONE

    def _make_calendar(self):
        """A wheel longer than anything that is ever scheduled: arrivals, credits, link and pipeline timers."""
        cdef State* s = &self.s
        if s.links:
            link = self.records["link"]
            num, den = link["num"], link["den"]
            delays = np.maximum(link["delay"], link["credit_delay"])
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

    cdef int64_t size_in_bytes(self):
        """All arrays, the calendar and the pools, but for the books of attribution that grow."""
        cdef State* s = &self.s
        cdef int64_t place
        cdef int32_t kind
        cdef int64_t total = sum(array.nbytes for array in self.arrays.values())
        total += sum(room.nbytes for room in self.memory)
        for place in range(s.slot_mask + 1):
            total += sizeof(Slot)
            for kind in range(KINDS):
                total += s.slots[place].room[kind] * sizeof(int32_t)
        total += s.node_room * (sizeof(Node) + sizeof(int32_t) + (sizeof(Queued) if s.queues else 0))
        total += s.packet_room * sizeof(Packet) + s.message_room * sizeof(Message)
        return total

    def __dealloc__(self):
        free_state(&self.s)
