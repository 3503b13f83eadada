"""A slow second implementation of docs/ethernet.md: NICs, switches, DCTCP and DCQCN, one event after the other.

Plain Python: events are functions in a heap, flights are sums over packets, routes are searched for each packet. The
numbers of ports and nodes are those of the engine (links, then uplinks and downlinks of NPUs), and so are the random
streams: a splitmix64 for each node and for each link.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from tests.network.ethernet.slow_records import (
    ACK,
    BULK,
    CNP,
    CONTROL,
    DATA,
    NACK,
    PAUSE,
    RESUME,
    WORD,
    Flow,
    Link,
    Node,
    Packet,
    Port,
    Rules,
    SplitMix,
    address,
    murmur3,
)
from tests.network.ethernet.slow_transports import SlowTransport


class SlowEthernet:
    """The network.

    Parameters
    ----------
    links
        By number of the port. The n-th link from a to b is the opposite of the n-th from b to a.
    npu_of
        NPU of each node, or None for a switch. A node with an NPU forwards packets for others, as a switch does.
    rules, transport, seed
        Settings.
    """

    def __init__(
        self, links: list[Link], npu_of: list[int | None], rules: Rules, transport: SlowTransport, seed: int
    ) -> None:
        self.rules, self.transport = rules, transport
        self.now = 0
        self.order = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.flows: list[Flow] = []
        self.counts = dict.fromkeys(
            ("made", "delivered", "dropped", "errored", "in_network", "hops", "delivered_bytes", "flows"), 0
        )
        self.ports = [
            Port(i, link.node, link.peer, Fraction(8 * 10**12, link.rate), link.latency) for i, link in enumerate(links)
        ]
        self.node_of = {npu: node for node, npu in enumerate(npu_of) if npu is not None}
        self.reverse: dict[Port, Port] = {}
        for a in self.ports:
            same = [p for p in self.ports if (p.node, p.peer) == (a.node, a.peer)]
            back = [p for p in self.ports if (p.node, p.peer) == (a.peer, a.node)]
            self.reverse[a] = back[same.index(a)]
        for port, link in zip(self.ports, links, strict=True):
            port.headroom = self.default_headroom(port, link) if rules.headroom is None else rules.headroom
        self.nodes: list[Node] = []
        self.streams = []
        for number, npu in enumerate(npu_of):
            into = [p for p in self.ports if p.peer == number]
            held = sum(p.headroom + rules.reserve for p in into) if rules.pfc else 0
            self.nodes.append(Node(npu, rules.capacity - held, SplitMix(self.node_seed(number, seed))))
        for port in self.ports:
            salt = (port.number + 1) * 0xD1342543DE82EF95 & WORD
            self.streams.append(SplitMix(self.node_seed(port.node, seed) ^ salt))
        # with NPUs at the ends of routes only; and, for nodes that such a route does not lead from, everywhere
        self.hops = [
            {npu: self.distances(node, through) for npu, node in self.node_of.items()} for through in (False, True)
        ]

    @staticmethod
    def node_seed(node: int, seed: int) -> int:
        return (node + 1) * 0x5DEECE66D + seed

    def default_headroom(self, port: Port, link: Link) -> int:
        """What arrives after the decision to pause: the wire both ways, packets at both ends, one more, the frame."""
        packet = self.rules.mtu + self.rules.header + 128
        return math.floor(2 * link.latency / port.byte_time) + 3 * packet + self.rules.frame

    # -- routes --

    def distances(self, goal: int, through_npus: bool) -> dict[int, int]:
        away = {goal: 0}
        fresh = [goal]
        while fresh:
            passed = {node for node in fresh if through_npus or node == goal or self.nodes[node].npu is None}
            sources = (p.node for p in self.ports if p.peer in passed and p.node not in away)
            fresh = list(dict.fromkeys(sources))
            away.update(dict.fromkeys(fresh, max(away.values()) + 1))
        return away

    def choices(self, node: int, dst: int) -> list[Port]:
        """The ports on shortest routes; through NPUs only if no other route leads from this node."""
        for through_npus in (False, True):
            away = self.hops[through_npus][dst]
            if node in away:
                break
        return [
            p
            for p in self.ports
            if p.node == node
            and away.get(p.peer) == away[node] - 1
            and (through_npus or p.peer == self.node_of[dst] or self.nodes[p.peer].npu is None)
        ]

    def route(self, node: int, packet: Packet) -> Port:
        ports = self.choices(node, packet.dst)
        if len(ports) == 1:
            return ports[0]
        if self.rules.load_balancing == "spray":
            return ports[self.nodes[node].random.word() % len(ports)]
        if self.rules.load_balancing == "adaptive":
            first = self.nodes[node].random.word() % len(ports)
            return min(ports[first:] + ports[:first], key=lambda p: p.depth(CONTROL) + p.depth(BULK))
        words = (address(packet.src), address(packet.dst), packet.entropy)
        return ports[murmur3(b"".join(word.to_bytes(4, "little") for word in words), node) % len(ports)]

    def base_rtt(self, src: int, dst: int) -> int:
        """Latency of the first shortest route both ways, and one `mtu` on each link of the way."""
        total = 0
        for start, end, size in ((src, dst, self.rules.mtu), (dst, src, 0)):
            node = self.node_of[start]
            while node != self.node_of[end]:
                port = self.choices(node, end)[0]
                total += math.floor(size * port.byte_time) + port.delay
                node = port.peer
        return total

    # -- events --

    def schedule(self, at: int, event: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.events, (at, self.order, event))

    @property
    def next_time(self) -> int:
        return self.events[0][0] if self.events else -1

    def run(self, until: int) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, event = heapq.heappop(self.events)
            event()

    def send(self, src: int, dst: int, nbytes: int, entropy: int, at: int) -> None:
        mtu = self.rules.mtu
        sizes = [min(mtu, nbytes - first) for first in range(0, nbytes, mtu)]
        flow = Flow(src, dst, nbytes, entropy, at, self.base_rtt(src, dst), sizes)
        self.flows.append(flow)
        self.counts["flows"] += 1
        self.schedule(at, partial(self.begin, flow))

    # -- ports --

    def time_of(self, port: Port, size: int) -> int:
        """Transmission time: the nearest multiple of the resolution, a half down."""
        step = max(1, self.rules.resolution)
        return math.ceil(size * port.byte_time / step - Fraction(1, 2)) * step

    def serve(self, port: Port) -> None:
        """Begin a transmission, if the port is idle: control, then packets that wait, then flows in turn."""
        if port.sending is not None:
            return
        packet = None
        if port.queue[CONTROL]:
            packet = self.dequeue(port, CONTROL)
        elif port.queue[BULK] and not port.paused:
            packet = self.dequeue(port, BULK)
        elif not port.paused:
            for step in range(1, len(port.flows) + 1):
                turn = (port.turn + step) % len(port.flows)
                if port.flows[turn].ready:
                    port.turn = turn
                    packet = self.next_packet(port, port.flows[turn])
                    break
        if packet is not None:
            self.transmit(port, packet)

    def transmit(self, port: Port, packet: Packet) -> None:
        end = max(self.now + self.time_of(port, packet.size), packet.whole_at)
        port.sending = packet
        port.counted["sent_bytes"] += packet.size
        port.counted["sent_packets"] += 1
        self.counts["hops"] += 1
        packet.came = port
        packet.whole_at = arrival = end + port.delay
        early = self.rules.forwarding == "cut-through" and self.nodes[port.peer].npu is None
        if early and packet.size > self.rules.header:
            arrival = self.now + self.time_of(port, self.rules.header) + port.delay
        self.schedule(end, partial(self.idle, port))
        self.schedule(arrival, partial(self.arrive, packet))

    def idle(self, port: Port) -> None:
        port.sending = None
        self.serve(port)

    def dequeue(self, port: Port, cls: int) -> Packet:
        packet = port.queue[cls].popleft()
        if packet.came is not None:
            self.leave_switch(port, packet)
        return packet

    def enqueue(self, port: Port, packet: Packet) -> None:
        if packet.kind in (PAUSE, RESUME):  # before all other packets, behind earlier frames
            waiting = [other.kind in (PAUSE, RESUME) for other in port.queue[CONTROL]]
            port.queue[CONTROL].insert(waiting.count(True), packet)
        else:
            port.queue[packet.cls].append(packet)
        port.peak = max(port.peak, port.depth(packet.cls))
        if self.rules.ecn and self.rules.mark == "enqueue" and packet.kind == DATA:
            self.mark(port, packet)
        self.serve(port)

    # -- switches --

    def arrive(self, packet: Packet) -> None:
        port = packet.came
        if packet.kind in (PAUSE, RESUME):
            self.set_pause(self.reverse[port], packet.kind == PAUSE)
            return
        if self.rules.error_rate:
            loss = -math.expm1(math.log1p(-self.rules.error_rate))
            if self.streams[port.number].uniform() < loss:
                port.counted["errors"] += 1
                self.counts["errored"] += 1
                self.counts["in_network"] -= 1
                if packet.kind == DATA and not packet.trimmed:
                    packet.flow.counted["errors"] += 1
                return
        if self.nodes[port.peer].npu != packet.dst:
            self.forward(port.peer, packet)
            return
        self.counts["delivered"] += 1
        self.counts["in_network"] -= 1
        if packet.kind == DATA:
            self.take_data(port.peer, packet)
        elif packet.kind == CNP:
            if not packet.flow.finished:
                self.transport.on_cnp(packet.flow, self.now)
                self.refresh(packet.flow)
        else:
            self.take_reply(packet)

    def forward(self, node: int, packet: Packet) -> None:
        switch, into, port = self.nodes[node], packet.came, self.route(node, packet)
        if packet.cls == BULK and not self.admitted(switch, into, port, packet):
            if not (self.rules.trim and packet.kind == DATA and packet.size > self.rules.trim):
                self.drop(port, packet)
                return
            packet.flow.counted["trimmed"] += 1
            port.counted["trimmed"] += 1
            packet.trimmed, packet.size, packet.cls, packet.whole_at = True, self.rules.trim, CONTROL, 0
            if switch.used + packet.size > switch.pool:
                self.drop(port, packet)
                return
        switch.used += packet.size
        if self.rules.pfc and packet.cls == BULK:
            self.count_in(switch, into, packet)
        self.enqueue(port, packet)

    def drop(self, port: Port, packet: Packet) -> None:
        if packet.kind == DATA and not packet.trimmed:
            packet.flow.counted["dropped"] += 1
        port.counted["dropped"] += 1
        self.counts["dropped"] += 1
        self.counts["in_network"] -= 1

    def threshold(self, switch: Node) -> int:
        return int(self.rules.alpha * (switch.pool - switch.shared))

    def admitted(self, switch: Node, into: Port, port: Port, packet: Packet) -> bool:
        rules = self.rules
        if rules.queue is not None and port.depth(BULK) + packet.size > rules.queue:
            return False
        if rules.pfc:
            shared = max(into.ingress - rules.reserve, 0)
            fits = shared + packet.size <= self.threshold(switch)
            return fits or into.headroom_used + packet.size <= into.headroom
        if switch.used + packet.size > switch.pool:
            return False
        return not rules.alpha or port.depth(BULK) + packet.size <= int(rules.alpha * (switch.pool - switch.used))

    def count_in(self, switch: Node, into: Port, packet: Packet) -> None:
        """Reserve first, then the shared part up to the threshold, then headroom; pause if necessary."""
        beyond = into.ingress + packet.size - self.rules.reserve
        if beyond > max(0, self.threshold(switch)):
            into.headroom_used += packet.size
        else:
            into.ingress += packet.size
            switch.shared += max(0, min(packet.size, beyond))
        over = max(into.ingress - self.rules.reserve, 0)
        if not into.pausing and (into.headroom_used or over >= self.threshold(switch)):
            into.pausing = True
            into.counted["pauses"] += 1
            self.enqueue(self.reverse[into], Packet(PAUSE, self.rules.frame, cls=CONTROL))

    def leave_switch(self, port: Port, packet: Packet) -> None:
        """Free the bytes of a packet, headroom first and the reserve last; mark it; resume the sender."""
        switch, into, rules = self.nodes[port.node], packet.came, self.rules
        switch.used -= packet.size
        if rules.pfc and packet.cls == BULK:
            from_headroom = min(into.headroom_used, packet.size)
            rest = packet.size - from_headroom
            switch.shared -= min(rest, max(into.ingress - rules.reserve, 0))
            into.headroom_used -= from_headroom
            into.ingress -= rest
        if rules.ecn and rules.mark == "dequeue" and packet.kind == DATA:
            self.mark(port, packet)
        if rules.pfc and packet.cls == BULK and into.pausing and not into.headroom_used:
            over = max(into.ingress - rules.reserve, 0)
            if not over or over + rules.resume <= self.threshold(switch):
                into.pausing = False
                self.enqueue(self.reverse[into], Packet(RESUME, rules.frame, cls=CONTROL))

    def mark(self, port: Port, packet: Packet) -> None:
        rules, depth = self.rules, port.depth(packet.cls)
        if depth <= rules.kmin:
            return
        if depth <= rules.kmax:
            probability = rules.pmax * (depth - rules.kmin) / (rules.kmax - rules.kmin)
            if self.nodes[port.node].random.uniform() >= probability:
                return
        packet.marked = True
        port.counted["marked"] += 1
        packet.flow.counted["marked"] += 1

    def set_pause(self, port: Port, paused: bool) -> None:
        if paused and not port.paused:
            port.paused_since = self.now
        if port.paused and not paused:
            port.counted["paused_time"] += self.now - port.paused_since
        port.paused = paused
        if not paused:
            self.serve(port)

    # -- senders --

    def begin(self, flow: Flow) -> None:
        ports = self.choices(self.node_of[flow.src], flow.dst)
        flow.port = ports[flow.entropy % len(ports)]
        flow.port.flows.append(flow)
        flow.line = int(8e12 / flow.port.byte_time + 0.5)
        flow.bdp = int(flow.base_rtt * flow.line / 8e12)
        flow.next_send = self.now
        self.transport.begin(flow)
        if self.rules.timeout:
            flow.retry_at = self.now + self.rules.timeout
        self.arm(flow)
        self.refresh(flow)

    def refresh(self, flow: Flow) -> None:
        """Whether a flow may send now, or when."""
        flow.ready = False
        if flow.finished or not flow.may_send():
            return
        if flow.next_send <= self.now:
            flow.ready = True
            self.serve(flow.port)
        elif (sending := flow.port.sending) is not None and flow.next_send <= sending.whole_at - flow.port.delay:
            flow.ready = True  # it may send when the port does
        elif flow.wake_at != flow.next_send:
            flow.wake_at = flow.next_send
            self.schedule(flow.next_send, partial(self.wake, flow))

    def wake(self, flow: Flow) -> None:
        if flow.wake_at == self.now:
            flow.wake_at = 0
            self.refresh(flow)

    def next_packet(self, port: Port, flow: Flow) -> Packet:
        """A lost packet first, else a new one, or the next one that go-back-N repeats."""
        if flow.lost:
            number = min(flow.lost)
            flow.lost.remove(number)
            flow.counted["resent"] += 1
        else:
            number = flow.next
            flow.counted["resent" if number < flow.counted["sent"] else "sent"] += 1
            flow.next += 1
        size = flow.sizes[number] + self.rules.header
        packet = Packet(DATA, size, flow.src, flow.dst, flow, BULK, number, 0, flow.entropy, sent=self.now)
        self.counts["made"] += 1
        self.counts["in_network"] += 1
        time = gap = self.time_of(port, size)
        if flow.rate < flow.line:
            step = max(1, self.rules.resolution)
            gap = int(8e12 * size / step / flow.rate + 0.5) * step
        flow.next_send = self.now + gap
        packet.urgent = not flow.may_send()
        flow.ready = flow.may_send() and gap <= time
        if gap > time and flow.may_send():
            flow.wake_at = flow.next_send
            self.schedule(flow.next_send, partial(self.wake, flow))
        return packet

    def take_reply(self, reply: Packet) -> None:
        flow = reply.flow
        if flow.finished:
            return
        before, selective = flow.una, self.rules.reliability == "selective"
        if selective:
            if reply.kind == ACK:
                flow.known.add(reply.number)
                flow.lost.discard(reply.number)
            elif reply.number not in flow.known:
                flow.lost.add(reply.number)
            while flow.una < len(flow.sizes) and (flow.una < reply.cumulative or flow.una in flow.known):
                flow.known.add(flow.una)
                flow.lost.discard(flow.una)
                flow.una += 1
        else:
            flow.una = max(flow.una, reply.cumulative)
            if flow.next < flow.una or reply.kind == NACK:
                flow.next = flow.una
        if flow.una > before and self.rules.timeout:
            flow.retry_at, flow.expiries = self.now + self.rules.timeout, 0
        if flow.una == len(flow.sizes):
            flow.finished, flow.ready = True, False
            flow.retry_at = 0
            if self.rules.end == "acknowledged":
                self.finish(flow)
            return
        self.transport.on_ack(flow, reply.marked, self.now)
        self.call(flow)
        self.arm(flow)
        self.refresh(flow)

    def call(self, flow: Flow) -> None:
        """Schedule the timers that the transport has set."""
        for at in flow.due:
            self.schedule(at, partial(self.due, flow))
        flow.due.clear()

    def due(self, flow: Flow) -> None:
        if flow.finished:
            return
        self.transport.on_due(flow, self.now)
        self.call(flow)
        self.refresh(flow)

    def arm(self, flow: Flow) -> None:
        if flow.retry_at and (not flow.timer_at or flow.retry_at < flow.timer_at):
            flow.timer_at = flow.retry_at
            self.schedule(flow.retry_at, partial(self.timer, flow))

    def timer(self, flow: Flow) -> None:
        if flow.timer_at != self.now:
            return
        flow.timer_at = 0
        if flow.finished:
            return
        if flow.retry_at > self.now:
            self.arm(flow)
            return
        flow.counted["timeouts"] += 1
        flow.expiries += 1
        flow.retry_at = self.now + (self.rules.timeout << min(flow.expiries, 10))
        if self.rules.reliability == "selective":
            flow.lost.update(set(range(flow.una, flow.next)) - flow.known)
        else:
            flow.next = flow.una
        self.arm(flow)
        self.refresh(flow)

    def finish(self, flow: Flow) -> None:
        flow.end = self.now
        self.counts["delivered_bytes"] += flow.nbytes

    # -- receivers --

    def take_data(self, node: int, packet: Packet) -> None:
        flow, selective = packet.flow, self.rules.reliability == "selective"
        if packet.trimmed:
            self.reply(node, packet, NACK)
            return
        flow.counted["delivered"] += 1
        if packet.number < flow.expected or packet.number in flow.received:
            flow.counted["duplicates"] += 1
        elif selective or packet.number == flow.expected:
            flow.counted["out_of_order"] += packet.number != flow.expected
            flow.received.add(packet.number)
            while flow.expected in flow.received:
                flow.expected += 1
        else:
            flow.counted["out_of_order"] += 1
            if flow.nack_of != flow.expected or self.now >= flow.nack_after:
                flow.nack_of, flow.nack_after = flow.expected, self.now + self.rules.nack_interval
                self.reply(node, packet, NACK)
            return
        last = len(flow.received) == len(flow.sizes)
        if last and not flow.complete:
            flow.complete = True
            if self.rules.end == "received":
                self.finish(flow)
        flow.unacknowledged += 1
        if selective or last or packet.urgent or flow.unacknowledged >= self.rules.ack_interval:
            flow.unacknowledged = 0
            self.reply(node, packet, ACK)

    def reply(self, node: int, packet: Packet, kind: str) -> None:
        flow, swapped = packet.flow, packet.entropy >> 16 | (packet.entropy & 0xFFFF) << 16
        marked = packet.marked
        if marked and self.rules.cnp_interval:
            marked = False
            if self.now >= flow.cnp_after:
                flow.cnp_after = self.now + self.rules.cnp_interval
                self.emit(node, Packet(CNP, self.rules.ack, flow.dst, flow.src, flow, CONTROL, entropy=swapped))
        answer = Packet(kind, self.rules.ack, flow.dst, flow.src, flow, BULK, packet.number, flow.expected, swapped)
        answer.marked = marked
        self.emit(node, answer)

    def emit(self, node: int, packet: Packet) -> None:
        self.counts["made"] += 1
        self.counts["in_network"] += 1
        self.enqueue(self.route(node, packet), packet)
