"""The engine: owns the arrays of one network, and is all that Python sees of the core."""

import sys

import numpy as np

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc

from pyxsim.core.bits cimport set_bit
from pyxsim.core.cycle cimport DELIVERED, NO_MEMORY, UNTIL, Reason, run_cycles
from pyxsim.core.books cimport MOST_TAGS, LaneBook, LinkBook, Owner, Rival, VcBook, VcMargin
from pyxsim.core.inspect cimport calendar_entries, packets_of, prove_invariants, stuck_flits
from pyxsim.core.interface cimport add_pending
from pyxsim.core.skip cimport look_for_periods, periods_of, sampled, skip_periods, skipped_cycles
from pyxsim.core.state cimport (
    NONE,
    PRIORITY_SHIFT,
    SELECT_EACH,
    SELECT_RANDOM,
    Link,
    Message,
    Out,
    Router,
    Slot,
    State,
    Vc,
    free_state,
    new_message,
)
from pyxsim.core.stats cimport settle
from pyxsim.core.tables cimport arrivals, launches, notes, splits, stays, take_delivered, waits

from pyxsim.core.options import Links, RouterOptions, Routes, Stop
from pyxsim.core.records import BOOKS, COUNTERS, COUNTING, LINK, OUT, ROUTER, VC, check_size
from pyxsim.core.wiring import classes_of_vcs, wire

__all__ = ["Engine", "Links", "RouterOptions", "Routes", "Stop", "build_info", "LONGEST_DELAY"]

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
LINK_ARRAYS = ("src", "dst", "vcs", "depth", "s_num", "s_den", "delay", "credit_delay", "output_queue", "group",
               "pool", "classes", "ranges")
REASONS = ("until", "delivered", "window", "idle", "deadlock", "memory", "repeats")
MAX_PRIORITY = 255
MAX_SLOTS = 2**31 - 1
MAX_NUMBER = 2**15 - 1
CACHE_LINE = 64
NEAR_BYTES = 2**19   # records that stay in the nearest caches by themselves


SIZES = {"vc": sizeof(Vc), "out": sizeof(Out), "link": sizeof(Link), "router": sizeof(Router), "owner": sizeof(Owner),
         "vc_book": sizeof(VcBook), "vc_margin": sizeof(VcMargin), "link_book": sizeof(LinkBook),
         "lane_book": sizeof(LaneBook)}


