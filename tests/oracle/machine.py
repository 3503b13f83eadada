"""The oracle: a second implementation of docs/router.md, slow and readable.

It steps every cycle, visits every link, lane and router in it, and proves the credit invariant after each one.
`Oracle` takes the same arguments as `pyxsim.core.engine.Engine` and must agree with it flit for flit.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tests.oracle.parts import CAUSES, Flit, InputVC, Launch, Link, Message, OutputVC, Packet
from tests.oracle.router import Lane, Pipeline, Router

if TYPE_CHECKING:
    from pyxsim.core.engine import Links, RouterOptions, Routes


class Oracle:
    """One network. Results: `launches`, `message_times`, `counters`, `buffer_max`, `finished` and `deadlocked`."""

    def __init__(self, routers: int, links: Links, routes: Routes, options: RouterOptions) -> None:
        self.now = 0
        self.launches: list[Launch] = []
        self.messages: list[Message] = []
        self.in_network = 0
        self._arrived = -1  # the last cycle whose arrivals have been dealt with
        self.last_change = -1  # the last cycle in which something arrived, started, was opened, granted or launched
        self._patience = int(options.rc) + int(options.va) + 1
        self._routers_count = routers
        self._routes = routes
        self._network = int(links.network)
        self._injection = int(links.injection)
        self._links = [
            self._link(links, i, bool(options.drained)) for i in range(links.network + links.injection + links.ejection)
        ]
        pipeline = Pipeline(
            int(options.rc),
            int(options.va),
            bool(options.step_arbiter),
            bool(options.interleaved),
            bool(options.ordered),
        )
        self._lanes = [Lane(link, pipeline) for link in self._links[self._network :][: self._injection]]
        self._routers = [
            Router(
                r,
                [link for link in self._links if link.dst == r],
                [link for link in self._links if link.src == r],
                pipeline,
                self._route,
            )
            for r in range(routers)
        ]

    def _link(self, links: Links, i: int, drained: bool) -> Link:
        vcs, depth = int(links.vcs[i]), int(links.depth[i])
        return Link(
            number=i,
            src=int(links.src[i]),
            dst=int(links.dst[i]),
            s=Fraction(int(links.s_num[i]), int(links.s_den[i])),
            delay=int(links.delay[i]),
            credit_delay=int(links.credit_delay[i]),
            output_queue=bool(links.output_queue[i]),
            classes=int(links.classes[i]),
            group=int(links.group[i]),
            inputs=[InputVC(v) for v in range(vcs)],
            outputs=[OutputVC(v, depth, drained, depth) for v in range(vcs)],
            log=self.launches,
        )

    def send(
        self, inject: int, eject: int, dst: int, plane: int, packets: int, flits: int, last_flits: int, at: int
    ) -> int:
        """Queue a message at cycle `at`; the arguments and the number returned are those of `Engine.send`."""
        if at < self.now:
            raise ValueError(f"cycle {at} is over, it is now {self.now}")
        message = Message(len(self.messages), inject, eject, dst, plane, packets, flits, last_flits, at)
        self.messages.append(message)
        return message.number

    def run(self, until: int) -> None:
        """Step to the beginning of cycle `until`."""
        while self.now < until:
            self.step()

    def step(self) -> None:
        """One cycle, in the order of the page."""
        t = self.now
        self.arrive()
        changed = False
        for message in self.messages:
            if message.at == t:
                self._lanes[message.inject].queue.append(message)
                changed = True
        for lane in self._lanes:
            opened, flit = lane.open_packet(t), lane.launch_flit(t)
            if flit is not None:
                self.in_network += 1
                message = flit.packet.message
                if message.first_launch < 0:
                    message.first_launch = t
            changed |= opened or flit is not None
        for router in self._routers:
            changed |= router.step(t)
        for link in self._links:
            if link.queue:
                link.stalls["serial"] += 1
            link.check()
        if changed:
            self.last_change = t
        self.now += 1

    def arrive(self) -> None:
        """Phase 1 of the present cycle. May be called ahead of `step`: the engine, too, stops only after it."""
        if self._arrived < self.now:
            self._arrived = self.now
            for link in self._links:
                self._arrivals(link, self.now)

    def _arrivals(self, link: Link, t: int) -> None:
        """Phase 1 of one link."""
        slots, flits = link.arriving_credits(t), link.arriving_flits(t)
        if len(flits) > 1:
            raise AssertionError(f"two flits reach the end of link {link.number} in cycle {t}")
        for vc in slots:
            link.outputs[vc].credits += 1
        for flit, vc in flits:
            if link.dst >= 0:
                link.inputs[vc].put(flit, t)
            else:
                link.inputs[vc].most = 1  # it fills a slot in the cycle in which it empties it
                link.return_credit(vc, t)
                self._consume(flit, t)
        launching = bool(link.queue) and link.available(t)
        if launching:
            link.launch(*link.queue.popleft(), t)
        if slots or flits or launching:
            self.last_change = t

    def _consume(self, flit: Flit, t: int) -> None:
        packet, message = flit.packet, flit.packet.message
        if flit.index != packet.arrived:
            raise AssertionError(f"message {message.number} packet {packet.index}: flit {flit.index} out of order")
        packet.arrived += 1
        message.arrived += 1
        self.in_network -= 1
        if message.arrived == message.total:
            message.last_arrival = t

    def _route(self, packet: Packet, incoming: Link, vc: int) -> tuple[Link, range]:
        """The link by which a packet leaves the router at the end of `incoming`, and the VCs it may use there."""
        router, message = incoming.dst, packet.message
        ejection = self._links[self._network + self._injection + message.eject]
        if ejection.src == router:
            return ejection, range(len(ejection.outputs))
        routes, row = self._routes, message.plane * self._routers_count + router
        for own, offset, digit in zip(routes.own[row], routes.offset[row], routes.digits[message.dst], strict=True):
            if own == -2 or (own != -1 and own == digit):
                continue
            link = self._links[int(routes.link[offset + digit])]
            if link.src != router:
                raise AssertionError(f"router {router} was told to use link {link.number}, which is not its own")
            stays = link.group >= 0 and link.group == incoming.group
            return link, link.vc_range(incoming.class_of(vc) if stays else int(routes.vc_class[offset + digit]))
        raise AssertionError(f"router {router} has no way to node {message.dst}")

    def counters(self) -> dict[str, list[int]]:
        """Totals per link, named as the engine names them."""
        totals = {f"stall_{cause}": [link.stalls[cause] for link in self._links] for cause in CAUSES}
        return {"flits": [link.flits for link in self._links], **totals}

    def buffer_max(self) -> list[int]:
        return [vc.most for link in self._links for vc in link.inputs]

    def message_times(self, message: int) -> tuple[int, int, int]:
        """(start asked for, first flit launched, last flit arrived); -1 where it has not happened."""
        m = self.messages[message]
        return m.at, m.first_launch, m.last_arrival

    def waiting(self) -> list[dict[str, int]]:
        """Every front flit in a router: where it sits, the link it wants, the VC it holds there (-1: none)."""
        return [
            {
                "link": router.inputs[place[0]].number,
                "vc": place[1],
                "wants": router.wish(place, flit)[0].number,
                "holds": vc.granted,
                "message": flit.packet.message.number,
                "packet": flit.packet.index,
            }
            for router in self._routers
            for place, vc, flit in router.fronts()
        ]

    @property
    def finished(self) -> bool:
        return all(m.last_arrival >= 0 for m in self.messages)

    @property
    def deadlocked(self) -> bool:
        """Flits are in the network, nothing is timed, and nothing has happened for longer than RC and VA take."""
        timed = any(link.flying or link.returning or link.queue for link in self._links)
        coming = any(message.at >= self.now for message in self.messages)
        quiet = self.now - 1 - self.last_change > self._patience
        return self.in_network > 0 and quiet and not timed and not coming
