"""The reference engine: docs/router.md in plain Python, slow and readable. Start reading here.

`ReferenceEngine` steps every cycle and visits every link, lane and router in it. It takes the same arguments as
`pyxsim.core.engine.Engine` and must agree with it flit for flit.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from pyxsim.core.engine_options import STORE_AND_FORWARD, Links, RouterOptions, Routes
from pyxsim.reference.components import (
    CAUSES,
    Event,
    Flit,
    InputVC,
    Kind,
    Launch,
    Link,
    Message,
    OutputVC,
    Packet,
    Pool,
)
from pyxsim.reference.lane import Lane
from pyxsim.reference.router import Front, Router, first_tick, queue_after_st
from pyxsim.reference.routing import Routing

Part = TypeVar("Part")


class ReferenceEngine:
    """One network of routers, links and injection lanes.

    Parameters
    ----------
    routers, links, routes, options
        As of `pyxsim.core.engine.Engine`.
    shuffle
        Called with the lanes and the routers before every visit to them, to change their order, which must not matter.
    every
        Cycles between two checks of the credit invariant; 0: none.
    record
        Keep every launch and event, and the state of every VC in every cycle.
    """

    def __init__(
        self,
        routers: int,
        links: Links,
        routes: Routes,
        options: RouterOptions,
        *,
        shuffle: Callable[[list[Any]], None] | None = None,
        every: int = 1,
        record: bool = True,
    ) -> None:
        self.now = 0
        self.record = record
        self.delivered: list[tuple[int, int]] = []  # (cycle, message), not yet reported by `advance`
        self._starts: dict[int, list[Message]] = {}  # messages by the cycle in which they start
        self._window = -1  # the cycle of the last stop at the end of a window
        self.launches: list[Launch] = []
        self.messages: list[Message] = []
        self.in_network = 0
        self.done: list[tuple[Packet, int]] = []  # packets that have arrived, with their cycles
        self._arrived = -1  # the last cycle whose arrivals have been processed
        self.last_change = -1  # the last cycle with an arrival, a start, an opening, a grant or a launch
        self._patience = int(options.rc) + int(options.va) + 1
        self._shuffle = shuffle
        self._every = every
        self.options = options
        self._kinds = [
            Kind(k, int(vnet), int(priority))
            for k, (vnet, priority) in enumerate(zip(options.class_vnet, options.class_priority, strict=True))
        ]
        everything = links.network + links.injection + links.ejection
        self.links = [self._link(links, i) for i in range(everything)]
        injection = self.links[links.network : links.network + links.injection]
        flow, interleaved, ordered = int(options.flow), bool(options.interleaved), bool(options.ordered)
        self.lanes = [Lane(link, flow, interleaved, ordered, self._kinds, record) for link in injection]
        routing = Routing(
            routers,
            routes,
            self.links,
            self.links[links.network + links.injection :],
            flow,
            shared=bool(options.shared_classes),
            credit=bool(options.va_credit),
        )
        self._routers = [
            Router(
                r,
                [link for link in self.links if link.dst == r],
                [link for link in self.links if link.src == r],
                options,
                routing,
                record,
            )
            for r in range(routers)
        ]

    def _link(self, links: Links, i: int) -> Link:
        options = self.options
        vcs, depth, src = int(links.vcs[i]), int(links.depth[i]), int(links.src[i])
        pool = Pool(int(links.pool[i]), int(links.pool[i]))
        start, classes = int(links.ranges[i]), int(links.classes[i])
        whole = options.flow == STORE_AND_FORWARD
        return Link(
            number=i,
            src=src,
            dst=int(links.dst[i]),
            s=Fraction(int(links.s_num[i]), int(links.s_den[i])),
            delay=int(links.delay[i]),
            credit_delay=int(links.credit_delay[i]),
            output_queue=src >= 0 and (bool(links.output_queue[i]) or queue_after_st(options)),
            limit=int(options.queue_limit) if src >= 0 else 0,
            ranges=[
                [
                    range(int(links.low[k]), int(links.high[k]))
                    for k in range(start + v * classes, start + (v + 1) * classes)
                ]
                for v in range(options.vnets)
            ],
            group=int(links.group[i]),
            pool=pool,
            inputs=[InputVC(v, whole) for v in range(vcs)],
            outputs=[OutputVC(v, depth, bool(options.drained), pool, depth) for v in range(vcs)],
            log=self.launches if self.record else None,
        )

    def send(
        self,
        inject: int,
        eject: int,
        dst: int,
        plane: int,
        packets: int,
        flits: int,
        last_flits: int,
        at: int,
        klass: int = 0,
        tag: int = 0,
    ) -> int:
        """Queue a message at cycle `at`; parameters and result as in `Engine.send`."""
        if at < self.now:
            raise ValueError(f"cycle {at} is in the past: the current cycle is {self.now}")
        kind, number, seed = self._kinds[klass], len(self.messages), int(self.options.seed)
        message = Message(number, inject, eject, dst, plane, packets, flits, last_flits, at, kind, seed=seed, tag=tag)
        message.record = self.record
        self.messages.append(message)
        self._starts.setdefault(at, []).append(message)
        return number

    def step_to(self, until: int) -> None:
        """Step to the beginning of cycle `until`."""
        while self.now < until:
            self.step()

    def step(self) -> None:
        """Simulate one cycle, in the order of docs/router.md."""
        t = self.now
        self.arrive()
        changed = False
        for message in self._starts.pop(t, ()):
            self.lanes[message.inject].join(message, t)
            changed = True
        for lane in self._in_any_order(self.lanes):
            opened, flit = lane.step(t)
            if flit is not None:
                self.in_network += 1
                for sent in (flit.packet, flit.packet.message):
                    if sent.first_launch < 0:
                        sent.first_launch = t
            changed |= opened or flit is not None
        for u in range(first_tick(t, self.options), first_tick(t + 1, self.options)):
            for router in self._in_any_order(self._routers):
                changed |= router.tick(t, u)
        for router in self._routers:
            router.count_stalls()
        for link in self.links:
            if link.queue:
                link.stalls["serial"] += 1
            if self._every and t % self._every == 0:
                link.check()
        if changed:
            self.last_change = t
        self.now += 1

    def _in_any_order(self, parts: list[Part]) -> list[Part]:
        """Return the parts in any order: steps 3 and 4 take effect in the next cycle at the earliest."""
        order = list(parts)
        if self._shuffle is not None:
            self._shuffle(order)
        return order

    def arrive(self) -> None:
        """Do step 1 of the current cycle. `step` may follow later, as the engine also stops after step 1."""
        if self._arrived < self.now:
            self._arrived = self.now
            for link in self.links:
                if link.busy:
                    self._arrivals(link, self.now)

    def _arrivals(self, link: Link, t: int) -> None:
        """Do step 1 of one link."""
        slots, flits = link.arriving_credits(t), link.arriving_flits(t)
        if len(flits) > 1:
            raise AssertionError(f"two flits reach the end of link {link.number} in cycle {t}")
        for vc in slots:
            link.outputs[vc].regain()
        for flit, vc in flits:
            flit.packet.note(t, "arrives", link.number, vc, flit.index)
            if link.dst >= 0:
                link.inputs[vc].put(flit, first_tick(t, self.options))
                flit.packet.hops += flit.head
            else:
                link.inputs[vc].most = 1  # the flit occupies a slot only within this cycle
                link.return_credit(vc, t)
                self._consume(flit, t)
        if link.launch_queued(t) or slots or flits:
            self.last_change = t

    def _consume(self, flit: Flit, t: int) -> None:
        packet, message = flit.packet, flit.packet.message
        if flit.index != packet.arrived:
            raise AssertionError(f"message {message.number} packet {packet.index}: flit {flit.index} out of order")
        packet.arrived += 1
        message.arrived += 1
        if flit.tail:
            self.done.append((packet, t))
            message.hops += packet.hops
        self.in_network -= 1
        if message.arrived == message.total:
            message.last_arrival = t
            self.delivered.append((t, message.number))

    def counters(self) -> dict[str, Any]:
        """Return totals per link, with the names of `Engine.counters`."""
        totals = {f"stall_{cause}": [link.stalls[cause] for link in self.links] for cause in CAUSES}
        return {"flits": [link.flits for link in self.links], **totals}

    def totals(self) -> dict[str, int]:
        """Return totals of arrivals. Latencies of packets count from their message's start, and from their launch."""
        return {
            "messages": len(self.messages),
            "messages_delivered": sum(m.last_arrival >= 0 for m in self.messages),
            "packets": len(self.done),
            "flits": sum(m.arrived for m in self.messages),
            "latency_sum": sum(end - packet.message.at for packet, end in self.done),
            "network_latency_sum": sum(end - packet.first_launch for packet, end in self.done),
            "router_visits": self.router_visits,
            "hops_sum": sum(packet.hops for packet, _ in self.done),
        }

    @property
    def router_visits(self) -> int:
        """Flits times routers passed."""
        return sum(router.visits for router in self._routers)

    def buffer_max(self) -> Any:
        """Return the most flits that each input VC ever held, link by link."""
        return [vc.most for link in self.links for vc in link.inputs]

    def message_times(self, message: int) -> tuple[int, int, int]:
        """Return (start, first flit launched, last flit arrived) in cycles; -1 for events that have not happened."""
        m = self.messages[message]
        return m.at, m.first_launch, m.last_arrival

    def watched(self, message: int, packet: int) -> list[Event]:
        """Return the events of a packet, in order of cycle."""
        sent = self.messages[message].sent
        return sent[packet].events if packet < len(sent) else []

    def waiting(self) -> list[dict[str, Any]]:
        """Return every front flit in a router: its VC, the output VC it holds (-1: none), and the VCs it requests."""
        rows = []
        for router in self._routers:
            for front in router.fronts():
                port, vc = front.place
                candidates = [(c.link.number, c.vcs.start, c.vcs.stop) for c in front.vc.candidates]
                rows.append(
                    {
                        "link": router.inputs[port].number,
                        "vc": vc,
                        "wants": self._wanted(front),
                        "holds": front.vc.granted,
                        "asks": candidates if front.vc.output is None else [],
                        "front": front.vc.front_time,
                        "message": front.flit.packet.message.number,
                        "packet": front.flit.packet.index,
                        "left": front.flit.packet.size - front.flit.index,
                        "own": front.vc.output is None and any(c.room for c in front.vc.candidates),
                    }
                )
        return rows

    @staticmethod
    def _wanted(front: Front) -> int:
        """The output link of a front flit; -1 before it is routed."""
        if front.vc.output is not None:
            return front.vc.output.number
        return front.vc.candidates[0].link.number if front.vc.candidates else -1

    @property
    def finished(self) -> bool:
        return all(m.last_arrival >= 0 for m in self.messages)

    @property
    def idle(self) -> bool:
        """Return whether no message, flit or credit is left in the network."""
        return not (self._starts or self.in_network or any(lane.busy for lane in self.lanes)) and not self.timed

    @property
    def timed(self) -> bool:
        """Return whether a flit or a credit is in flight on a link."""
        return any(link.busy for link in self.links)

    def advance(self, until: int, slack: int, window: int) -> str:
        """Step to cycle `until`, or stop earlier; the reasons are those of `Engine.run`, without "repeats".

        The arrivals of the cycle in which it stops have been processed, except at the end of a window.
        """
        while True:
            if self._arrived < self.now:
                if window and self.now % window == 0 and self.now > self._window:
                    self._window = self.now
                    return "window"
                self.arrive()
            if self.delivered:
                until = min(until, self.delivered[0][0] + slack)
            if self.now >= until:
                return "delivered" if self.delivered else "until"
            self.step()
            if self.idle:
                return "idle"
            if self.deadlocked:
                return "deadlock"

    @property
    def deadlocked(self) -> bool:
        """Return whether flits are buffered, none is in flight, and nothing changed for longer than RC and VA."""
        quiet = self.now - 1 - self.last_change > self._patience
        return self.in_network > 0 and quiet and not self.timed
