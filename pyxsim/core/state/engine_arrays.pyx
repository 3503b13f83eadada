"""The arrays of one network: allocated from its description, owned and freed. network_state.pxd defines them."""

import numpy as np

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc

from pyxsim.core.latency.latency_records cimport Contender, LaneWait, LinkWait, VcOwner, VcWait, VcWaitDetail
from pyxsim.core.parallel.partition cimport MOST_PARTS
from pyxsim.core.router.buffer cimport CATCH_ALL_WORD
from pyxsim.core.router.crossbar cimport WINNERS_AHEAD
from pyxsim.core.router.user_matching cimport make_user_allocators, set_allocators
from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.state.link_layer_arrays cimport LinkLayerArrays
from pyxsim.core.state.network_state cimport free_state
from pyxsim.core.state.records cimport (
    CREDIT, KINDS, LANE_CREDIT, NONE, PRIORITY_SHIFT, ROUTE_SHIFT, SELECT_EACH, SELECT_RANDOM, SELECT_WEIGHTED,
    CalendarSlot, FifoNode, InPort, InputVc, Link, Message, OutputVc, Packet, QueuedFlit, Router, RouterBounds, VcMasks,
    VcRange,
)

from fractions import Fraction
from pyxsim.core.router_choice import Facts, RouterKind, choose_router
from pyxsim.core.state.record_dtypes import (
    LATENCY_RECORDS, BOUNDS, IN_PORT, INPUTS, LINK, OUT, RANGE, ROUTER, VC,
)
from pyxsim.core.state.wiring import classes_of_vcs, wire

LONGEST_DELAY = 1 << 24
LINK_ARRAYS = ("src", "dst", "vcs", "depth", "s_num", "s_den", "delay", "credit_delay", "output_queue", "group",
               "pool", "classes", "ranges")
MAX_PRIORITY = 255
MAX_SLOTS = 2**31 - 1
MAX_NUMBER = 2**15 - 1
KNOWN_ROUTES = 2**18
MOST_DIGITS = 8       # of routes that may follow others
LARGE_BYTES = 2**20  # records of VCs from which large pages pay
NEAR_BYTES = 2**19   # records that fit into the nearest caches
MIDDLE_BYTES = 2**22   # below this the full-option router loses more by prefetching than it gains


