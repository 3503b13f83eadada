"""An injection lane, in one cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyxsim.reference.allocators import rotate
from pyxsim.reference.components import IDLE, MOVING, Flit, Kind, Link, Message, Packet, State


@dataclass(eq=False)
class Lane:
    """An injection lane with its source queues, one per message class."""

    link: Link
    flow: int
    interleaved: bool
    ordered: bool
    kinds: Sequence[Kind]
    record: bool
    queues: list[deque[Message]] = field(init=False)
    opening_pointers: list[int] = field(init=False)  # by virtual network
    open: dict[int, Packet] = field(default_factory=dict)  # by VC
    class_pointer: int = 0
    launch_pointer: int = 0
    states: dict[int, State] = field(default_factory=dict)  # by cycle
    lacking: int = -1  # first cycle without credits

    def __post_init__(self) -> None:
        self.queues = [deque() for _ in self.kinds]
        self.opening_pointers = [classes[0].start for classes in self.link.ranges]

    @property
    def busy(self) -> bool:
        """Whether a packet is open or a message waits."""
        return bool(self.open) or any(self.queues)

    def join(self, message: Message, t: int) -> None:
        """Do step 2 of a message: it joins its source queue."""
        queue = self.queues[message.kind.number]
        if queue:
            message.before = queue[-1]
        else:
            message.first = t
        queue.append(message)

    def step(self, t: int) -> tuple[bool, Flit | None]:
        """Do step 3. Return whether a packet was opened, and the launched flit; record the state of the lane."""
        available = self.link.available(t)
        if not self.open and not any(self.queues):
            self.lacking = -1
            if self.record:
                self.states[t] = IDLE if available else MOVING
            return False, None
        opened, flit = self.open_packet(t), self.launch_flit(t)
        for queue in self.queues:
            if queue and queue[0].first < 0:
                queue[0].first = t + 1
        if not self.record:
            return opened, flit
        state = MOVING if flit is not None or not available else self.silence(t)
        self.lacking = -1 if state.what != "credit" else t if self.lacking < 0 else self.lacking
        self.states[t] = state if self.lacking < 0 else replace(state, since=self.lacking)
        return opened, flit

    def silence(self, t: int) -> State:
        """Return why a lane does not launch a flit although its link is available."""
        if self.open:
            return State("credit", self.link.number, rotate(list(self.open), self.launch_pointer))
        waiting = [kind for kind in self.kinds if self.queues[kind.number]]
        if not waiting:
            return IDLE
        vcs = self.link.ranges[waiting[0].vnet][0]
        free = [vc for vc in vcs if self.link.outputs[vc].free(t)]
        if free:
            return State("credit", self.link.number, free[0])
        return State("vc", culprit=self.link.outputs[vcs.start].holder)

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
        self.open[vc].note(t, "opened", self.link.number, vc)
        self.link.outputs[vc].hold(self.open[vc])
        if len(self.open) == 1:
            self.launch_pointer = vc
        if message.opened == message.packets:
            queue.popleft()
        return True

    def openings(self, kind: Kind, t: int) -> list[int]:
        """Return the VCs on which a class may open its next packet."""
        queue = self.queues[kind.number]
        if not queue:
            return []
        if not self.interleaved and any(packet.message.kind is kind for packet in self.open.values()):
            return []
        price = Flit(Packet(queue[0], -1, queue[0].next_size, -1), 0).price(self.flow)
        outputs = [self.link.outputs[vc] for vc in self.link.ranges[kind.vnet][0]]
        return [out.number for out in outputs if out.free(t) and out.has(price)]

    def launch_flit(self, t: int) -> Flit | None:
        """Launch at most one flit of the open packets, and return it."""
        vcs = list(self.open)
        if not self.ordered:
            vcs = [vc for vc in vcs if self.payable(vc)]
            top = max((self.open[vc].message.kind.priority for vc in vcs), default=0)
            vcs = [vc for vc in vcs if self.open[vc].message.kind.priority == top]
        if not vcs or not self.link.available(t):
            return None
        vc = rotate(vcs, self.launch_pointer)
        if not self.payable(vc):
            return None
        flit = self.open[vc].next_flit()
        self.launch_pointer = (vc + 1) % len(self.link.outputs) if flit.tail else vc
        self.link.outputs[vc].spend(flit, self.flow, t)
        self.link.launch(flit, vc, t)
        if flit.tail:
            del self.open[vc]
        return flit

    def payable(self, vc: int) -> bool:
        """Return whether the open packet of a VC has the credits for its next flit."""
        packet = self.open[vc]
        return self.link.outputs[vc].has(Flit(packet, packet.launched).price(self.flow))
