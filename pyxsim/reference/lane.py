"""An injection lane, in one cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyxsim.core.engine_options import RouterOptions
from pyxsim.reference.allocators import rotate
from pyxsim.reference.components import Flit, Kind, Link, Message, Packet


@dataclass(eq=False)
class Lane:
    """An injection lane with its source queues, one per message class."""

    link: Link
    options: RouterOptions
    kinds: Sequence[Kind]
    open: dict[int, Packet] = field(default_factory=dict)  # by VC
    class_pointer: int = 0
    launch_pointer: int = 0
    paused: bool = False  # whether it opens no packets

    def __post_init__(self) -> None:
        self.queues: list[deque[Message]] = [deque() for _ in self.kinds]
        self.opening_pointers = [classes[0].start for classes in self.link.ranges]  # by virtual network

    @property
    def busy(self) -> bool:
        """Whether a packet is open or a message waits."""
        return bool(self.open) or any(self.queues)

    def join(self, message: Message, t: int) -> None:
        """Do step 2 of a message: it joins its source queue in cycle `t`."""
        self.queues[message.kind.number].append(message)

    def step(self, t: int) -> tuple[bool, Flit | None]:
        """Do step 3. Return whether a packet was opened, and the launched flit."""
        if not self.busy:
            return False, None
        if self.options.shared_limit < 0:
            self.link.share_slots(self.options.shared_limit)
        return self.open_packet(t), self.launch_flit(t)

    def open_packet(self, t: int) -> bool:
        """Open at most one packet; return whether one was opened."""
        ready = {kind.number: vcs for kind in self.kinds if (vcs := self.openings(kind, t))}
        if not ready:
            return False
        top = max(self.kinds[k].priority for k in ready)
        chosen = rotate([k for k in ready if self.kinds[k].priority == top], self.class_pointer)
        self.class_pointer = (chosen + 1) % len(self.kinds)
        vnet, queue = self.kinds[chosen].vnet, self.queues[chosen]
        vc = rotate(ready[chosen], self.opening_pointers[vnet])
        self.opening_pointers[vnet] = vc + 1
        message = queue[0]
        self.open[vc] = message.next_packet()
        self.link.outputs[vc].hold(self.open[vc])
        if len(self.open) == 1:
            self.launch_pointer = vc
        if message.opened == message.packets:
            queue.popleft()
        return True

    def openings(self, kind: Kind, t: int) -> list[int]:
        """Return the VCs on which a class may open its next packet."""
        queue = self.queues[kind.number]
        if self.paused:
            return []
        another = any(packet.message.kind is kind for packet in self.open.values())
        if not queue or (another and not self.options.interleaved):
            return []
        price = Flit(Packet(queue[0], -1, queue[0].next_size, -1), 0).price(self.options.flow)
        outputs = [self.link.outputs[vc] for vc in self.link.ranges[kind.vnet][0]]
        return [out.number for out in outputs if out.free(t) and out.has(price)]

    def launch_flit(self, t: int) -> Flit | None:
        """Launch at most one flit of the open packets, and return it."""
        vcs = list(self.open)
        if not self.options.ordered:
            vcs = [vc for vc in vcs if self.payable(vc)]
            top = max((self.open[vc].message.kind.priority for vc in vcs), default=0)
            vcs = [vc for vc in vcs if self.open[vc].message.kind.priority == top]
        if not vcs or not self.link.accepts(t, t):
            return None
        vc = rotate(vcs, self.launch_pointer)
        if not self.payable(vc):
            return None
        flit = self.open[vc].next_flit()
        self.launch_pointer = (vc + 1) % len(self.link.outputs) if flit.tail else vc
        self.link.outputs[vc].spend(flit, self.options.flow, t)
        self.link.launch(flit, vc, t)
        if flit.tail:
            del self.open[vc]
        return flit

    def payable(self, vc: int) -> bool:
        """Return whether the open packet of a VC has the credits for its next flit."""
        packet = self.open[vc]
        return self.link.outputs[vc].has(Flit(packet, packet.launched).price(self.options.flow))