cdef class EngineArrays(LinkLayerArrays):
    """Owner of everything that the cycle loop works on; base class of Engine."""

    def __init__(self, int routers, links, routes, options, *, bint trace=False, bint recycle=False, int attribution=0,
                 bint bitmask=True, int silent_class=INT32_MAX):
        cdef State* s = &self.s
        self.made_of = (routers, links, routes, options), {"trace": trace, "recycle": recycle, "bitmask": bitmask,
                                                           "attribution": attribution, "silent_class": silent_class}
        self._begin(large=int(np.sum(links.vcs)) * sizeof(InputVc) >= LARGE_BYTES)
        self.bitmask = bitmask
        s.routers.count = routers
        s.links.network = links.network
        s.links.injection = links.injection
        s.links.logged = links.network if links.counted is None else links.counted
        s.links.count = links.network + links.injection + links.ejection
        s.config.tracing = trace
        s.config.recycling = recycle
        s.config.silent_class = silent_class
        s.config.attribution = attribution
        s.pools.packet_free = s.pools.message_free = s.waiting.first = NONE
        s.trace.watch_serial = NONE
        self._read_options(options)
        self._read_links(links)
        self._read_losses(links)
        self._read_routes(routes)
        self._wire()
        self.users = make_user_allocators(s, options)
        self._allocate()
        self._allocate_scratch(s)
        self._begin_credit_returns(links)
        self._allocate_latency_records()
        self._make_calendar()

    def _read_options(self, options):
        cdef State* s = &self.s
        s.config.rc, s.config.va, s.config.st = options.rc, options.va, options.st
        s.config.drained, s.config.step_arbiter = options.drained, options.step_arbiter
        s.config.interleaved, s.config.ordered = options.interleaved, options.ordered
        set_allocators(s, options)
        s.config.va_iterations, s.config.sa_iterations = options.va_iterations, options.sa_iterations
        s.config.speculative, s.config.flow = options.speculative, options.flow
        s.config.input_speedup, s.config.output_speedup = options.input_speedup, options.output_speedup
        s.config.ticks_num, s.config.ticks_den = Fraction(options.speedup).as_integer_ratio()
        s.config.ticks = (s.config.ticks_num + s.config.ticks_den - 1) // s.config.ticks_den
        s.config.queue_after_st = s.config.ticks > 1 or s.config.output_speedup > 1
        s.config.queue_limit = options.queue_limit
        s.config.hold_switch, s.config.va_credit = options.hold_switch, options.va_credit
        s.config.va_limited = s.config.va_credit or s.config.flow > 0
        s.config.shared_limit, s.config.next_vc = options.shared_limit, options.next_vc and not options.va
        s.config.credit_test = s.config.flow > 0 or s.config.shared_limit != 0
        s.config.shared_classes, s.config.rank_by = options.shared_classes, options.rank_by
        s.config.unusual = (
            s.config.hold_switch or s.config.va_credit or s.config.shared_classes or s.config.rank_by
            or s.config.queue_limit or s.config.shared_limit or s.config.next_vc
            or s.config.output_speedup > 1 or s.config.ticks_den > 1
        )
        s.config.vnets, s.config.classes = options.vnets, len(options.class_vnet)
        s.config.seed = options.seed % 2**64
        priority = np.asarray(options.class_priority, dtype=np.int64)
        vnet = np.asarray(options.class_vnet, dtype=np.int32)
        counts = (s.config.input_speedup, s.config.output_speedup, s.config.vnets, s.config.classes,
                  s.config.va_iterations, s.config.sa_iterations)
        if Fraction(options.speedup) < 1 or min(counts) < 1:
            raise ValueError("speed-ups, iterations, virtual networks and message classes must be at least 1")
        if len(priority) != s.config.classes or (priority < 0).any() or (priority > MAX_PRIORITY).any():
            raise ValueError(f"each message class needs a priority from 0 to {MAX_PRIORITY}")
        if (vnet < 0).any() or (vnet >= s.config.vnets).any() or s.config.classes > MAX_NUMBER:
            raise ValueError(f"a message class has an unknown virtual network, or there are more than {MAX_NUMBER}")
        if s.config.speculative and not s.config.va:
            raise ValueError("speculation needs a VA stage")
        if s.config.shared_classes and s.config.va_rotating:
            raise ValueError("VC classes that share VCs need a matrix allocator for VCs")
        s.config.priorities = len(np.unique(priority)) > 1 or s.config.rank_by > 0
        s.config.sa_plain = s.config.sa_separable and not (
            s.config.speculative or s.config.hold_switch or s.config.next_vc or s.config.priorities
            or s.config.attribution or s.config.input_speedup > 1 or s.config.output_speedup > 1
        )
        s.config.class_vnet = self._ints("class_vnet", vnet)
        s.config.class_rank = self._longs("class_rank", (priority.max() - priority) << PRIORITY_SHIFT)

    def _read_links(self, links):
        cdef State* s = &self.s
        cdef int64_t count = s.links.count
        for name in LINK_ARRAYS:
            if len(getattr(links, name)) != count:
                raise ValueError(f"links.{name} has {len(getattr(links, name))} entries for {count} links")
        num, den = np.asarray(links.s_num, dtype=np.int64), np.asarray(links.s_den, dtype=np.int64)
        delay, credit = np.asarray(links.delay, dtype=np.int64), np.asarray(links.credit_delay, dtype=np.int64)
        vcs, classes = np.asarray(links.vcs), np.asarray(links.classes)
        if count and ((den < 1).any() or (num < den).any()):
            raise ValueError("a link carries at most one flit per cycle: s_num / s_den must be at least 1")
        if count and ((delay < 1).any() or (credit < 1).any()):
            raise ValueError("delays and credit delays must be at least one cycle")
        longest = max(delay.max(initial=0), credit.max(initial=0))
        if longest > LONGEST_DELAY:
            raise ValueError(f"a delay of {longest} cycles exceeds the limit of {LONGEST_DELAY}")
        depth = np.asarray(links.depth)
        if count and ((vcs < 1) | (depth < 1) | (classes < 1) | (classes > vcs)).any():
            raise ValueError("a link needs at least one VC per class, and a slot per VC")
        rows = np.asarray(links.ranges) + s.config.vnets * classes
        if count and (rows.max() > len(links.low) or len(links.low) != len(links.high)):
            raise ValueError("links.low and links.high end before the last range")
        if count and (depth.max() + np.asarray(links.pool).max()) * vcs.max() > MAX_SLOTS:
            raise ValueError(f"more than {MAX_SLOTS} slots behind a link")
        if count and vcs.max() > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} VCs on a link")
        if s.config.output_speedup > 1 and np.any(links.pool):
            raise ValueError("an output speed-up excludes shared buffers: two flits could take the last slot")
        queued = np.asarray(links.output_queue) != 0
        queued |= bool(s.config.queue_after_st) & (np.asarray(links.src) >= 0)  # the switch is faster than its links
        s.links.any_queued = bool(queued.any())
        s.links.pool = self._ints("pool", links.pool)
        limits = count if s.config.shared_limit else 0
        s.links.limit = self._ints("limit", np.full(limits, s.config.shared_limit), False)
        s.links.low = self._ints("low", links.low)
        s.links.high = self._ints("high", links.high)
        s.links.range_mask = self._mask("range_mask", len(links.low))
        self.deciding["range_mask"] = False
        for i in range(len(links.low)):
            for number in range(s.links.low[i], min(s.links.high[i], 64)):
                set_bit(&s.links.range_mask[i], number)
        records = self._records("link", LINK, count)
        s.links.link = <Link*> self._address(records)
        for name, values in {
            "src": links.src, "dst": links.dst, "vcs": vcs, "depth": depth, "num": num, "den": den, "delay": delay,
            "credit_delay": credit, "queued": queued, "classes": classes, "group": links.group,
            "pool_left": links.pool, "range": links.ranges, "pick_vc": NONE, "queue_head": NONE, "queue_tail": NONE,
            "sink": np.asarray(links.dst) < 0,
        }.items():
            records[name] = values

    def _read_routes(self, routes):
        cdef State* s = &self.s
        digits = np.asarray(routes.digits, dtype=np.int32)
        if digits.ndim != 2:
            raise ValueError("routes.digits must be [nodes, dims]")
        s.routes.nodes, s.routes.dims = digits.shape
        own = np.asarray(routes.own, dtype=np.int32)
        if own.size % max(1, s.routes.dims * s.routers.count):
            raise ValueError("routes.own must be [planes * routers, dims]")
        planes = own.size // max(1, s.routes.dims * s.routers.count)
        if planes > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} planes")
        home = np.asarray(routes.home, dtype=np.int32)
        if len(home) != s.routes.nodes or (s.routes.nodes and not 0 <= home.min() <= home.max() < s.routers.count):
            raise ValueError("routes.home must be a router for each node")
        resident = np.full(s.routers.count, NONE, np.int32)
        resident[home[::-1]] = np.arange(s.routes.nodes)[::-1]
        s.routes.home = self._ints("home", home)
        s.routes.resident = self._ints("resident", resident)
        s.routes.digits = self._ints("digits", digits)
        s.routes.own = self._ints("own", own)
        s.routes.offset = self._longs("offset", routes.offset)
        s.routes.table_link = self._ints("table_link", routes.link)
        s.routes.table_class = self._ints("table_class", routes.vc_class)
        s.routes.set_start = self._longs("set_start", routes.set_start)
        s.routes.set_link = self._ints("set_link", routes.set_link)
        s.routes.set_class = self._ints("set_class", routes.set_class)
        s.routes.set_weight = self._ints("set_weight", routes.set_weight)
        s.routes.owed = self._ints("owed", np.zeros(len(routes.set_weight), np.int32))
        plain = dict(plane_any=0, plane_select=SELECT_RANDOM, plane_escape=NONE, plane_sticky=0, plane_equal=0)
        for name, value in plain.items():
            given = getattr(routes, name)
            plain[name] = np.asarray(given if len(given) else [value] * planes, dtype=np.int32)
            if len(plain[name]) != planes:
                raise ValueError(f"routes.{name} has {len(plain[name])} entries for {planes} planes")
        weighted = plain["plane_select"] == SELECT_WEIGHTED
        if weighted.any() and (len(routes.set_weight) != len(routes.set_link) or plain["plane_any"][weighted].any()):
            raise ValueError("select = weighted needs a weight for each member of a set, and one digit that decides")
        s.routes.plane_any = self._ints("plane_any", plain["plane_any"])
        s.routes.plane_select = self._ints("plane_select", plain["plane_select"])
        s.routes.plane_escape = self._ints("plane_escape", plain["plane_escape"])
        s.routes.plane_sticky = self._ints("plane_sticky", plain["plane_sticky"])
        s.routes.plane_equal = self._ints("plane_equal", plain["plane_equal"])
        s.routes.ways, s.routes.choose = len(routes.way_last), routes.choose
        s.routes.early, s.routes.bubble = routes.early, routes.bubble
        s.config.va_limited |= routes.bubble or (self.varies and (plain["plane_select"] == SELECT_EACH).any())
        s.routes.way_first = self._ints("way_first", routes.way_first)
        s.routes.way_last = self._ints("way_last", routes.way_last)
        s.routes.way_via = self._ints("way_via", routes.way_via)
        s.routes.way_bias = self._longs("way_bias", routes.way_bias)
        s.routes.wrap = self._ints("wrap", routes.wrap)
        s.routes.stride = self._longs("stride", routes.stride)
        s.routes.uses_draws = bool(s.routes.ways or len(routes.set_link) or plain["plane_any"].any() or s.config.lossy)
        # Routes are cached if the cache fits into the nearest processor caches.
        if planes * s.routers.count * s.routes.nodes <= KNOWN_ROUTES and s.links.count < 1 << (31 - ROUTE_SHIFT):
            s.routes.cached = self._ints("cached", np.full(planes * s.routers.count * s.routes.nodes, NONE), False)
        adaptive = (plain["plane_select"] != SELECT_RANDOM) & (plain["plane_select"] != SELECT_EACH)
        s.routes.credit_dependent = (s.routes.ways and s.routes.choose) or bool(adaptive.any())
        if not s.config.va and (plain["plane_select"] == SELECT_EACH).any():
            raise ValueError("select = each needs a VA stage")
        sizes = np.diff(np.asarray(routes.set_start, dtype=np.int64))
        most, dims = int(max(1, sizes.max(initial=1))), max(1, s.routes.dims)
        if s.config.lossy:   # other routes may follow, with more digits and sets of any links of a router
            src = self.records["link"]["src"]
            most, dims = max(most, int(np.bincount(src[src >= 0], minlength=1).max())), max(dims, MOST_DIGITS)
        self.most_found = max(self.most_found, 2 * dims * most)

    def _wire(self):
        cdef State* s = &self.s
        cdef int32_t i, row
        cdef Link* one
        link = self.records["link"]
        found = wire(s.routers.count, *(link[name].astype(np.int32) for name in ("src", "dst", "vcs")))
        s.ports.in_links = self._ints("in_links", found["in_links"])
        s.ports.out_links = self._ints("out_links", found["out_links"])
        s.ports.out_router = self._ints("out_router", link["src"][found["out_links"]])
        s.ports.eject_router = self._ints("eject_router", link["src"][s.links.network + s.links.injection :], False)
        for name in ("base", "port", "out_port", "vc_offset", "out_offset", "word", "words"):
            link[name] = found["link_" + name]
        self.listed = found["in_listed"]
        s.vcs.count = len(self.listed)
        router = self._records("router", ROUTER, s.routers.count)
        s.routers.router = <Router*> self._address(router)
        s.ports.outputs = len(found["out_links"])
        self._choose_router(found)
        fan_in = np.diff(found["in_start"])
        words = ((fan_in << s.masks.port_shift if s.path.bitmask_sa else found["input_vcs"]) + 63) // 64
        port_words = (np.diff(found["out_start"]) + 63) // 64
        for name, values in {
            "in_start": found["in_start"][: s.routers.count], "in_end": found["in_start"][1:],
            "out_start": found["out_start"][: s.routers.count], "out_end": found["out_start"][1:],
            "base": found["base"], "input_vcs": found["input_vcs"], "output_vcs": found["output_vcs"],
            "words": words, "word": np.cumsum(words) - words,
            "port_words": port_words, "port_word": np.cumsum(port_words) - port_words, "looked": -1,
            "filled": np.where((words > CATCH_ALL_WORD) & (not s.path.bitmask_sa),
                               np.uint64(1) << np.uint64(CATCH_ALL_WORD), 0),
        }.items():
            router[name] = values
        if s.routers.count and (router["in_end"] - router["in_start"]).max() > MAX_NUMBER:
            raise ValueError(f"more than {MAX_NUMBER} input ports at a router")
        self._assign_mask_bits(words)
        at = found["vc_link"]
        number = np.arange(s.vcs.count) - link["base"][at]
        ends = link["dst"][at]
        offset = np.where(s.path.bitmask_sa, link["port"][at] << s.masks.port_shift, link["vc_offset"][at]) + number
        vc = self._records("vc", VC, s.vcs.count)
        s.vcs.input = <InputVc*> self._address(vc)
        for name, values in {
            "out_link": NONE, "out_vc": NONE, "head": NONE, "tail": NONE, "packet": NONE, "link": at,
            "router": ends, "mask_bit": np.where(ends < 0, NONE, 64 * router["word"][ends] + offset),
            "port": np.where(ends < 0, NONE, router["in_start"][ends] + link["port"][at]),
            "vc_class": classes_of_vcs(
                link["base"], link["vcs"], s.config.vnets, link["classes"], link["range"], self.arrays["low"],
                self.arrays["high"]),
        }.items():
            vc[name] = values
        self._map_mask_bits(vc[ends >= 0], np.flatnonzero(ends >= 0))
        out = self._records("out", OUT, s.vcs.count)
        s.vcs.output = <OutputVc*> self._address(out)
        for name, values in {
            "credit": link["depth"][at], "link": at, "src": link["src"][at], "send_packet": NONE,
            "holder": s.masks.no_holder_bit,
        }.items():
            out[name] = values

        ranges = self._records("ranges", RANGE, s.vcs.count)
        s.vcs.ranges = <VcRange*> self._address(ranges)
        ranges["pick"] = NONE
        for name in ("word", "base", "outlet"):
            ranges[name] = link[name][at]
        for i in range(s.links.count):
            one = &s.links.link[i]
            for row in range(one.range, one.range + s.config.vnets * one.classes):
                s.vcs.ranges[one.base + s.links.low[row]].mask = s.links.range_mask[row]

    def _map_mask_bits(self, vc, number):
        """Map mask bits to input VCs: one table for all routers where they agree, else one per router."""
        cdef State* s = &self.s
        router = self.records["router"]
        bounds = self._records("bounds", BOUNDS, s.routers.count)
        s.routers.bounds = <RouterBounds*> self._address(bounds)
        for name in ("base", "input_vcs", "out_start"):
            bounds[name] = router[name]
        bounds["in_ports"] = router["in_end"] - router["in_start"]
        at, there = vc["mask_bit"] - 64 * router["word"][vc["router"]], number - router["base"][vc["router"]]
        shared = np.zeros(64 * s.masks.most_words, np.int16)
        if s.path.bitmask_sa:
            shared[at] = there
            s.masks.per_router = NONE if (shared[at] != there).any() else 0
        if s.masks.per_router:
            shared = np.zeros(64 * s.masks.words, np.int16)
            shared[vc["mask_bit"]] = there
        s.masks.vc_at_bit = self._shorts("vc_at_bit", shared)

    def _choose_router(self, found):
        """Decide which router runs (router_choice.py)."""
        cdef State* s = &self.s
        link = self.records["link"]
        fan_in, fan_out = np.diff(found["in_start"]), np.diff(found["out_start"])
        entering = link["dst"] >= 0
        offsets, ports = found["link_vc_offset"][entering], found["link_port"][entering]
        first_offset = np.zeros(int(ports.max(initial=-1)) + 1, np.int64)
        first_offset[ports] = offsets
        vcs = int(link["vcs"].max(initial=1))
        s.masks.port_shift = (vcs - 1).bit_length()
        bits = fan_in << s.masks.port_shift
        facts = Facts(
            bitmask_allowed=self.bitmask, rc=s.config.rc, va=s.config.va, input_speedup=s.config.input_speedup,
            ticks=s.config.ticks, ordered=s.config.ordered, speculative=s.config.speculative,
            drained=s.config.drained, step_arbiter=s.config.step_arbiter,
            separable_input_first=s.config.sa_separable, rotating_va=s.config.va_rotating,
            wormhole=s.config.flow == 0, priorities=s.config.priorities, unusual=bool(s.config.unusual),
            bubble=bool(s.routes.bubble), shared_pool=bool(np.any(self.arrays["pool"])),
            output_queues=bool(link["queued"].any()), credit_routes=s.routes.credit_dependent,
            multi_candidates=bool((self.arrays["plane_select"] == SELECT_EACH).any()),
            observed=bool(s.config.attribution or s.config.tracing), vcs=vcs, fan_in=int(fan_in.max(initial=0)),
            fan_out=int(fan_out.max(initial=0)), output_vcs=int(found["output_vcs"].max(initial=0)),
            one_word=bool(((bits > 0) & (bits <= 64) & (fan_out > 0) & (fan_out <= 64)).all()),
            uniform=bool((first_offset[ports] == offsets).all()),
            unit_rate=bool((link["num"] == link["den"]).all()) and not self.varies, classes=s.config.classes,
        )
        self.choice = choose_router(facts)
        s.path.bitmask_sa = self.choice.kind >= RouterKind.BITMASK
        s.path.batch_path = self.choice.kind == RouterKind.BATCH
        s.path.lane_batch = self.choice.lane_batch
        s.path.unit_rate = facts.unit_rate

    def _assign_mask_bits(self, words):
        """Assign mask bits to the input VCs of each router."""
        cdef State* s = &self.s
        cdef int32_t i, port, number, places
        cdef Link* one
        s.masks.words = int(words.sum())
        s.masks.most_words = int(words.max(initial=1)) if s.path.bitmask_sa else 1
        link = self.records["link"]
        in_links = self.arrays["in_links"][: s.routers.count
                                           and int(self.records["router"]["in_end"][s.routers.count - 1])]
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
        s.ports.input = <InPort*> self._address(ports)
        s.masks.no_holder_bit = 64 * s.masks.words
        s.masks.inputs = <VcMasks*> self._address(self._records("inputs", INPUTS, s.masks.words + 1 + MOST_PARTS))
        s.masks.valid_bits = self._mask("valid_bits", s.masks.words)
        self.deciding["valid_bits"] = False
        if not s.path.bitmask_sa:
            return
        places = 1 << s.masks.port_shift
        for port in range(0, 64, places):
            s.masks.port_low |= <uint64_t> 1 << port
            s.masks.port_high |= <uint64_t> 1 << (port + places - 1)
        for i in range(s.links.count):
            one = &s.links.link[i]
            if one.dst >= 0:
                for number in range(one.vcs):
                    set_bit(&s.masks.valid_bits[s.routers.router[one.dst].word], one.port * places + number)

    def _allocate(self):
        cdef State* s = &self.s
        link, router = self.records["link"], self.records["router"]
        cdef int64_t words = int(link["words"].sum())
        cdef int32_t i, number
        per_link = np.zeros(s.links.count, dtype=np.int32)
        per_input = np.zeros(len(self.arrays["in_links"]) * s.config.input_speedup)
        s.arbiters.in_pointer = self._ints("in_pointer", per_input)
        s.arbiters.out_pointer = self._ints("out_pointer", np.zeros(s.ports.outputs))
        s.arbiters.input_turn = self._mask("input_turn", s.masks.words)
        if s.path.bitmask_sa:
            self.arrays["input_turn"][:] = self.arrays["valid_bits"]
        s.masks.requests = self._mask("requests",
                                      <int64_t> s.ports.outputs * s.masks.most_words if s.path.bitmask_sa else 0)
        s.masks.out_at = self._bytes("out_at", 64 * s.masks.words if s.path.bitmask_sa else 0, False)
        s.masks.busy_outputs = self._mask("busy_outputs", s.routers.count)
        s.masks.blocked = self._mask("blocked", s.masks.words if s.path.bitmask_sa else 0)
        s.masks.free_from = self._longs("free_from", np.zeros(s.ports.outputs if s.path.bitmask_sa else 0), False)
        s.stats.port_stalls = self._mask("port_stalls", s.ports.outputs)
        for name in ("requests", "busy_outputs", "blocked", "port_stalls"):
            self.deciding[name] = False
        s.arbiters.sa_grant = self._ints("sa_grant", np.repeat(per_link, s.config.output_speedup))
        held = np.full(per_input.size if s.config.hold_switch else 0, NONE, dtype=np.int32)
        s.arbiters.held_vc = self._ints("held_vc", held)
        s.arbiters.held_output = self._ints("held_output", held.copy())
        s.arbiters.output_held = self._ints(
            "output_held", np.zeros(s.ports.outputs * s.config.output_speedup if s.config.hold_switch else 0))
        limited = np.full(s.links.count if s.config.queue_limit else 0, NONE, dtype=np.int64)
        s.links.left_tick = self._longs("left_tick", limited)
        s.links.left_cycle = self._longs("left_cycle", limited.copy())
        s.arbiters.sa_accept = self._ints("sa_accept", per_input)
        # Arrays of matrix allocators and of bids stay empty without these options.
        matrix = np.zeros(0 if s.config.va_rotating else s.vcs.count, dtype=np.int32)
        bids = np.zeros(s.vcs.count if s.config.speculative else 0, dtype=np.int32)
        s.arbiters.va_grant = self._ints("va_grant", matrix)
        s.arbiters.va_accept = self._ints("va_accept", matrix.copy())
        s.arbiters.va_wave = self._ints("va_wave", np.zeros(s.routers.count))
        s.arbiters.sa_wave = self._ints("sa_wave", np.zeros(s.routers.count))
        s.lanes.open_pointer = self._ints("open_pointer", np.zeros(s.links.injection * s.config.vnets))
        s.lanes.class_pointer = self._ints("class_pointer", np.zeros(s.links.injection))
        s.lanes.open_count = self._ints("open_count", np.zeros(s.links.injection * s.config.classes))
        s.vcs.unheld = self._mask("unheld", words)
        s.lanes.opened = self._mask("opened", words)
        s.vcs.front_time = self._longs("front_time", np.zeros(0 if s.path.batch_path else s.vcs.count))
        s.vcs.rank = self._longs("rank", np.zeros(s.vcs.count if s.config.priorities else 0))
        s.vcs.draining = self._bytes("draining", s.vcs.count)
        s.vcs.bid = self._longs("bid", bids - 1)
        s.vcs.bid_link = self._ints("bid_link", bids - 1)
        s.lanes.source_head = self._ints("source_head", np.full(s.links.injection * s.config.classes, NONE))
        s.lanes.source_tail = self._ints("source_tail", np.full(s.links.injection * s.config.classes, NONE))
        s.routers.words = (s.routers.count + 63) // 64
        s.lanes.words = (s.links.injection + 63) // 64
        s.routers.active = self._mask("router_active", s.routers.words)
        s.lanes.active = self._mask("lane_active", s.lanes.words)
        s.stats.stalled_ports = self._mask("stalled_ports", int(router["port_words"].sum()))
        self.deciding["stalled_ports"] = False
        for i in range(s.links.count):
            for number in range(s.links.link[i].vcs):
                set_bit(&s.vcs.unheld[s.links.link[i].word], number)

    cdef int _allocate_scratch(self, State* s) except -1:
        """Allocate scratch arrays, of the whole network or of a partition."""
        router = self.records["router"]
        per_link, per_vc = np.zeros(s.links.count, dtype=np.int32), np.zeros(s.vcs.count, dtype=np.int32)
        fan_in = int((router["in_end"] - router["in_start"]).max(initial=0))
        fan_out = int((router["out_end"] - router["out_start"]).max(initial=0))
        inputs = max(int(router["input_vcs"].max(initial=0)), fan_in * s.config.input_speedup)
        outputs = max(int(router["output_vcs"].max(initial=0)), fan_out * s.config.output_speedup)
        s.scratch.held = self._ints("held", np.zeros(fan_in * s.config.input_speedup), False)
        s.scratch.oldest = self._ints("oldest", per_link - 1, False)
        s.routers.woken = self._bytes("woken", 64 * s.routers.words, False)
        s.routers.woken_words = self._bytes("woken_words", s.routers.words, False)
        s.routers.visit_list = self._ints("visit_list", np.zeros(s.routers.count), False)
        cached = NEAR_BYTES if s.path.bitmask_sa else MIDDLE_BYTES
        s.path.prefetch = sum(records.nbytes for records in self.records.values()) > cached
        # One more than can win in a cycle, as branch-free code writes one entry ahead.
        ahead = 2 * WINNERS_AHEAD + 1
        s.scratch.winners = self._ints("switch_winners",
                                       np.zeros(s.ports.outputs + len(self.records["in_port"]) + ahead), False)
        s.scratch.output_winner = self._ints("output_winner", np.full(s.ports.outputs, NONE), False)
        s.scratch.tails = self._ints("tails", np.zeros(s.ports.outputs + 1), False)
        s.scratch.new_heads = self._ints("new_heads", np.zeros(s.ports.outputs + len(self.records["in_port"]) + 1),
                                         False)
        s.scratch.requested_outputs = self._ints("requested_outputs", np.zeros(fan_out), False)
        s.scratch.eligible_outputs = self._ints("eligible_outputs", np.zeros(fan_out), False)
        s.scratch.credit_links = self._ints("credit_links", np.zeros(s.links.count if s.config.credits else 0), False)
        s.scratch.best_vc = self._ints("best_vc", np.full(s.config.input_speedup, NONE), False)
        s.scratch.best_key = self._longs("best_key", np.zeros(s.config.input_speedup), False)
        s.vcs.va_key = self._longs("va_key", per_vc, False)
        s.scratch.requested_ranges = self._ints("requested_ranges", np.zeros(outputs), False)
        s.vcs.requested_link = self._ints("requested_link",
                                          np.full(0 if s.config.va_rotating else s.vcs.count, NONE), False)
        s.routes.candidate_link = self._ints("candidate_link", np.zeros(self.most_found), False)
        s.routes.candidate_class = self._ints("candidate_class", np.zeros(self.most_found), False)
        s.matching.best_in = self._ints("best_in", np.zeros(inputs), False)
        s.matching.best_out = self._ints("best_out", np.zeros(outputs), False)
        s.matching.match_in = self._ints("match_in", np.zeros(inputs), False)
        s.matching.match_out = self._ints("match_out", np.zeros(outputs), False)

    def _allocate_latency_records(self):
        """Allocate the records of attribution (docs/attribution.md), empty without it."""
        cdef State* s = &self.s
        cdef bint kept = s.config.attribution > 0
        sizes = {"vc_book": s.vcs.count, "vc_margin": s.vcs.count, "owner": s.vcs.count, "link_book": s.links.count,
                 "lane_book": s.links.injection}
        for kind, (fields, plain) in LATENCY_RECORDS.items():
            records = self._records(kind, fields, sizes[kind] if kept else 0)
            for name, value in plain.items():
                records[name] = value
        if kept:
            for name in ("num", "delay", "credit_delay"):
                self.records["link_book"][name] = self.records["link"][name]
        s.latency.faulty = s.config.retry
        s.latency.vc = <VcWait*> self._address(self.records["vc_book"])
        s.latency.margin = <VcWaitDetail*> self._address(self.records["vc_margin"])
        s.latency.link = <LinkWait*> self._address(self.records["link_book"])
        s.latency.lane = <LaneWait*> self._address(self.records["lane_book"])
        s.latency.owner = <VcOwner*> self._address(self.records["owner"])
        inputs = int(self.records["router"]["input_vcs"].max(initial=0))
        s.latency.rivals = <Contender*> self._ints("rivals", np.zeros(inputs * 3), False)
        s.latency.winners = <Contender*> self._ints("winners", np.zeros(len(self.arrays["requested_outputs"]) * 3),
                                                    False)
        s.latency.lost_to = self._ints("lost_to", np.zeros(s.vcs.count if kept else 0), False)
        s.latency.pipeline = (s.config.rc + s.config.va
                              + (s.config.st if s.config.queue_after_st else 0) - s.config.speculative
                              ) * s.config.ticks_den // s.config.ticks_num
        s.latency.stay_free = s.latency.rider_free = NONE

    def _make_calendar(self):
        """Allocate a calendar longer than any delay: arrivals, credits, link and pipeline timers."""
        cdef State* s = &self.s
        if s.links.count:
            link = self.records["link"]
            num, den = link["num"], link["den"]
            delays = np.maximum(link["delay"], link["credit_delay"])
            longest = max(int((-(-num // den) + delays).max()), self.longest)
        else:
            longest = 1
        longest += s.config.rc + s.config.va + 4
        if longest > LONGEST_DELAY:
            raise ValueError(f"a delay of {longest} cycles exceeds the limit of {LONGEST_DELAY}")
        size = 64
        while size < longest:
            size *= 2
        s.calendar.slot_mask = size - 1
        s.calendar.words = size // 64
        s.calendar.slots = <CalendarSlot*> calloc(size, sizeof(CalendarSlot))
        s.calendar.used = <uint64_t*> calloc(s.calendar.words, sizeof(uint64_t))
        if s.calendar.slots == NULL or s.calendar.used == NULL:
            raise MemoryError

    cdef int64_t size_in_bytes(self):
        """Bytes of all arrays, the calendar and the pools, without the growing records of attribution."""
        cdef State* s = &self.s
        cdef int64_t place
        cdef int32_t kind
        cdef int64_t total = sum(array.nbytes for array in self.arrays.values())
        total += sum(room.nbytes for room in self.memory) + (s.calendar.slot_mask + 1) * sizeof(CalendarSlot)
        for place in range(s.calendar.slot_mask + 1):
            for kind in range(KINDS):
                total += s.calendar.slots[place].capacity[kind] * sizeof(int32_t)
        total += s.pools.node_capacity * (sizeof(FifoNode) + sizeof(int32_t) + s.links.any_queued * sizeof(QueuedFlit))
        total += s.pools.packet_capacity * sizeof(Packet) + s.pools.message_capacity * sizeof(Message)
        return total

    def __dealloc__(self):
        free_state(&self.s)