cdef class Engine:
    """One network. docs/router.md is the contract, engine.pyi the description of the methods."""

    cdef State s
    cdef dict arrays      # name -> array, of all that is fixed in size
    cdef dict deciding    # name -> does it decide?
    cdef dict records     # kind -> structured array
    cdef list memory      # what the records stand in
    cdef object listed    # VCs by link and number
    cdef int64_t most_found

    def __init__(self, int routers, links, routes, options, *, bint trace=False, bint recycle=False, int attribution=0):
        cdef State* s = &self.s
        self.arrays = {}
        self.deciding = {}
        self.records = {}
        self.memory = []
        s.routers = routers
        s.network_links = links.network
        s.injection_links = links.injection
        s.links = links.network + links.injection + links.ejection
        s.tracing = trace
        s.recycling = recycle
        s.attribution = attribution
        s.node_free = s.packet_free = s.message_free = NONE
        s.watch_serial = NONE
        self._take_options(options)
        self._take_links(links)
        self._take_routes(routes)
        self._wire()
        self._allocate()
        self._allocate_scratch()
        self._open_books()
        self._make_calendar()

    # -- construction --

    def _records(self, kind, fields, int count):
        """Records that the C code sees as an array of structs: a structured numpy array at a cache line's beginning."""
        dtype = np.dtype({"names": list(fields), "formats": list(fields.values())}, align=True)
        check_size(kind, SIZES[kind], dtype.itemsize)
        room = np.zeros(max(count, 1) * dtype.itemsize + CACHE_LINE, np.uint8)
        begin = -room.ctypes.data % CACHE_LINE
        records = room[begin : begin + count * dtype.itemsize].view(dtype)
        self.memory.append(room)
        self.records[kind] = records
        return records

    cdef void* _address(self, records) except NULL:
        cdef size_t address = records.ctypes.data
        return <void*> address

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
        s.pool = self._ints("pool", links.pool)
        s.low = self._ints("low", links.low)
        s.high = self._ints("high", links.high)
        records = self._records("link", LINK, count)
        s.link = <Link*> self._address(records)
        for name, values in {
            "src": links.src, "dst": links.dst, "vcs": vcs, "depth": depth, "num": num, "den": den, "delay": delay,
            "credit_delay": credit, "queued": queued, "classes": classes, "group": links.group,
            "pool_left": links.pool, "range": links.ranges, "pick_vc": NONE, "queue_head": NONE, "queue_tail": NONE,
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
        adaptive = (plain["plane_select"] != SELECT_RANDOM) & (plain["plane_select"] != SELECT_EACH)
        s.lazy = (s.ways and s.choose) or bool(adaptive.any())
        if not s.va and (plain["plane_select"] == SELECT_EACH).any():
            raise ValueError("a plane that asks for each candidate needs a VA stage")
        sizes = np.diff(np.asarray(routes.set_start, dtype=np.int64))
        self.most_found = 2 * max(1, s.dims) * int(max(1, sizes.max(initial=1)))

    def _wire(self):
        cdef State* s = &self.s
        link = self.records["link"]
        found = wire(s.routers, *(link[name].astype(np.int32) for name in ("src", "dst", "vcs")))
        s.in_links = self._ints("in_links", found["in_links"])
        s.out_links = self._ints("out_links", found["out_links"])
        for name in ("base", "port", "out_port", "vc_offset", "out_offset", "word", "words"):
            link[name] = found["link_" + name]
        self.listed = found["in_listed"]
        s.vcs = len(self.listed)
        router = self._records("router", ROUTER, s.routers)
        s.router = <Router*> self._address(router)
        words, port_words = (found["input_vcs"] + 63) // 64, (np.diff(found["out_start"]) + 63) // 64
        for name, values in {
            "in_start": found["in_start"][: s.routers], "in_end": found["in_start"][1:],
            "out_start": found["out_start"][: s.routers], "out_end": found["out_start"][1:],
            "base": found["base"], "input_vcs": found["input_vcs"], "output_vcs": found["output_vcs"],
            "words": words, "word": np.cumsum(words) - words,
            "port_words": port_words, "port_word": np.cumsum(port_words) - port_words, "looked": -1,
        }.items():
            router[name] = values
        if s.routers and (router["in_end"] - router["in_start"]).max() > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} input ports at a router")
        at = found["vc_link"]
        vc = self._records("vc", VC, s.vcs)
        s.vc = <Vc*> self._address(vc)
        for name, values in {
            "want": NONE, "hold": NONE, "head": NONE, "tail": NONE, "packet": NONE, "link": at,
            "router": link["dst"][at], "credit_delay": link["credit_delay"][at],
            "number": np.arange(s.vcs) - link["base"][at], "port": link["port"][at],
            "vc_class": classes_of_vcs(
                link["base"], link["vcs"], s.vnets, link["classes"], link["range"], self.arrays["low"],
                self.arrays["high"]),
        }.items():
            vc[name] = values
        out = self._records("out", OUT, s.vcs)
        s.out = <Out*> self._address(out)
        for name, values in {
            "credit": link["depth"][at], "link": at, "src": link["src"][at], "va_pick": NONE, "send_packet": NONE,
        }.items():
            out[name] = values

    def _allocate(self):
        cdef State* s = &self.s
        link, router = self.records["link"], self.records["router"]
        cdef int64_t words = int(link["words"].sum())
        cdef int64_t input_words = int(router["words"].sum())
        cdef int32_t i, number
        per_link, per_vc = np.zeros(s.links, dtype=np.int32), np.zeros(s.vcs, dtype=np.int32)
        per_input = np.zeros(len(self.arrays["in_links"]) * s.parts)
        s.in_pointer = self._ints("in_pointer", per_input)
        s.sa_grant = self._ints("sa_grant", per_link)
        s.accept_pointer = self._ints("accept_pointer", per_input)
        s.va_grant = self._ints("va_grant", per_vc)
        s.va_accept = self._ints("va_accept", per_vc)
        s.va_wave = self._ints("va_wave", np.zeros(s.routers))
        s.sa_wave = self._ints("sa_wave", np.zeros(s.routers))
        s.open_pointer = self._ints("open_pointer", np.zeros(s.injection_links * s.vnets))
        s.class_pointer = self._ints("class_pointer", np.zeros(s.injection_links))
        s.open_count = self._ints("open_count", np.zeros(s.injection_links * s.classes))
        s.occupied = self._mask("occupied", input_words)
        s.heads = self._mask("heads", input_words)
        s.unheld = self._mask("unheld", words)
        s.opened = self._mask("opened", words)
        s.front = self._longs("front", per_vc)
        s.rank = self._longs("rank", per_vc)
        s.closing = self._bytes("closing", s.vcs)
        s.bid = self._longs("bid", per_vc - 1)
        s.bid_link = self._ints("bid_link", per_vc - 1)
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

    def _allocate_scratch(self):
        cdef State* s = &self.s
        router = self.records["router"]
        per_link, per_vc = np.zeros(s.links, dtype=np.int32), np.zeros(s.vcs, dtype=np.int32)
        fan_in = int((router["in_end"] - router["in_start"]).max(initial=0))
        fan_out = int((router["out_end"] - router["out_start"]).max(initial=0))
        inputs = max(int(router["input_vcs"].max(initial=0)), fan_in * s.parts)
        outputs = max(int(router["output_vcs"].max(initial=0)), fan_out)
        s.oldest = self._ints("oldest", per_link - 1, False)
        s.active = self._ints("active", np.zeros(s.routers), False)
        s.far = sum(records.nbytes for records in self.records.values()) > NEAR_BYTES
        s.touched = self._ints("touched", np.zeros(fan_out), False)
        s.able = self._ints("able", np.zeros(fan_out), False)
        s.part_pick = self._ints("part_pick", np.full(s.parts, NONE), False)
        s.part_key = self._longs("part_key", np.zeros(s.parts), False)
        s.va_key = self._longs("va_key", per_vc, False)
        s.va_touched = self._ints("va_touched", np.zeros(outputs), False)
        s.asked_link = self._ints("asked_link", per_vc - 1, False)
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

    def __dealloc__(self):
        free_state(&self.s)

    # -- use --

    cdef int64_t _send(
        self, int inject, int eject, int dst, int plane, int packets, int flits, int last_flits, int64_t at, int klass,
        int64_t tag
    ) except -1:
        cdef State* s = &self.s
        cdef Message* m
        cdef int32_t index
        if not (0 <= inject < s.injection_links and 0 <= eject < s.links - s.network_links - s.injection_links):
            raise IndexError(f"no lane {inject} -> {eject}")
        if not 0 <= dst < s.nodes or packets < 1 or flits < 1 or last_flits < 1:
            raise ValueError(f"no message of {packets} packets of {flits} ({last_flits}) flits to node {dst}")
        if plane < -1 or (plane < 0 and not s.ways) or (
            (<int64_t> plane + 1) * s.routers * s.dims > len(self.arrays["own"])
        ):
            raise IndexError(f"no plane {plane}")
        if not 0 <= klass < s.classes:
            raise IndexError(f"no message class {klass}")
        if s.attribution and not 0 <= tag < MOST_TAGS:
            raise IndexError(f"no traffic {tag} of {MOST_TAGS}")
        if at < s.now:
            raise ValueError(f"cycle {at} is past: it is {s.now}")
        index = new_message(s)
        if s.failed:
            raise MemoryError
        m = &s.messages[index]
        m.lane = s.network_links + inject
        m.eject = s.network_links + s.injection_links + eject
        m.dst, m.plane, m.packets, m.flits, m.last_flits = dst, plane, packets, flits, last_flits
        m.opened = m.delivered = 0
        m.klass = klass
        m.tag = tag
        m.next = NONE
        m.serial = s.serials
        m.at, m.first, m.last, m.hops = at, -1, -1, 0
        s.serials += 1
        add_pending(s, index)
        if s.failed:
            raise MemoryError
        return m.serial

    def send(self, int inject, int eject, int dst, int plane, int packets, int flits, int last_flits, int64_t at,
             int klass=0, int64_t tag=0):
        return self._send(inject, eject, dst, plane, packets, flits, last_flits, at, klass, tag)

    def send_many(self, inject, eject, dst, plane, packets, flits, last_flits, at, klass, tag=0):
        cdef int64_t first = self.s.serials
        columns = np.broadcast_arrays(inject, eject, dst, plane, packets, flits, last_flits, at, klass, tag)
        cdef int64_t[:, ::1] rows = np.ascontiguousarray(np.stack(columns, axis=-1).reshape(-1, 10), dtype=np.int64)
        cdef Py_ssize_t i
        for i in range(rows.shape[0]):
            self._send(rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3], rows[i, 4], rows[i, 5], rows[i, 6], rows[i, 7],
                       rows[i, 8], rows[i, 9])
        return first

    def run(self, int64_t until, *, int64_t slack=0, int64_t window=0, int64_t repeats_until=0):
        cdef State* s = &self.s
        cdef Reason reason
        look_for_periods(s, self.arrays, repeats_until)
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
        return Stop(REASONS[<int> reason], s.now, *take_delivered(s))

    def periods(self):
        return periods_of(&self.s)

    def sample(self, cycles, int links):
        return sampled(&self.s, cycles, links)

    def skip(self, int64_t periods):
        skip_periods(&self.s, periods)

    @property
    def skipped(self):
        return skipped_cycles(&self.s)

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
        return self.s.serials - self.s.messages_delivered

    def counters(self):
        settle(&self.s)
        return {name: self.records["link"][name].copy() for name in COUNTERS}

    def buffer_max(self):
        return self.records["vc"]["occupancy_max"][self.listed]

    def totals(self):
        cdef State* s = &self.s
        return {
            "messages": s.serials,
            "messages_delivered": s.messages_delivered,
            "packets": s.packets_delivered,
            "flits": s.flits_delivered,
            "router_visits": s.router_visits,
            "latency_sum": s.latency_sum,
            "network_latency_sum": s.network_latency_sum,
            "hops_sum": s.hops_sum,
        }

    def message_times(self, int message):
        if self.s.recycling or not 0 <= message < self.s.serials:
            raise IndexError(f"no message {message}")
        cdef Message* m = &self.s.messages[message]
        return m.at, m.first, m.last

    def deliveries(self):
        return arrivals(&self.s)

    def waits(self):
        return waits(&self.s)

    def splits(self):
        if self.s.recycling or not self.s.attribution:
            raise ValueError("the split of each message is kept with attribution, and without recycling")
        return splits(&self.s)

    def stays(self):
        return stays(&self.s)

    def watch(self, int64_t message, int packet):
        self.s.watch_serial = message
        self.s.watch_packet = packet

    def watched(self):
        return notes(&self.s)

    def trace(self):
        return launches(&self.s)

    def state(self, deciding=None):
        cdef State* s = &self.s
        cdef int32_t i
        names = [name for name in self.arrays if deciding is None or self.deciding[name] == deciding]
        found = {name: self.arrays[name].copy() for name in names}
        for kind, records in self.records.items():
            for name in records.dtype.names:
                if deciding is None or (name not in COUNTING[kind]) == deciding:
                    found[f"{kind}.{name}"] = records[name].copy()
        if deciding is None or deciding:
            found["calendar"] = np.array(calendar_entries(s), dtype=np.int64).reshape(-1, 3)
            found["fifo"] = np.array(
                [(vc, packet) for vc in range(s.vcs) for packet in packets_of(s, vc)], dtype=np.int64).reshape(-1, 2)
            found["pending"] = np.array(
                [s.messages[s.pending[i]].serial for i in range(s.pending_count)], dtype=np.int64)
        return found

    # -- looking inside --

    def check(self):
        prove_invariants(&self.s)

    def waiting(self):
        return stuck_flits(&self.s)
