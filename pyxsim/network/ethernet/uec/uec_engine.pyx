"""The engine of Ultra Ethernet: an event loop over packets, in C; Python code runs per batch of messages."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport expm1
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import numpy as np

from pyxsim.errors import SimulationError

from pyxsim.network.ethernet.event_queue cimport (
    SLOTS, Event, EventQueue, following_slot, open_slot, present, queue_free, queue_restore, queue_setup, queue_state,
    schedule, take,
)
from pyxsim.network.ethernet.uec.uec_entropy cimport begin_entropy
from pyxsim.network.ethernet.uec.uec_links cimport enter_switch, keep_ack, pass_switch, transmitted
from pyxsim.network.ethernet.uec.uec_nic cimport enter_messages, nic_free, send_probe, start_flow, timeout
from pyxsim.network.ethernet.uec.uec_pools cimport at, draw, free_packet, pop, push
from pyxsim.network.ethernet.uec.uec_receiver cimport adapt, begin_adaptation, pace, pull_stalled, take_data
from pyxsim.network.ethernet.uec.uec_records cimport (
    ACK, ADAPT, DATA, ENTER_MESSAGE, FIRST_PULL, GAVE_UP, LINK, NIC, NONE, OF_RTS, OTHER, PACE, PORT, PULL_STALLED,
    QUANTUM, RTS, SEND_PROBE, START, SWITCH, TIMEOUT, TRIMMED, Fabric, Flow, Host, Packet, Port, Random, Switch,
)
from pyxsim.network.ethernet.uec.uec_sender cimport take_reply
from pyxsim.raw cimport aligned, loaded, saved

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef extern from "<stdlib.h>" nogil:
    void *aligned_alloc(size_t alignment, size_t size)

FLOW_COLUMNS = (
    "src", "dst", "bytes", "packets", "start", "end", "sent", "resent", "delivered", "marked", "trimmed", "dropped",
    "errors", "out_of_order", "duplicates", "timeouts", "rts", "acks", "nacks", "pulls", "recovered", "cumulative",
    "in_flight", "window", "increased_fair", "increased_proportional", "increased_fast", "increased_eta",
    "decreased_window", "decreased_quick", "decreased_nack",
)
PORT_COUNTERS = (
    "sent_bytes", "sent_packets", "marked", "dropped", "trimmed", "errors", "pauses", "paused_time", "peak",
)
cdef double PULL_SHARE = 0.99  # of the line rate


cdef class UecEngine:
    """Hosts, switches and flows of Ultra Ethernet (docs/uec.md).

    Parameters
    ----------
    config
        A `UecConfig`.
    random
        numpy's MT19937. Draws: each host, then each flow as it is made, then the run in the order of events.
    """

    cdef Fabric fabric
    cdef object keep           # the arrays that the fabric points to
    cdef object config
    cdef object random
    cdef readonly int64_t events

    def __cinit__(self):
        memset(&self.fabric, 0, sizeof(Fabric))

    def __init__(self, config, random, bint resume=False):
        cdef Fabric *fabric = &self.fabric
        cdef int64_t i
        cdef const int32_t[::1] uplink = config.uplink
        cdef const int32_t[::1] down = config.down
        cdef const int32_t[::1] tor = config.tor
        cdef const int32_t[::1] group = config.group
        self.keep = (uplink, down, tor, group)
        self.random = random
        fabric.random = <Random*> PyCapsule_GetPointer(random.capsule, "BitGenerator")
        fabric.uplink, fabric.down, fabric.tor, fabric.group = &uplink[0], &down[0], &tor[0], &group[0]
        fabric.groups, fabric.switches, fabric.hosts = config.route.shape[1], len(config.route), uplink.shape[0]
        fabric.ports = len(config.ports)
        self._set_routes(config)
        if resume:
            return
        self._set_rules(dict(config.rules))
        fabric.unused_packet = fabric.deferred = NONE
        fabric.port = <Port*> aligned_alloc(64, <size_t> fabric.ports * sizeof(Port))
        fabric.node = <Switch*> calloc(fabric.switches, sizeof(Switch))
        fabric.host = <Host*> calloc(fabric.hosts, sizeof(Host))
        fabric.order_of_set = <int64_t*> calloc(len(config.set_shuffle), sizeof(int64_t))
        if (fabric.port == NULL or fabric.node == NULL or fabric.host == NULL or fabric.order_of_set == NULL
                or queue_setup(&fabric.events, config.shift)):
            raise MemoryError("ports and switches")
        memset(fabric.port, 0, <size_t> fabric.ports * sizeof(Port))
        self._set_ports()
        self.set_links(config)
        for i in range(fabric.hosts):
            fabric.host[i].control_head = fabric.host[i].control_tail = NONE
            fabric.host[i].least_quantum_time = <int64_t> ((8 * QUANTUM * 1e12 / fabric.rules.line) / PULL_SHARE)
            fabric.host[i].quantum_time = fabric.host[i].least_quantum_time
            if fabric.rules.oversubscribed_cc:
                begin_adaptation(fabric, i)
            random.random_raw()  # the port at which a NIC begins, of one

    cdef _set_rules(self, dict rules):
        cdef Fabric *fabric = &self.fabric
        cdef double scale, speed
        rules.setdefault("ack_ends", 1)
        rules.setdefault("trim_sending", 1)
        rules.setdefault("pull_finished", 1)
        rules.setdefault("patience", 0)
        rules.setdefault("alpha", 0.0)
        rules.setdefault("fair", 0.0)
        rules.setdefault("eta", 0.0)
        rules.setdefault("fast", 0.0)
        fabric.rules = rules
        payload = fabric.rules.mtu - fabric.rules.header
        # NSCC's constants hold for 150,000 bytes in flight and a target of 12 us; others scale with these.
        scale = <int64_t> (<double> fabric.rules.network_rtt / 1e12 * <double> (fabric.rules.line // 8)) / 150000.0
        speed = fabric.rules.target / 12e6
        fabric.rules.alpha = 4.0 * payload * scale * speed / fabric.rules.target
        fabric.rules.fair = 5 * payload * scale
        fabric.rules.eta = 0.15 * payload * scale
        fabric.rules.fast = 0.25 * scale

    cdef _set_ports(self):
        cdef Fabric *fabric = &self.fabric
        cdef const int64_t[:, ::1] ports = self.config.ports
        cdef const int64_t[:, ::1] nodes = self.config.nodes
        cdef Port *port
        cdef int64_t i
        for i in range(fabric.ports):
            port = &fabric.port[i]
            port.data_head = port.data_tail = port.control_head = port.control_tail = NONE
            port.spec_head = port.spec_tail = port.sending = port.link.head = port.link.tail = NONE
            port.node, port.peer = ports[i, 0], ports[i, 1]
            port.link.delay, port.capacity = ports[i, 4], ports[i, 5]
            port.ecn_low, port.ecn_high, port.last = ports[i, 6], ports[i, 7], ports[i, 8]
            port.to_host, port.from_host = port.peer < fabric.hosts, port.node < fabric.hosts
            port.slower = port.from_host and <double> fabric.rules.line * ports[i, 2] > 8e12 * ports[i, 3]
        for i in range(fabric.switches):
            fabric.node[i].pipe.head = fabric.node[i].pipe.tail = NONE
            fabric.node[i].pipe.delay = nodes[fabric.hosts + i, 0]
            fabric.node[i].salt = <uint32_t> nodes[fabric.hosts + i, 1]

    cdef _set_routes(self, config):
        cdef Fabric *fabric = &self.fabric
        cdef const int32_t[:, ::1] route = config.route
        cdef const int32_t[::1] set_start = config.set_start
        cdef const int32_t[::1] set_port = config.set_port
        cdef const int32_t[::1] set_shuffle = config.set_shuffle
        self.config = config
        self.keep = (*self.keep[:4], route, set_start, set_port, set_shuffle)
        fabric.route, fabric.set_start, fabric.set_port = &route[0, 0], &set_start[0], &set_port[0]
        fabric.set_shuffle = &set_shuffle[0]

    def set_links(self, config):
        """Take rates and losses of links, and the routes, from a configuration of the same network.

        Packets in transmission keep their time. Sets of ports must not be in random order, if there are others.
        """
        cdef const int64_t[:, ::1] ports = config.ports
        cdef const double[:, ::1] survival = config.survival
        cdef Port *port
        cdef int64_t i
        self._set_routes(config)
        for i in range(self.fabric.ports):
            port = &self.fabric.port[i]
            port.picoseconds, port.per_bytes = ports[i, 2], ports[i, 3]
            if len(survival):
                port.survival[0], port.survival[1] = survival[i, 0], survival[i, 1]
                port.lossy = survival[i, 0] < 0 or survival[i, 1] < 0

    def wait(self, int64_t time):
        """Advance time to `time` (ps); nothing happens before it."""
        self.fabric.now = max(self.fabric.now, time)

    def __dealloc__(self):
        cdef Fabric *fabric = &self.fabric
        free(fabric.port)
        free(fabric.node)
        free(fabric.host)
        free(fabric.order_of_set)
        free(fabric.packet)
        free(fabric.flow)
        free(fabric.word)
        free(fabric.old_ack)
        free(fabric.done)
        queue_free(&fabric.events)

    # -- checkpoints --

    def __getstate__(self):
        cdef Fabric *fabric = &self.fabric
        memory = (
            saved(fabric.port, fabric.ports, sizeof(Port)),
            saved(fabric.node, fabric.switches, sizeof(Switch)),
            saved(fabric.host, fabric.hosts, sizeof(Host)),
            saved(fabric.order_of_set, len(self.config.set_shuffle), sizeof(int64_t)),
            saved(fabric.packet, fabric.packets, sizeof(Packet)),
            saved(fabric.flow, fabric.flows, sizeof(Flow)),
            saved(fabric.word, fabric.words, sizeof(int64_t)),
            saved(fabric.old_ack, fabric.old_acks, 1),
            queue_state(&fabric.events),
        )
        return self.config, self.random, saved(fabric, 1, sizeof(Fabric)), memory, self.events

    def __setstate__(self, state):
        cdef Fabric *fabric = &self.fabric
        cdef Fabric old
        cdef const char *data
        config, random, numbers, memory, self.events = state
        self.__init__(config, random, resume=True)
        if len(numbers) != sizeof(Fabric):
            raise ValueError("the state of another version")
        data = numbers
        memcpy(&old, data, sizeof(Fabric))
        # The counters are those of `old`; every address is new.
        old.random = fabric.random
        old.uplink, old.down, old.tor, old.group = fabric.uplink, fabric.down, fabric.tor, fabric.group
        old.route, old.set_start, old.set_port = fabric.route, fabric.set_start, fabric.set_port
        old.set_shuffle = fabric.set_shuffle
        old.done, old.done_count, old.done_capacity = NULL, 0, 0
        old.port, old.node = <Port*> aligned(memory[0]), <Switch*> loaded(memory[1])
        old.host, old.order_of_set = <Host*> loaded(memory[2]), <int64_t*> loaded(memory[3])
        old.packet, old.packet_capacity = <Packet*> loaded(memory[4]), old.packets
        old.flow, old.flow_capacity = <Flow*> loaded(memory[5]), old.flows
        old.word, old.word_capacity = <int64_t*> loaded(memory[6]), old.words
        old.old_ack, old.old_ack_capacity = <uint8_t*> loaded(memory[7]), old.old_acks
        fabric[0] = old
        queue_restore(&fabric.events, memory[8])

    # -- flows --

    def connect(self, int64_t src, int64_t dst, int64_t nbytes, int64_t source_id, int64_t sink_id,
                int64_t base_rtt, int64_t start, bint connection=False):
        """Make a flow of `nbytes` that starts at `start` (ps; negative: `start_now` does). Returns its number.

        `source_id`, `sink_id`: of data and of replies, for the hash of switches. `base_rtt`: ps. `connection`: further
        messages may follow.
        """
        cdef int64_t number = self._new_flow(src, dst, nbytes, source_id, sink_id, base_rtt)
        if connection:
            self.fabric.flow[number].connection = True
            self.fabric.flow[number].nbytes = 0
            self.add_message(number, nbytes, start)
        if start >= 0:
            self._at(start, START, number)
        return number

    cdef int64_t _new_flow(self, int64_t src, int64_t dst, int64_t nbytes, int64_t source_id, int64_t sink_id,
                           int64_t base_rtt) except -1:
        cdef Fabric *fabric = &self.fabric
        cdef int64_t capacity, number = fabric.flows
        cdef Flow *larger
        cdef Flow *flow
        if number == fabric.flow_capacity:
            capacity = 2 * fabric.flow_capacity + 64
            larger = <Flow*> realloc(fabric.flow, <size_t> capacity * sizeof(Flow))
            if larger == NULL:
                raise MemoryError(f"{capacity} flows")
            fabric.flow, fabric.flow_capacity = larger, capacity
        fabric.flows += 1
        flow = &fabric.flow[number]
        memset(flow, 0, sizeof(Flow))
        flow.src, flow.dst, flow.nbytes = src, dst, nbytes
        flow.source_id, flow.sink_id = source_id, sink_id
        flow.end = flow.received_at = -1
        flow.speculating = True
        flow.oldest = flow.newest = NONE
        flow.pulled = flow.requested = flow.granted = flow.highest = FIRST_PULL
        flow.base_rtt = base_rtt
        flow.bandwidth_delay = <int64_t> (<double> base_rtt / 1e12 * <double> (fabric.rules.line // 8))
        flow.most_window = <int64_t> (1.5 * <double> flow.bandwidth_delay)
        flow.window = fabric.rules.window if fabric.rules.window else flow.most_window
        fabric.most_window = flow.most_window
        begin_entropy(fabric, flow)
        return number

    cdef int _at(self, int64_t time, int32_t kind, int64_t item) except -1:
        if self.fabric.rules.end and time >= self.fabric.rules.end:
            return 0
        if schedule(&self.fabric.events, time, kind, item):
            raise MemoryError("events")
        return 0

    def add_message(self, int64_t number, int64_t nbytes, int64_t time):
        """Add a message to a connection: it may be sent from `time` (ps) on."""
        cdef Fabric *fabric = &self.fabric
        cdef Flow *flow = &fabric.flow[number]
        cdef int64_t due, size, _i
        cdef bint known = False
        flow.nbytes += nbytes
        for _i in range(flow.later.count // 2):
            due, size = pop(fabric, &flow.later), pop(fabric, &flow.later)
            known = known or due == time
            push(fabric, &flow.later, due)
            push(fabric, &flow.later, size)
        push(fabric, &flow.later, time)
        push(fabric, &flow.later, nbytes)
        if not known:
            self._at(time, OTHER, 4 * number + ENTER_MESSAGE)

    def start_now(self, flows):
        """Start flows in this instant, in this order, before any other event."""
        cdef int32_t number
        for number in flows:
            start_flow(&self.fabric, number)

    def enter_now(self, int32_t number, int64_t nbytes):
        """Add a message to a connection in this instant, before any other event."""
        cdef Flow *flow = &self.fabric.flow[number]
        flow.nbytes += nbytes
        push(&self.fabric, &flow.later, self.fabric.now)
        push(&self.fabric, &flow.later, nbytes)
        enter_messages(&self.fabric, number)

    def send(self, src, dst, nbytes, entropy, base_rtt, int64_t time):
        """Start flows at `time` (ps); all arguments int64[K]. Returns the number of the first."""
        cdef const int64_t[::1] from_, to, size, key, rtt
        cdef int64_t first = self.fabric.flows, i
        columns = src, dst, nbytes, entropy, base_rtt
        from_, to, size, key, rtt = (np.ascontiguousarray(column, np.int64) for column in columns)
        for i in range(len(from_)):
            self._new_flow(from_[i], to[i], size[i], key[i] & 0xffffffff, ~key[i] & 0xffffffff, rtt[i])
            self.fabric.flow[first + i].start = time
            self._at(time, START, first + i)
        return first

    # -- time --

    cdef bint _has_next(self) except -1:
        """Whether there is an event; it is present then."""
        cdef EventQueue *queue = &self.fabric.events
        cdef int64_t slot
        cdef int32_t i, code
        cdef int opened
        if present(queue) >= 0:
            return True
        opened = open_slot(queue)
        if opened < 0:
            raise MemoryError("events")
        # The ports of the second slot from here, and the packets at the ports of the next one.
        slot = following_slot(queue, queue.cursor)
        if slot >= 0:
            for i in range(queue.slot[slot & (SLOTS - 1)].count):
                code = queue.slot[slot & (SLOTS - 1)].events[i].code
                _fetch_packet(&self.fabric, code & 7, code >> 3)
            slot = following_slot(queue, slot)
            if slot >= 0:
                for i in range(queue.slot[slot & (SLOTS - 1)].count):
                    code = queue.slot[slot & (SLOTS - 1)].events[i].code
                    if code & 7 <= LINK:
                        __builtin_prefetch(&self.fabric.port[code >> 3])
                        __builtin_prefetch(<char*> &self.fabric.port[code >> 3] + 64)
        return opened

    def run(self, int64_t until, int64_t num=1, int64_t den=1, int64_t slack=-1):
        """Process events up to time `until` (ps); after a flow ends, to the end of its cycle and `slack` cycles.

        A cycle takes `num / den` picoseconds. A slack of -1 ends with the event in which the flow ends. Returns
        (flows, cycles), int64[K] each.
        """
        cdef Fabric *fabric = &self.fabric
        cdef Event event
        cdef int64_t limit = until, cycle, i
        cdef int32_t node
        fabric.done_count = 0
        while self._has_next():
            if present(&fabric.events) > limit:
                break
            take(&fabric.events, &event)
            fabric.now = event.at
            self.events += 1
            if event.kind == PORT:
                transmitted(fabric, event.item)
            elif event.kind == LINK:
                _arrived(fabric, event.item)
            else:
                _rare(fabric, &event)
            if fabric.deferred != NONE:  # behind all events of this instant
                node, fabric.deferred = fabric.deferred, NONE
                if present(&fabric.events) == fabric.now:
                    schedule(&fabric.events, fabric.now, SWITCH, node)
                else:
                    pass_switch(fabric, node)
            if fabric.done_count and limit == until:
                cycle = (fabric.now * den + num - 1) // num
                limit = min(until, (cycle + slack) * num // den) if slack >= 0 else fabric.now - 1
            if fabric.failed:
                self._fail()
        flows, times = np.empty(fabric.done_count, np.int64), np.empty(fabric.done_count, np.int64)
        cdef int64_t[::1] into = flows
        cdef int64_t[::1] when = times
        for i in range(fabric.done_count):
            into[i], when[i] = fabric.done[i], (fabric.flow[fabric.done[i]].end * den + num - 1) // num
        if fabric.done_count and limit < until:
            fabric.now = max(fabric.now, limit)
        fabric.done_count = 0
        return flows, times

    cdef int _fail(self) except -1:
        cdef Fabric *fabric = &self.fabric
        cdef Flow *flow = &fabric.flow[fabric.gave_up]
        if fabric.failed != GAVE_UP:
            raise MemoryError("packets")
        raise SimulationError(
            f"the message of {flow.nbytes} bytes from NPU {flow.src} to NPU {flow.dst} has got no reply for "
            f"{(fabric.now - flow.last_reply) // 1000} ns (network.ethernet.retries): {flow.dropped} packets dropped, "
            f"{flow.errors} lost on links"
        )

    @property
    def now(self):
        return self.fabric.now

    @property
    def next_time(self):
        """The time of the next event; -1 if there is none."""
        return present(&self.fabric.events) if self._has_next() else -1

    # -- results --

    @property
    def counts(self):
        """Packets made, delivered, dropped, lost on links, in the network; hops; bytes of delivered payload; flows."""
        cdef Fabric *fabric = &self.fabric
        return {
            "made": fabric.made, "delivered": fabric.delivered, "dropped": fabric.dropped,
            "errored": fabric.errored, "in_network": fabric.in_network, "hops": fabric.hops,
            "delivered_bytes": fabric.delivered_bytes, "flows": fabric.flows, "events": self.events,
        }

    def port_counters(self):
        """Return the counters of each port, int64[ports] by name."""
        cdef Fabric *fabric = &self.fabric
        table = np.zeros((len(PORT_COUNTERS), fabric.ports), np.int64)
        cdef int64_t[:, ::1] into = table
        cdef Port *port
        cdef int64_t i
        for i in range(fabric.ports):
            port = &fabric.port[i]
            into[0, i], into[1, i] = port.sent_bytes, port.sent_packets
            into[2, i], into[3, i], into[4, i] = port.marked, port.dropped, port.trimmed
            into[5, i], into[8, i] = port.errors, max(port.deepest, port.peak)
        return dict(zip(PORT_COUNTERS, table, strict=True))

    def window_peaks(self):
        """Return int64[ports]: the most bytes of data in the queue of each port since the last call."""
        peaks = np.zeros(self.fabric.ports, np.int64)
        cdef int64_t[::1] into = peaks
        cdef Port *port
        cdef int64_t i
        for i in range(self.fabric.ports):
            port = &self.fabric.port[i]
            into[i], port.deepest = port.peak, max(port.deepest, port.peak)
            port.peak = port.data_bytes
        return peaks

    def flow_table(self, int64_t most=1 << 62, int64_t first=0):
        """Return a column per field of the flows from `first` up to `most`, int64 by name; times in picoseconds."""
        cdef Fabric *fabric = &self.fabric
        table = np.zeros((len(FLOW_COLUMNS), min(most, fabric.flows) - first), np.int64)
        cdef int64_t[:, ::1] into = table
        cdef Flow *flow
        cdef int64_t i, payload = fabric.rules.mtu - fabric.rules.header
        for i in range(into.shape[1]):
            flow = &fabric.flow[first + i]
            into[0, i], into[1, i], into[2, i] = flow.src, flow.dst, flow.nbytes
            into[3, i] = (flow.nbytes + payload - 1) // payload
            into[4, i], into[5, i] = flow.start, flow.end
            into[6, i], into[7, i], into[8, i] = flow.sent_new, flow.sent_again, flow.delivered
            into[9, i], into[10, i], into[11, i], into[12, i] = flow.marked, flow.trimmed, flow.dropped, flow.errors
            into[13, i], into[14, i], into[15, i] = flow.out_of_order, flow.duplicates, flow.timeouts
            into[16, i], into[17, i], into[18, i], into[19, i] = flow.sent_rts, flow.acks, flow.nacks, flow.pulls
            into[20, i], into[21, i] = flow.recovered_packets, flow.final_cumulative
            into[22, i], into[23, i] = flow.final_in_flight, flow.window
            into[24, i], into[25, i] = flow.increased_fair, flow.increased_proportional
            into[26, i], into[27, i] = flow.increased_fast, flow.increased_eta
            into[28, i], into[29, i] = flow.decreased_window, flow.decreased_quick
            into[30, i] = flow.decreased_nack
        return dict(zip(FLOW_COLUMNS, table, strict=True))

    def flow_control(self, int64_t most=1 << 62):
        """Return the present state of the first `most` flows by name, as `Engine.flow_control`; with headers."""
        cdef Fabric *fabric = &self.fabric
        names = ("window", "flight", "rate", "rtt", "active")
        table = np.zeros((len(names), min(most, fabric.flows)))
        cdef double[:, ::1] into = table
        cdef Flow *flow
        cdef int64_t i
        for i in range(into.shape[1]):
            flow = &fabric.flow[i]
            into[0, i] = <double> flow.window if fabric.rules.sender_cc else 0.0
            into[1, i], into[2, i] = <double> flow.in_flight, <double> fabric.rules.line
            into[3, i], into[4, i] = <double> flow.last_rtt, flow.started and not flow.finished
        return dict(zip(names, table, strict=True))

    def resent(self):
        """Return how many data packets were sent again."""
        cdef int64_t total = 0, i
        for i in range(self.fabric.flows):
            total += self.fabric.flow[i].sent_again
        return total


cdef void _arrived(Fabric *fabric, int32_t number) noexcept nogil:
    """The first packet on a link has arrived at its end."""
    cdef Port *port = &fabric.port[number]
    cdef int32_t chosen = port.link.head
    cdef Packet *packet = &fabric.packet[chosen]
    port.link.head = packet.next
    if packet.next == NONE:
        port.link.tail = NONE
    if port.lossy and _lost(fabric, port, chosen):
        pass
    elif not port.to_host:
        enter_switch(fabric, port.peer, chosen)
    else:
        fabric.delivered += 1
        if packet.kind == DATA or packet.kind == RTS:
            take_data(fabric, chosen)
        else:
            take_reply(fabric, chosen)
    if port.link.head != NONE:
        at(fabric, fabric.now + fabric.packet[port.link.head].gap, LINK, number)


cdef bint _lost(Fabric *fabric, Port *port, int32_t chosen) noexcept nogil:
    """Whether a packet was lost on the link by which it arrives, and is gone."""
    cdef Packet *packet = &fabric.packet[chosen]
    if draw(fabric) / 2147483648.0 >= -expm1(port.survival[0] + port.survival[1] * packet.size):
        return False
    if packet.kind == DATA and not packet.flags & TRIMMED:
        fabric.flow[packet.flow].errors += 1
    elif packet.kind == ACK:
        keep_ack(fabric, packet.flags & OF_RTS)
    port.errors += 1
    fabric.errored += 1
    free_packet(fabric, chosen)
    return True


cdef void _rare(Fabric *fabric, const Event *event) noexcept nogil:
    if event.kind == NIC:
        nic_free(fabric, event.item)
    elif event.kind == SWITCH:
        pass_switch(fabric, event.item)
    elif event.kind == START:
        start_flow(fabric, event.item)
    elif event.kind == TIMEOUT:
        timeout(fabric, event.item)
    elif event.kind == PACE:
        pace(fabric, event.item)
    elif event.item & 3 == SEND_PROBE:
        send_probe(fabric, event.item >> 2)
    elif event.item & 3 == ADAPT:
        adapt(fabric, event.item >> 2)
    elif event.item & 3 == PULL_STALLED:
        pull_stalled(fabric, event.item >> 2)
    else:
        enter_messages(fabric, event.item >> 2)


cdef inline void _fetch_packet(Fabric *fabric, int32_t kind, int32_t item) noexcept nogil:
    """Fetch the packet of an event."""
    cdef int32_t head = NONE
    if kind == LINK:
        head = fabric.port[item].link.head
    elif kind == PORT:
        head = fabric.port[item].data_head
    if head != NONE:
        __builtin_prefetch(&fabric.packet[head])
