"""The reference engine: docs/router.md in plain Python, slow and readable. Start reading here.

`ReferenceEngine` steps every cycle and visits every link, lane and router in it. It takes the same arguments as
`pyxsim.core.engine.Engine` and must agree with it flit for flit.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.core.engine_options import STORE_AND_FORWARD, Links, RouterOptions, Routes, Stop
from pyxsim.reference.components import CAUSES, Flit, InputVC, Kind, Link, Message, OutputVC, Packet, Pool, due
from pyxsim.reference.credit_return import CreditReturn, VcCredits
from pyxsim.reference.lane import Lane
from pyxsim.reference.retry import ErrorDraws, Retry
from pyxsim.reference.router import Router, first_tick, queue_after_st
from pyxsim.reference.routing import Routing


class ReferenceEngine:
    """One network of routers, links and injection lanes; parameters as for `pyxsim.core.engine.Engine`."""

    # The rest of the interface of `Engine`: what this one never does.
    skipped, nbytes = 0, 0
    watching, plain = False, False

    silent_class = 1 << 30  # the first message class whose deliveries do not end `run`

    # Classes of the parts; tests use subclasses that record what each part does.
    link, input_vc, lane, router = Link, InputVC, Lane, Router

    def __init__(self, routers: int, links: Links, routes: Routes, options: RouterOptions) -> None:
        self.now = 0
        self.delivered: list[tuple[int, int]] = []  # (cycle, message), not yet reported by `run`
        self._starts: dict[int, list[Message]] = {}  # messages by the cycle in which they start
        self._window = -1  # the cycle of the last stop at the end of a window
        self.messages: list[Message] = []
        self.flits_in_flight = self.packets_lost = self.flits_lost = 0
        self.done: list[tuple[Packet, int]] = []  # packets that have arrived, with their cycles
        self._arrived = -1  # the last cycle whose arrivals have been processed
        self.last_change = -1  # the last cycle with an arrival, a start, an opening, a grant or a launch
        self.options, self._given = options, links
        classes = zip(options.class_vnet, options.class_priority, strict=True)
        self._kinds = [Kind(k, int(vnet), int(priority)) for k, (vnet, priority) in enumerate(classes)]
        self.links = [self._link(links, i) for i in range(links.network + links.injection + links.ejection)]
        self._return_credits(links)
        injection = self.links[links.network : links.network + links.injection]
        ejection = self.links[links.network + links.injection :]
        self.lanes = [self.lane(link, options, self._kinds) for link in injection]
        routing = self.routing = Routing(routers, routes, self.links, ejection, options)
        self.routers = []
        for number in range(routers):
            inputs = [link for link in self.links if link.dst == number]
            outputs = [link for link in self.links if link.src == number]
            self.routers.append(self.router(number, inputs, outputs, options, routing))

    def _link(self, links: Links, i: int) -> Link:
        """Make a link from the arrays of all links."""
        options, pool = self.options, int(links.pool[i])
        depth, src, classes = int(links.depth[i]), int(links.src[i]), int(links.classes[i])
        shared = Pool(pool, pool, max(0, int(options.shared_limit)))
        low, high = (ends[int(links.ranges[i]) :] for ends in (links.low, links.high))
        ranges = [range(int(low[k]), int(high[k])) for k in range(options.vnets * classes)]
        by_vnet = [ranges[v * classes : (v + 1) * classes] for v in range(options.vnets)]
        s, delays = (
            Fraction(int(links.s_num[i]), int(links.s_den[i])),
            (int(links.delay[i]), int(links.credit_delay[i])),
        )
        queue = src >= 0 and (bool(links.output_queue[i]) or queue_after_st(options))
        inputs = [self.input_vc(v, options.flow == STORE_AND_FORWARD) for v in range(int(links.vcs[i]))]
        outputs = [OutputVC(v, depth, bool(options.drained), shared, depth) for v in range(int(links.vcs[i]))]
        ends, limit = (src, int(links.dst[i])), int(options.queue_limit) if src >= 0 else 0
        group = int(links.group[i])
        link = self.link(i, *ends, s, *delays, queue, by_vnet, group, shared, inputs, outputs, limit=limit)
        bounds = [0 if given is None else int(given[i]) for given in (links.error_bound, links.nack_bound)]
        link.errors = ErrorDraws(i, int(options.seed), (bounds[0], bounds[1]))
        if links.replay is not None and links.replay[i]:
            link.retry = Retry(int(links.replay[i]), int(links.ack[i]), int(links.timeout[i]))
        return link

    def _return_credits(self, links: Links) -> None:
        """Let links return their credits by messages."""
        given = links.credits
        if given is None:
            return
        for link, opposite in zip(self.links, given.opposite, strict=True):
            if opposite >= 0:
                out, bound = self.links[opposite], 0 if given.bound is None else int(given.bound[opposite])
                timeout = int(given.timeout[link.number])
                link.credits = out.carrying = CreditReturn(link, out, given, timeout, len(self.links), bound)

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
        self.messages.append(message)
        self._starts.setdefault(at, []).append(message)
        return number

    def change_links(
        self,
        links: ArrayLike,
        num: ArrayLike,
        delay: ArrayLike,
        credit_delay: ArrayLike,
        down: ArrayLike,
        *,
        lose: ArrayLike = False,
        error_bound: ArrayLike = 0,
        nack_bound: ArrayLike = 0,
        credit_bound: ArrayLike = 0,
    ) -> None:
        """Change links from step 2 of the current cycle on; parameters as for `Engine.change_links`."""
        columns = [np.asarray(column).astype(object) for column in (links, num, delay, credit_delay)]
        others = [np.asarray(column).astype(object) for column in (down, lose, error_bound, nack_bound, credit_bound)]
        for number, flit, late, credit, is_down, loses, *bounds in (
            np.stack(np.broadcast_arrays(*columns, *others), axis=-1).reshape(-1, 9).tolist()
        ):
            link = self.links[number]
            s = Fraction(int(flit), int(self._given.s_den[number]))
            if is_down and loses and not link.down and link.retry is None:
                self._lose([flit.packet for _, (flit, _) in link.flying])
            link.change(self.now, s, int(late), int(credit), down=bool(is_down), lose=bool(loses))
            link.errors.bounds = int(bounds[0]), int(bounds[1])
            if link.carrying is not None:
                link.carrying.bound = int(bounds[2])

    def change_routes(
        self,
        routes: Routes,
        *,
        drops: ArrayLike,
        discard: ArrayLike,
        abandoned: ArrayLike = (),
        broken: ArrayLike = (),
        anew: bool = True,
        paused: bool = False,
    ) -> tuple[int, int]:
        """Use other routes from step 2 of the current cycle on; parameters and result as for `Engine.change_routes`."""
        for link, drop in zip(self.links, np.asarray(drops).tolist(), strict=True):
            link.drops = bool(drop)
        left, dead = ({int(number) for number in np.asarray(numbers)} for numbers in (abandoned, broken))
        holders = [packet for lane in self.lanes if lane.link.number in dead for packet in lane.open.values()]
        for vc in (vc for link in self.links for vc in link.inputs if link.dst >= 0):
            if vc.output is not None and vc.output.number in dead:
                holder = vc.output.outputs[vc.granted].holder
                assert holder is not None
                holders.append(holder)
        lost = sum(not packet.lost for packet in dict.fromkeys(holders))
        self._lose(holders)
        u = first_tick(self.now, self.options)
        for router in self.routers if not self.routing.by_credits else ():
            for front in router.fronts():
                if not front.vc.candidates:
                    router.route(front, self.now, u)
        self.routing.replace(routes)
        for packet in self._inside() if anew else ():
            packet.via, packet.plane, packet.last = None, packet.message.plane, packet.message.plane
        moved = sum(router.reroute(anew, left, np.asarray(discard).tolist()) for router in self.routers)
        for lane in self.lanes:
            lane.paused = paused or lane.link.drops
        return moved, lost

    def _lose(self, packets: Sequence[Packet]) -> None:
        """Note that a link or a route of these packets has failed."""
        for packet in packets:
            if not packet.lost:
                packet.lost = True
                self._report_loss(packet.message)

    def _report_loss(self, message: Message) -> None:
        if self._given.reports_losses and message.kind.number < self.silent_class:
            self.delivered.append((self.now, ~message.number))

    def _inside(self) -> list[Packet]:
        """Return the packets of which a flit is in the network, or is still to be launched from an open packet."""
        found = [packet for lane in self.lanes for packet in lane.open.values()]
        for link in self.links:
            on_the_way = [*(item for _, item in (*link.flying, *link.traversing)), *link.queue]
            resent = [] if link.retry is None else [(sent.flit, sent.vc) for sent in link.retry.buffer]
            found += [flit.packet for flit, _ in (*on_the_way, *resent) if isinstance(flit, Flit)]  # no credits
            found += [flit.packet for vc in link.inputs for flit in vc.fifo]
        return found

    @property
    def empty(self) -> bool:
        """Return whether no flit is in the network, and no packet is open."""
        return not (self.flits_in_flight or any(lane.open for lane in self.lanes))

    def losses(self) -> dict[str, IntArray]:
        """Return counts of each link, as `Engine.losses`."""
        return {
            "errors": np.array([link.errors.count for link in self.links], np.int64),
            "lost": np.array([link.lost for link in self.links], np.int64),
        }

    def retries(self) -> dict[str, IntArray]:
        """Return counts of each link, as `Engine.retries`."""
        ends = [link.retry or Retry(0, 0, 0) for link in self.links if self._given.replay is not None]
        counts = {
            "resent": [end.resent for end in ends],
            "timeouts": [end.timeouts for end in ends],
            "full": [end.full for end in ends],
            "count_most": [end.most for end in ends],
            "held": [end.held_until(self.now) for end in ends],
        }
        return {name: np.array(values, np.int64) for name, values in counts.items()}

    def credit_returns(self) -> dict[str, NDArray[Any]]:
        """Return counts of each link, and of each VC, as `Engine.credit_returns`."""
        ends = [link.credits for link in self.links]
        names = ("messages", "riding", "destroyed")
        found: dict[str, NDArray[Any]] = {
            name: np.array([0 if end is None else getattr(end, name) for end in ends], np.int64) for name in names
        }
        again = [0 if end is None else max(0, end.launched - end.messages) for end in ends]
        found["resent"] = np.array(again, np.int64)
        found["busy"] = np.array([0.0 if end is None else float(end.busy) for end in ends])
        unused = [[VcCredits(vc.number) for vc in link.outputs] for link in self.links]
        vcs = [vc for end, none in zip(ends, unused, strict=True) for vc in (none if end is None else end.vcs)]
        for name in ("returned", "carried", "destroyed", "restored", "pending", "lost", "empty"):
            found[f"vc_{name}"] = np.array([getattr(vc, name) for vc in vcs], np.int64)
        return found

    def lost_messages(self) -> IntArray:
        """Return int64[rows, 2]: messages that lost packets, and how many."""
        return np.array([(m.number, m.lost) for m in self.messages if m.lost], np.int64).reshape(-1, 2)

    def message_times(self, message: int) -> tuple[int, int, int]:
        """Return when a message was sent, launched and delivered; -1: not yet."""
        m = self.messages[message]
        return m.at, m.first_launch, m.last_arrival

    @property
    def messages_pending(self) -> int:
        """Messages sent and not delivered."""
        return sum(m.last_arrival < 0 for m in self.messages)

    def send_many(self, *columns: ArrayLike) -> int:
        """Send arrays of messages (scalars are broadcast); return the number of the first."""
        first = len(self.messages)
        for row in np.stack(np.broadcast_arrays(*columns), axis=1).tolist():
            self.send(*row)
        return first

    def step(self) -> None:
        """Simulate one cycle, in the order of docs/router.md."""
        t = self.now
        self.arrive()
        changed = False
        for message in self._starts.pop(t, ()):
            self.lanes[message.inject].join(message, t)
            changed = True
        for lane in self.order(self.lanes):
            opened, flit = lane.step(t)
            if flit is not None:
                self.flits_in_flight += 1
                for sent in (flit.packet, flit.packet.message):
                    if sent.first_launch < 0:
                        sent.first_launch = t
            changed |= opened or flit is not None
        for u in range(first_tick(t, self.options), first_tick(t + 1, self.options)):
            for router in self.order(self.routers):
                changed |= router.tick(t, u)
        for router in self.routers:
            for link, cause in router.causes:
                link.stalls[cause] += 1
            router.causes.clear()
        for link in self.links:
            if link.credits is not None:
                link.credits.step(t)
                link.credits.counted()
            if link.queue:
                link.stalls["serial"] += 1
        if changed:
            self.last_change = t
        self.now += 1

    def order(self, parts: list[Any]) -> list[Any]:
        """Return the order of visits: any, because steps 3 and 4 take effect in the next cycle at the earliest."""
        return parts

    def arrive(self) -> None:
        """Do step 1 of the current cycle. `step` may follow later, as the engine also stops after step 1."""
        if self._arrived < self.now:
            self._arrived = self.now
            for link in self.links:
                if link.busy:
                    self._arrivals(link, self.now)

    def _arrivals(self, link: Link, t: int) -> None:
        """Do step 1 of one link."""
        slots, flits = due(link.returning, t), due(link.flying, t)
        if len(flits) > 1:
            raise AssertionError(f"two flits reach the end of link {link.number} in cycle {t}")
        for vc in slots:
            link.outputs[vc].regain()
        for flit, vc in flits:
            if link.dst >= 0:
                link.inputs[vc].put(flit, first_tick(t, self.options))
                flit.packet.hops += flit.head
            else:
                link.inputs[vc].most = 1  # the flit occupies a slot only within this cycle
                link.give_back(vc, t)
                self._consume(flit, link, t)
        if link.launch_queued(t) or slots or flits:
            self.last_change = t

    def _consume(self, flit: Flit, link: Link, t: int) -> None:
        packet, message = flit.packet, flit.packet.message
        if flit.index != packet.arrived:
            raise AssertionError(f"message {message.number} packet {packet.index}: flit {flit.index} out of order")
        packet.arrived += 1
        message.arrived += 1
        self.flits_in_flight -= 1
        if flit.tail and (packet.lost or link.drops):  # the packet is dropped
            self.packets_lost += 1
            self.flits_lost += packet.size
            message.lost += 1
            self._report_loss(message)
            return
        if flit.tail:
            self.done.append((packet, t))
            message.hops += packet.hops
        if message.arrived == message.total and not message.lost:
            message.last_arrival = t
            if message.kind.number < self.silent_class:
                self.delivered.append((t, message.number))

    def counters(self) -> dict[str, IntArray]:
        """Return totals per link, with the names of `Engine.counters`."""
        totals = {f"stall_{cause}": np.array([link.stalls[cause] for link in self.links]) for cause in CAUSES}
        return {"flits": np.array([link.flits for link in self.links]), **totals}

    def totals(self) -> dict[str, int]:
        """Return totals of arrivals. Latencies of packets count from their message's start, and from their launch."""
        return {
            "messages": len(self.messages),
            "messages_delivered": sum(m.last_arrival >= 0 for m in self.messages),
            "packets": len(self.done),
            "flits": sum(m.arrived for m in self.messages) - self.flits_lost,
            "latency_sum": sum(end - packet.message.at for packet, end in self.done),
            "network_latency_sum": sum(end - packet.first_launch for packet, end in self.done),
            "router_visits": self.router_visits,
            "hops_sum": sum(packet.hops for packet, _ in self.done),
            "packets_lost": self.packets_lost,
            "flits_lost": self.flits_lost,
        }

    @property
    def router_visits(self) -> int:
        """Flits times routers passed."""
        return sum(router.visits for router in self.routers)

    def buffer_max(self) -> Int32Array:
        """Return the most flits that each input VC ever held, link by link."""
        return np.array([vc.most for link in self.links for vc in link.inputs], np.int32)

    def state(self, deciding: bool) -> dict[str, NDArray[Any]]:
        """Return the credits and slots of all VCs, as the watchdog reads them."""
        outputs = [out for link in self.links for out in link.outputs]
        return {
            "link.base": np.cumsum([0, *(len(link.outputs) for link in self.links)])[:-1],
            "link.pool_left": np.array([link.pool.left for link in self.links]),
            "out.credit": np.array([out.credits - out.borrowed for out in outputs]),
            "vc.occupancy": np.array([len(vc.fifo) for link in self.links for vc in link.inputs]),
        }

    def slots(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """Return credits and used slots of all VCs, and what is left of each pool, as `Engine.slots`."""
        state = self.state(True)
        return state["out.credit"], state["vc.occupancy"], state["link.pool_left"]

    def waiting(self) -> list[dict[str, Any]]:
        """Return every front flit in a router: its VC, the output VC it holds (-1: none), and the VCs it requests."""
        rows = []
        for router in self.routers:
            for front in router.fronts():
                (port, number), vc, flit = front.place, front.vc, front.flit
                link = vc.output or (vc.candidates[0].link if vc.candidates else None)
                requested = vc.candidates if vc.output is None else ()
                rows.append(
                    {
                        "link": router.inputs[port].number,
                        "vc": number,
                        "wants": -1 if link is None else link.number,
                        "holds": vc.granted,
                        "asks": [
                            (c.link.number, c.vcs.start, c.vcs.stop)
                            if c.kept is None
                            else (c.link.number, c.kept, c.kept + 1)
                            for c in requested
                        ],
                        "front": vc.front_time,
                        "message": flit.packet.message.number,
                        "packet": flit.packet.index,
                        "left": flit.packet.size - flit.index,
                        "own": max((c.room for c in requested), default=0),
                    }
                )
        return rows

    @property
    def idle(self) -> bool:
        """Return whether no message, flit or credit is left in the network."""
        return not (self._starts or self.flits_in_flight or any(lane.busy for lane in self.lanes)) and not self.timed

    @property
    def timed(self) -> bool:
        """Return whether a flit or a credit is in flight on a link, or will start by itself."""
        return any(link.timed or (link.credits is not None and link.credits.timed) for link in self.links)

    def run(
        self,
        until: int,
        *,
        slack: int = 0,
        window: int = 0,
        repeats_until: int = 0,
        apart: bool = False,
        patient: bool = False,
    ) -> Stop:
        """Simulate to cycle `until`, or stop earlier, as `Engine.run` does; it never reports "repeats".

        The arrivals of the cycle in which it stops have been processed, except at the end of a window.
        """
        reason = ""
        while not reason:
            reason = self._reason_to_stop(until, slack, window)
            if not reason:
                self.step()
                reason = "idle" if self.idle else self._reason_to_give_up() if self._quiet and not patient else ""
        rows = np.array(sorted(self.delivered), np.int64).reshape(-1, 2)
        self.delivered.clear()
        return Stop(reason, self.now, rows[:, 1], rows[:, 0])

    def _reason_to_stop(self, until: int, slack: int, window: int) -> str:
        """Process the arrivals of the current cycle, except at the end of a window."""
        if self._arrived < self.now:
            if window and self.now % window == 0 and self.now > self._window:
                self._window = self.now
                return "window"
            self.arrive()
        if self.delivered:
            until = min(until, self.delivered[0][0] + slack)
        if self.now < until:
            return ""
        return "delivered" if self.delivered else "until"

    @property
    def _quiet(self) -> bool:
        """Return whether no flit is in flight, and nothing changed for longer than RC and VA."""
        quiet = self.now - 1 - self.last_change > self.options.rc + self.options.va + 1
        answers = any(link.retry is not None and link.retry.answered(self.now) for link in self.links)
        return quiet and not self.timed and not answers

    @property
    def deadlocked(self) -> bool:
        """Return whether flits are buffered, and nothing can move them."""
        return self.flits_in_flight > 0 and self._quiet

    def _reason_to_give_up(self) -> str:
        """Return why to stop when nothing moves: messages that only their NPUs hold are no deadlock of packets."""
        return "deadlock" if self.flits_in_flight else "" if self._starts else "idle"
