"""The engine of the Ethernet backend: an event loop over packets, in C; Python code runs per batch of messages."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import numpy as np

from pyxsim.errors import SimulationError
from pyxsim.network.ethernet.engine_tables cimport (
    flow_control, flow_table, flow_times, port_counters, window_peaks,
)
from pyxsim.network.ethernet.event_queue cimport (
    Event, EventQueue, open_slot, present, queue_free, queue_restore, queue_setup, queue_state, schedule, take,
)
from pyxsim.network.ethernet.hosts cimport arrived, begin_flow, due, timer
from pyxsim.network.ethernet.libc_random cimport seed_libc
from pyxsim.network.ethernet.nic_slots cimport enter_nic, leave_nic
from pyxsim.network.ethernet.pulls cimport take_turn
from pyxsim.network.ethernet.records cimport (
    ARRIVE, CLASSES, DATA_CLASS, DUE, GAVE_UP, IDLE, LOSSY, NONE, PINT, PORT_WAKE, START, TIMER, TO_SWITCH, WAKE,
    Fabric, Flow, FlowTimes, Flowlet, Medium, NicClasses, Node, Packet, PintPort, Port, Puller, Telemetry,
)
from pyxsim.network.ethernet.route_choice cimport ecmp_port, nic_port
from pyxsim.network.ethernet.switching cimport refresh, serve, transmitted
from pyxsim.network.ethernet.transport cimport Transport
from pyxsim.raw cimport aligned, loaded, saved

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept nogil

cdef extern from "<stdlib.h>" nogil:
    void *aligned_alloc(size_t alignment, size_t size)

cdef class Engine:
    """Ports, switches and flows (docs/ethernet.md).

    Parameters
    ----------
    config
        An `EthernetConfig`: arrays of ports and nodes, the routes, the rules.
    transport
        Congestion control of all flows.
    """

    cdef Fabric fabric
    cdef readonly Transport transport
    cdef object keep           # the arrays that the fabric points to
    cdef object config
    cdef const int32_t[::1] nic_of
    cdef readonly int64_t events

    def __cinit__(self):
        memset(&self.fabric, 0, sizeof(Fabric))

    def __init__(self, config, Transport transport):
        cdef Fabric *fabric = &self.fabric
        cdef Port *port
        cdef int64_t i, k
        cdef const int64_t[:, ::1] ports = config.ports
        cdef const double[::1] pmax = config.pmax, alpha = config.alpha
        cdef const int64_t[:, ::1] nodes = config.nodes  # npu, uplink, group, pool, seed
        cdef const int32_t[::1] group = config.group
        cdef const int32_t[::1] down = config.down
        self.keep = (group, down)
        self.nic_of = config.home
        self.transport = transport
        fabric.rules = config.rules
        if config.streams is not None:
            fabric.streams = config.streams
        fabric.ports, fabric.nodes = len(ports), len(nodes)
        fabric.port = <Port*> aligned_alloc(64, <size_t> max(len(ports), 1) * sizeof(Port))
        fabric.medium = <Medium*> calloc(max(len(ports), 1), sizeof(Medium))
        fabric.node = <Node*> calloc(max(len(nodes), 1), sizeof(Node))
        if fabric.rules.classes > 1:
            fabric.nic = <NicClasses*> calloc(max(len(ports), 1), sizeof(NicClasses))
        if (fabric.port == NULL or (fabric.rules.classes > 1 and fabric.nic == NULL)
                or fabric.medium == NULL or fabric.node == NULL or queue_setup(&fabric.events, config.shift)):
            raise MemoryError("ports and switches")
        memset(fabric.port, 0, <size_t> max(len(ports), 1) * sizeof(Port))
        fabric.unused_packet = fabric.unused_telemetry = NONE
        fabric.group, fabric.down, fabric.groups = &group[0], &down[0], config.route.shape[1]
        for i in range(fabric.ports):
            port = &fabric.port[i]
            for k in range(CLASSES):
                port.queue[k].head = port.queue[k].tail = NONE
            port.sending, port.last_slot = NONE, 0
            port.cause = port.root = NONE
            port.node, port.peer, port.reverse = ports[i, 0], ports[i, 1], ports[i, 2]
            port.delay = ports[i, 5]
            port.kmin, port.kmax, port.headroom = ports[i, 6], ports[i, 7], ports[i, 8]
            port.pmax, port.alpha = pmax[i], alpha[i]
            port.traits = TO_SWITCH if nodes[port.peer, 0] == NONE else 0
            fabric.medium[i].random = (
                <uint64_t> nodes[port.node, 4] ^ (<uint64_t> (i + 1) * <uint64_t> 0xD1342543DE82EF95)
            )
        for i in range(fabric.nodes):
            fabric.node[i].npu, fabric.node[i].uplink, fabric.node[i].group = nodes[i, 0], nodes[i, 1], nodes[i, 2]
            fabric.node[i].pool, fabric.node[i].random = nodes[i, 3], <uint64_t> nodes[i, 4]
        if fabric.rules.pulls:
            fabric.puller = <Puller*> calloc(max(len(ports), 1), sizeof(Puller))
            if fabric.puller == NULL:
                raise MemoryError("pullers")
            for i in range(fabric.ports):
                fabric.puller[i].first = fabric.puller[i].last = NONE
        if fabric.rules.telemetry == PINT:
            seed_libc(&fabric.libc_random, <int32_t> fabric.rules.pint_seed)
            fabric.pint = <PintPort*> calloc(max(len(ports), 1), sizeof(PintPort))
            if fabric.pint == NULL:
                raise MemoryError("telemetry")
        if fabric.rules.flowlets:  # memory that no flow uses costs nothing
            fabric.flowlet = <Flowlet*> calloc(fabric.nodes * fabric.rules.flowlets, sizeof(Flowlet))
            if fabric.flowlet == NULL:
                raise MemoryError("flowlets")
        self.set_links(config)
        transport.bind(fabric)

    def __dealloc__(self):
        cdef int64_t i
        cdef Fabric *fabric = &self.fabric
        for i in range(fabric.ports):
            if fabric.port != NULL:
                free(fabric.port[i].slot)
                free(fabric.port[i].ready)
        free(fabric.port)
        free(fabric.medium)
        free(fabric.nic)
        free(fabric.puller)
        free(fabric.pint)
        free(fabric.node)
        free(fabric.packet)
        free(fabric.flow)
        free(fabric.times)
        free(fabric.telemetry)
        free(fabric.flowlet)
        free(fabric.bits)
        free(fabric.done)
        free(fabric.frame)
        queue_free(&fabric.events)

    # -- checkpoints --

    def __getstate__(self):
        cdef Fabric *fabric = &self.fabric
        cdef Port *port
        cdef int64_t i
        slots = []
        for i in range(fabric.ports):
            port = &fabric.port[i]
            if port.slot_capacity:
                slots.append((
                    i, saved(port.slot, port.slot_capacity, sizeof(int32_t)),
                    saved(port.ready, (port.slot_capacity + 63) >> 6, sizeof(uint64_t)),
                ))
        memory = (
            saved(fabric.port, fabric.ports, sizeof(Port)),
            saved(fabric.node, fabric.nodes, sizeof(Node)),
            saved(fabric.packet, fabric.packets, sizeof(Packet)),
            saved(fabric.flow, fabric.flows, sizeof(Flow)),
            saved(fabric.telemetry, fabric.telemetries, sizeof(Telemetry)),
            saved(fabric.bits, fabric.bit_words, sizeof(uint64_t)),
            queue_state(&fabric.events),
            saved(fabric.medium, fabric.ports, sizeof(Medium)),
            saved(fabric.flowlet, fabric.nodes * fabric.rules.flowlets, sizeof(Flowlet)),
            saved(fabric.nic, fabric.ports, sizeof(NicClasses)),
            saved(fabric.frame, fabric.frames, 3 * sizeof(int64_t)),
            saved(fabric.puller, fabric.ports if fabric.rules.pulls else 0, sizeof(Puller)),
            saved(fabric.times, fabric.flows if fabric.rules.attribution else 0, sizeof(FlowTimes)),
            saved(fabric.pint, fabric.ports if fabric.rules.telemetry == PINT else 0, sizeof(PintPort)),
        )
        numbers = saved(fabric, 1, sizeof(Fabric))
        return self.config, self.transport, numbers, memory, slots, self.events

    def __setstate__(self, state):
        cdef Fabric *fabric = &self.fabric
        cdef Fabric old
        cdef const char *data
        cdef int64_t i
        config, transport, numbers, memory, slots, events = state
        self.__init__(config, transport)
        self.events = events
        if len(numbers) != sizeof(Fabric):
            raise ValueError("the state of another version")
        data = numbers
        memcpy(&old, data, sizeof(Fabric))
        free(fabric.port)
        free(fabric.medium)
        free(fabric.nic)
        free(fabric.puller)
        free(fabric.pint)
        free(fabric.node)
        free(fabric.flowlet)
        queue_free(&fabric.events)
        # The counters are those of `old`; every address is new.
        old.route, old.set_start, old.set_port = fabric.route, fabric.set_start, fabric.set_port
        old.group, old.down = fabric.group, fabric.down
        old.done, old.done_count, old.done_capacity = NULL, 0, 0
        old.port, old.node = <Port*> aligned(memory[0]), <Node*> loaded(memory[1])
        old.medium, old.flowlet = <Medium*> loaded(memory[7]), <Flowlet*> loaded(memory[8])
        old.nic = <NicClasses*> loaded(memory[9]) if memory[9] else NULL
        old.puller = <Puller*> loaded(memory[11]) if memory[11] else NULL
        old.pint = <PintPort*> loaded(memory[13]) if memory[13] else NULL
        old.frame, old.frame_capacity = <int64_t*> loaded(memory[10]), old.frames
        old.packet, old.packet_capacity = <Packet*> loaded(memory[2]), old.packets
        old.times = <FlowTimes*> loaded(memory[12]) if memory[12] else NULL
        old.flow, old.flow_capacity = <Flow*> loaded(memory[3]), old.flows
        old.telemetry, old.telemetry_capacity = <Telemetry*> loaded(memory[4]), old.telemetries
        old.bits, old.bit_capacity = <uint64_t*> loaded(memory[5]), old.bit_words
        fabric[0] = old
        queue_restore(&fabric.events, memory[6])
        for i in range(fabric.ports):
            fabric.port[i].slot, fabric.port[i].ready = NULL, NULL
        for i, slot, ready in slots:
            fabric.port[i].slot, fabric.port[i].ready = <int32_t*> loaded(slot), <uint64_t*> loaded(ready)

    # -- links --

    def set_links(self, config):
        """Take rates and losses of links, and the routes, from a configuration of the same network.

        Packets in transmission keep their time. Flows at a NIC port that no packet survives take another one, if their
        route has one.
        """
        cdef Fabric *fabric = &self.fabric
        cdef const int64_t[:, ::1] ports = config.ports
        cdef const double[:, ::1] survival = config.survival
        cdef const int32_t[:, ::1] route = config.route
        cdef const int32_t[::1] set_start = config.set_start
        cdef const int32_t[::1] set_port = config.set_port
        cdef Port *port
        cdef Flow *flow
        cdef int32_t i, other
        self.config = config
        self.keep = (*self.keep[:2], route, set_start, set_port)
        fabric.route, fabric.set_start, fabric.set_port = &route[0, 0], &set_start[0], &set_port[0]
        for i in range(fabric.ports):
            port = &fabric.port[i]
            if port.picoseconds != ports[i, 3] or port.per_bytes != ports[i, 4]:
                port.picoseconds, port.per_bytes = ports[i, 3], ports[i, 4]
                port.rate = <int64_t> (8e12 * port.per_bytes / port.picoseconds + 0.5)
                port.known_size[0] = port.known_size[1] = 0
            fabric.medium[i].survival[0], fabric.medium[i].survival[1] = survival[i, 0], survival[i, 1]
            port.traits &= ~LOSSY
            if survival[i, 0] or survival[i, 1]:
                port.traits |= LOSSY
        for i in range(fabric.flows):
            flow = &fabric.flow[i]
            if flow.slot == NONE or fabric.medium[flow.port].survival[0] > -INFINITY:
                continue
            other = nic_port(fabric, self.nic_of[flow.src], flow, flow.entropy)
            if other != flow.port:
                leave_nic(fabric, flow)
                flow.port = other
                if enter_nic(fabric, i):
                    raise MemoryError("flows")
                refresh(fabric, i)

    # -- messages --

    def send(self, src, dst, nbytes, entropy, base_rtt, int64_t at, nic, traffic_class=DATA_CLASS):
        """Start flows at time `at` (ps); other arguments are int64[K]. Returns the number of the first.

        `nic`: which port of its NIC a flow uses, modulo those on shortest routes; -1: by entropy.
        """
        cdef const int64_t[::1] from_, to, size, key, rtt, nics, classes
        cdef Fabric *fabric = &self.fabric
        cdef int64_t first = fabric.flows, count, i, capacity
        cdef Flow *flow
        cdef Flow *larger
        cdef FlowTimes *times
        columns = src, dst, nbytes, entropy, base_rtt, nic, np.broadcast_to(traffic_class, np.shape(src))
        from_, to, size, key, rtt, nics, classes = (np.ascontiguousarray(column, np.int64) for column in columns)
        count = len(from_)
        if fabric.flows + count > fabric.flow_capacity:
            capacity = max(2 * fabric.flow_capacity, fabric.flows + count)
            larger = <Flow*> realloc(fabric.flow, <size_t> capacity * sizeof(Flow))
            if larger == NULL:
                raise MemoryError(f"{capacity} flows")
            fabric.flow, fabric.flow_capacity = larger, capacity
            if fabric.rules.attribution:
                times = <FlowTimes*> realloc(fabric.times, <size_t> capacity * sizeof(FlowTimes))
                if times == NULL:
                    raise MemoryError(f"{capacity} flows")
                fabric.times = times
        memset(&fabric.flow[first], 0, <size_t> count * sizeof(Flow))
        if fabric.rules.attribution:
            memset(&fabric.times[first], 0, <size_t> count * sizeof(FlowTimes))
        for i in range(count):
            flow = &fabric.flow[first + i]
            flow.src, flow.dst, flow.nbytes = from_[i], to[i], size[i]
            flow.packets = (size[i] + fabric.rules.mtu - 1) // fabric.rules.mtu
            flow.last_payload = size[i] - (flow.packets - 1) * fabric.rules.mtu
            flow.entropy = <uint32_t> key[i]
            flow.slot = flow.nack_of = NONE
            flow.start, flow.end = at, -1
            flow.cls = classes[i]
            flow.base_rtt, flow.port = rtt[i], nics[i]
            if schedule(&fabric.events, at, START, first + i):
                raise MemoryError("events")
        fabric.flows += count
        return first

    cdef void _start(self, int32_t number) noexcept:
        cdef Fabric *fabric = &self.fabric
        cdef Flow *flow = &fabric.flow[number]
        flow.port = nic_port(fabric, self.nic_of[flow.src], flow, flow.entropy if flow.port < 0 else flow.port)
        flow.line = fabric.port[flow.port].rate
        flow.rate = <double> flow.line
        flow.bdp = <int64_t> (<double> flow.base_rtt * flow.line / 8e12)
        flow.window = <double> flow.bdp
        begin_flow(fabric, self.transport, number)

    # -- time --

    cdef bint _has_next(self) except -1:
        """Whether there is an event; it is present then."""
        cdef EventQueue *queue = &self.fabric.events
        cdef int32_t i
        cdef int opened
        if present(queue) >= 0:
            return True
        opened = open_slot(queue)
        if opened < 0:
            raise MemoryError("events")
        for i in range(queue.batch_next, queue.batch_count):
            _fetch_first(&self.fabric, queue.batch[i].code & 7, queue.batch[i].code >> 3)
        for i in range(queue.batch_next, queue.batch_count):
            _fetch_second(&self.fabric, queue.batch[i].code & 7, queue.batch[i].code >> 3)
        return opened

    def run(self, int64_t until, int64_t num, int64_t den, int64_t slack):
        """Process events up to time `until` (ps); after a message arrives, to the end of its cycle and `slack` cycles.

        A cycle takes `num / den` picoseconds. Returns (messages, cycles), int64[K] each.
        """
        cdef Fabric *fabric = &self.fabric
        cdef Event event
        cdef int64_t limit = until, cycle
        fabric.done_count = 0
        while self._has_next():
            if present(&fabric.events) > limit:
                break
            take(&fabric.events, &event)
            fabric.now = event.at
            self.events += 1
            if event.kind == IDLE:
                transmitted(fabric, event.item)
            elif event.kind == ARRIVE:
                arrived(fabric, self.transport, event.item)
            elif event.kind == WAKE:
                if fabric.flow[event.item].wake_at == event.at:
                    fabric.flow[event.item].wake_at = 0
                    refresh(fabric, event.item)
            elif event.kind == TIMER:
                timer(fabric, self.transport, event.item)
            elif event.kind == DUE:
                due(fabric, self.transport, event.item)
            elif event.kind == PORT_WAKE:
                if fabric.port[event.item].wake_at == event.at:
                    fabric.port[event.item].wake_at = 0
                    serve(fabric, event.item)
            elif event.kind == START:
                self._start(event.item)
            else:
                take_turn(fabric, event.item)
            if fabric.done_count == 1 and limit == until:
                cycle = (fabric.now * den + num - 1) // num
                limit = min(until, (cycle + slack) * num // den)
            if fabric.failed:
                self._fail()
            if self.transport.error is not None:
                raise self.transport.error
        messages = np.empty(fabric.done_count, np.int64)
        cdef int64_t[::1] into = messages
        cdef int64_t i
        times = np.empty(fabric.done_count, np.int64)
        cdef int64_t[::1] at = times
        for i in range(fabric.done_count):
            into[i], at[i] = fabric.done[i], (fabric.flow[fabric.done[i]].end * den + num - 1) // num
        fabric.done_count = 0
        if len(messages):
            fabric.now = limit if limit < until else fabric.now
        return messages, times

    cdef int _fail(self) except -1:
        cdef Fabric *fabric = &self.fabric
        cdef Flow *flow = &fabric.flow[fabric.gave_up]
        if fabric.failed != GAVE_UP:
            raise MemoryError("packets")
        raise SimulationError(
            f"the message of {flow.nbytes} bytes from NPU {flow.src} to NPU {flow.dst} timed out {flow.expiries} times "
            f"in a row (network.ethernet.retries): {flow.dropped} packets dropped, {flow.errors} lost on links"
        )

    def wait(self, int64_t at):
        """Advance time to `at` (ps); nothing happens before it."""
        self.fabric.now = max(self.fabric.now, at)

    @property
    def now(self):
        return self.fabric.now

    @property
    def pending(self):
        """Whether an event is scheduled."""
        return self._has_next()

    @property
    def next_time(self):
        """The time of the next event; -1 if there is none."""
        return present(&self.fabric.events) if self._has_next() else -1

    # -- pauses --

    def pauses(self):
        """Return the paused ports whose receiver has not resumed them, and what holds them.

        Returns
        -------
        paused
            list of (port, class).
        held
            list of (port, class, wanted): packets that came by a paused port wait for the port `wanted`.
        """
        cdef Fabric *fabric = &self.fabric
        cdef Port *port
        cdef int64_t i
        cdef int32_t cls, packet, before
        cdef uint32_t both
        paused, held = [], []
        for i in range(fabric.ports):
            port = &fabric.port[i]
            both = port.paused & port.pausing
            for cls in range(CLASSES):
                if both >> cls & 1:
                    paused.append((i, cls))
                packet, before = port.queue[cls].head if port.waiting >> cls & 1 else NONE, NONE
                while packet != NONE:
                    if fabric.packet[packet].port != before:
                        before = fabric.packet[packet].port
                        if before != NONE and (fabric.port[before].paused & fabric.port[before].pausing) >> cls & 1:
                            held.append((before, cls, i))
                    packet = fabric.packet[packet].next
        return paused, held

    def pfc_frames(self):
        """Return int64[K, 3], a row per PFC frame: time (ps), the port that it stops or starts, whether it stops it."""
        cdef int64_t i, k
        table = np.empty((self.fabric.frames, 3), np.int64)
        cdef int64_t[:, ::1] into = table
        for i in range(self.fabric.frames):
            for k in range(3):
                into[i, k] = self.fabric.frame[3 * i + k]
        return table

    def pause_tree(self):
        """Return what pauses are due to: columns, int64[ports] by name; times in picoseconds.

        Returns
        -------
        cause
            The port of the next switch that the last pause of a port is due to: the one that the packet waits for
            which fills the buffer. -1: never paused.
        root
            The end of the chain of causes when the port was paused: a port that was not paused itself.
        caused_time
            Time of the pauses whose root is the port.
        """
        cdef Fabric *fabric = &self.fabric
        names = ("cause", "root", "caused_time")
        table = np.zeros((len(names), fabric.ports), np.int64)
        cdef int64_t[:, ::1] into = table
        cdef Port *port
        cdef int64_t i
        for i in range(fabric.ports):
            port = &fabric.port[i]
            into[0, i], into[1, i] = port.cause, port.root
            into[2, i] += port.caused_time
            if port.paused:
                into[2, port.root] += fabric.now - port.paused_since
        return dict(zip(names, table, strict=True))

    # -- results --

    @property
    def counts(self):
        """Packets made, delivered, dropped, lost on links, in the network; hops; bytes of delivered messages; flows."""
        cdef Fabric *fabric = &self.fabric
        return {
            "made": fabric.made, "delivered": fabric.delivered, "dropped": fabric.dropped,
            "errored": fabric.errored, "in_network": fabric.in_network, "hops": fabric.hops,
            "delivered_bytes": fabric.delivered_bytes, "flows": fabric.flows, "events": self.events,
        }

    def port_counters(self):
        """Return the counters of each port, int64[ports] by name."""
        return port_counters(&self.fabric)

    def window_peaks(self):
        """Return int64[ports]: the most bytes in the queue of one class of each port since the last call."""
        return window_peaks(&self.fabric)

    def flow_table(self, int64_t most=1 << 62):
        """Return a column per field of the first `most` flows, int64 by name; times in picoseconds."""
        return flow_table(&self.fabric, most)

    def flow_times(self, int64_t most=1 << 62):
        """Return where the time of the first `most` flows went at their senders: picoseconds, int64 by name."""
        return flow_times(&self.fabric, most)

    def flow_control(self, int64_t most=1 << 62):
        """Return the present state of the first `most` flows by name.

        "window" and "flight" (payload bytes), "rate" (bits per second), "rtt" (the last one, picoseconds; 0: none),
        "active" (1 from the start of the flow until its last acknowledgment).
        """
        return flow_control(&self.fabric, most)

    def ecmp_paths(self, int64_t most, int64_t hops):
        """Return int32[2 x hops, flows]: ports of data of the first `most` flows by ECMP, then of replies; -1: none."""
        cdef Fabric *fabric = &self.fabric
        table = np.full((2 * hops, min(most, fabric.flows)), NONE, np.int32)
        cdef int32_t[:, ::1] into = table
        cdef Flow *flow
        cdef int64_t i
        for i in range(into.shape[1]):
            flow = &fabric.flow[i]
            self._ecmp_path(into[:hops, i], flow.src, flow.dst, flow.entropy, flow.port)
            self._ecmp_path(into[hops:, i], flow.dst, flow.src, flow.entropy >> 16 | flow.entropy << 16, NONE)
        return table

    cdef void _ecmp_path(self, int32_t[:] into, int32_t src, int32_t dst, uint32_t entropy, int32_t first):
        """Write the ports on a path; it begins at port `first`, or at the one that ECMP selects."""
        cdef Fabric *fabric = &self.fabric
        cdef int32_t node = self.nic_of[src], number = first
        cdef int64_t k
        for k in range(into.shape[0]):
            if k or first == NONE:
                number = ecmp_port(fabric, node, src, dst, entropy)
            if number == NONE:
                return
            into[k] = number
            node = fabric.port[number].peer
            if fabric.node[node].npu == dst:
                return

    def resent(self):
        """Return how many data packets were sent again."""
        cdef int64_t total = 0, i
        for i in range(self.fabric.flows):
            total += self.fabric.flow[i].resent
        return total


cdef inline void _fetch_first(Fabric *fabric, int32_t kind, int32_t item) noexcept nogil:
    """Fetch what an event will touch first: together, the waits for memory overlap."""
    if kind == ARRIVE:
        __builtin_prefetch(&fabric.packet[item])
    elif kind == IDLE:
        __builtin_prefetch(&fabric.port[item])
        __builtin_prefetch(&fabric.port[item].queue[DATA_CLASS])


cdef inline void _fetch_second(Fabric *fabric, int32_t kind, int32_t item) noexcept nogil:
    """Fetch what an event will touch next."""
    cdef int32_t head
    if kind == ARRIVE:
        __builtin_prefetch(&fabric.port[fabric.packet[item].port])
    elif kind == IDLE:
        head = fabric.port[item].queue[DATA_CLASS].head
        if head != NONE:
            __builtin_prefetch(&fabric.packet[head])
