"""The engine of the Ethernet backend: an event loop over packets, in C; Python code runs per batch of messages."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

import numpy as np

from pyxsim.network.ethernet.event_queue cimport Event, heap_pop, peek, queue_setup, schedule
from pyxsim.network.ethernet.hosts cimport arrived, begin_flow, timer
from pyxsim.network.ethernet.records cimport (
    ARRIVE, CLASSES, IDLE, NONE, START, TIMER, WAKE, Fabric, Flow, Node, Port,
)
from pyxsim.network.ethernet.switching cimport nic_port, refresh, transmitted
from pyxsim.network.ethernet.transport cimport Transport

cdef extern from "<stdlib.h>" nogil:
    void *aligned_alloc(size_t alignment, size_t size)

FLOW_COUNTERS = ("sent", "resent", "marked", "trimmed", "dropped", "out_of_order", "duplicates", "timeouts")
PORT_COUNTERS = ("sent_bytes", "sent_packets", "marked", "dropped", "trimmed", "pauses", "paused_time", "peak")


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
    cdef const int32_t[::1] nic_of
    cdef readonly int64_t events

    def __cinit__(self):
        memset(&self.fabric, 0, sizeof(Fabric))

    def __init__(self, config, Transport transport):
        cdef Fabric *fabric = &self.fabric
        cdef Port *port
        cdef int64_t i, k
        cdef const int64_t[:, ::1] ports = config.ports
        cdef const double[::1] pmax = config.pmax
        cdef const int64_t[:, ::1] nodes = config.nodes  # npu, uplink, group, pool, seed
        cdef const int32_t[:, ::1] route = config.route
        cdef const int32_t[::1] set_start = config.set_start
        cdef const int32_t[::1] set_port = config.set_port
        cdef const int32_t[::1] group = config.group
        cdef const int32_t[::1] down = config.down
        self.keep = (route, set_start, set_port, group, down)
        self.nic_of = config.home
        self.transport = transport
        fabric.rules = config.rules
        fabric.ports, fabric.nodes = len(ports), len(nodes)
        fabric.port = <Port*> aligned_alloc(64, <size_t> max(len(ports), 1) * sizeof(Port))
        fabric.node = <Node*> calloc(max(len(nodes), 1), sizeof(Node))
        if fabric.port == NULL or fabric.node == NULL or queue_setup(&fabric.events, config.shift):
            raise MemoryError("ports and switches")
        memset(fabric.port, 0, <size_t> max(len(ports), 1) * sizeof(Port))
        fabric.unused_packet = fabric.unused_telemetry = NONE
        fabric.route, fabric.set_start, fabric.set_port = &route[0, 0], &set_start[0], &set_port[0]
        fabric.group, fabric.down, fabric.groups = &group[0], &down[0], route.shape[1]
        for i in range(fabric.ports):
            port = &fabric.port[i]
            for k in range(CLASSES):
                port.queue[k].head = port.queue[k].tail = NONE
            port.sending, port.last_slot = NONE, 0
            port.node, port.peer, port.reverse = ports[i, 0], ports[i, 1], ports[i, 2]
            port.picoseconds, port.per_bytes, port.delay = ports[i, 3], ports[i, 4], ports[i, 5]
            port.kmin, port.kmax, port.headroom = ports[i, 6], ports[i, 7], ports[i, 8]
            port.pmax = pmax[i]
            port.from_switch, port.to_switch = nodes[port.node, 0] == NONE, nodes[port.peer, 0] == NONE
            port.rate = <int64_t> (8e12 * port.per_bytes / port.picoseconds + 0.5)
        for i in range(fabric.nodes):
            fabric.node[i].npu, fabric.node[i].uplink, fabric.node[i].group = nodes[i, 0], nodes[i, 1], nodes[i, 2]
            fabric.node[i].pool, fabric.node[i].random = nodes[i, 3], <uint64_t> nodes[i, 4]
        transport.bind(fabric)

    def __dealloc__(self):
        cdef int64_t i
        cdef Fabric *fabric = &self.fabric
        for i in range(fabric.ports):
            if fabric.port != NULL:
                free(fabric.port[i].slot)
                free(fabric.port[i].ready)
        free(fabric.port)
        free(fabric.node)
        free(fabric.packet)
        free(fabric.flow)
        free(fabric.telemetry)
        free(fabric.bits)
        free(fabric.done)
        free(fabric.events.near_events.items)
        free(fabric.events.far_events.items)
        free(fabric.events.pool)
        free(fabric.events.slot)
        free(fabric.events.filled)

    # -- messages --

    def send(self, src, dst, nbytes, entropy, base_rtt, int64_t at):
        """Start flows at time `at` (ps); all arguments int64[K]. Returns the number of the first."""
        cdef const int64_t[::1] from_, to, size, key, rtt
        cdef Fabric *fabric = &self.fabric
        cdef int64_t first = fabric.flows, count, i, capacity
        cdef Flow *flow
        cdef Flow *larger
        columns = src, dst, nbytes, entropy, base_rtt
        from_, to, size, key, rtt = (np.ascontiguousarray(column, np.int64) for column in columns)
        count = len(from_)
        if fabric.flows + count > fabric.flow_capacity:
            capacity = max(2 * fabric.flow_capacity, fabric.flows + count)
            larger = <Flow*> realloc(fabric.flow, <size_t> capacity * sizeof(Flow))
            if larger == NULL:
                raise MemoryError(f"{capacity} flows")
            fabric.flow, fabric.flow_capacity = larger, capacity
        memset(&fabric.flow[first], 0, <size_t> count * sizeof(Flow))
        for i in range(count):
            flow = &fabric.flow[first + i]
            flow.src, flow.dst, flow.nbytes = from_[i], to[i], size[i]
            flow.packets = (size[i] + fabric.rules.mtu - 1) // fabric.rules.mtu
            flow.last_payload = size[i] - (flow.packets - 1) * fabric.rules.mtu
            flow.entropy = <uint32_t> key[i]
            flow.slot = flow.nack_of = NONE
            flow.start, flow.end = at, -1
            flow.cls = 3
            flow.base_rtt = rtt[i]
            if schedule(&fabric.events, at, START, first + i):
                raise MemoryError("events")
        fabric.flows += count
        return first

    cdef void _start(self, int32_t number) noexcept:
        cdef Fabric *fabric = &self.fabric
        cdef Flow *flow = &fabric.flow[number]
        flow.port = nic_port(fabric, self.nic_of[flow.src], flow)
        flow.line = fabric.port[flow.port].rate
        flow.rate = <double> flow.line
        flow.bdp = <int64_t> (<double> flow.base_rtt * flow.line / 8e12)
        flow.window = <double> flow.bdp
        begin_flow(fabric, self.transport, number)

    # -- time --

    def run(self, int64_t until, int64_t num, int64_t den, int64_t slack):
        """Process events up to time `until` (ps); after a message arrives, to the end of its cycle and `slack` cycles.

        A cycle takes `num / den` picoseconds. Returns (messages, cycles), int64[K] each.
        """
        cdef Fabric *fabric = &self.fabric
        cdef Event event
        cdef int64_t limit = until, cycle
        fabric.done_count = 0
        while peek(&fabric.events):
            if fabric.events.near_events.items[0].at > limit:
                break
            heap_pop(&fabric.events.near_events, &event)
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
            else:
                self._start(event.item)
            if fabric.done_count == 1 and limit == until:
                cycle = (fabric.now * den + num - 1) // num
                limit = min(until, (cycle + slack) * num // den)
            if fabric.failed:
                raise MemoryError("packets")
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

    def wait(self, int64_t at):
        """Advance time to `at` (ps); nothing happens before it."""
        self.fabric.now = max(self.fabric.now, at)

    @property
    def now(self):
        return self.fabric.now

    @property
    def pending(self):
        """Whether an event is scheduled."""
        return bool(peek(&self.fabric.events))

    @property
    def next_time(self):
        """The time of the next event; -1 if there is none."""
        return self.fabric.events.near_events.items[0].at if peek(&self.fabric.events) else -1

    # -- results --

    @property
    def counts(self):
        """Packets made, delivered, dropped and in the network; packet-hops; bytes of delivered messages; flows."""
        cdef Fabric *fabric = &self.fabric
        return {
            "made": fabric.made, "delivered": fabric.delivered, "dropped": fabric.dropped,
            "in_network": fabric.in_network, "hops": fabric.hops, "delivered_bytes": fabric.delivered_bytes,
            "flows": fabric.flows, "events": self.events,
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
            into[5, i], into[7, i] = port.pauses, port.peak
            into[6, i] = port.paused_time + (fabric.now - port.paused_since if port.paused else 0)
        return dict(zip(PORT_COUNTERS, table, strict=True))

    def flow_table(self):
        """Return a column per field of the flows, int64[flows] by name; times in picoseconds."""
        cdef Fabric *fabric = &self.fabric
        names = ("src", "dst", "bytes", "packets", "start", "end", *FLOW_COUNTERS)
        table = np.zeros((len(names), fabric.flows), np.int64)
        cdef int64_t[:, ::1] into = table
        cdef Flow *flow
        cdef int64_t i
        for i in range(fabric.flows):
            flow = &fabric.flow[i]
            into[0, i], into[1, i], into[2, i], into[3, i] = flow.src, flow.dst, flow.nbytes, flow.packets
            into[4, i], into[5, i] = flow.start, flow.end
            into[6, i], into[7, i], into[8, i], into[9, i] = flow.sent, flow.resent, flow.marked, flow.trimmed
            into[10, i], into[11, i], into[12, i] = flow.dropped, flow.out_of_order, flow.duplicates
            into[13, i] = flow.timeouts
        return dict(zip(names, table, strict=True))
