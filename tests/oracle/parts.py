"""The things that move and the things they move through: flits, packets, messages, virtual channels, links.

Written from docs/router.md alone and for reading alone. The engine in `pyxsim/core` is the fast
implementation of the same page; nothing here knows how it works.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from fractions import Fraction

CAUSES = ("vc", "credit", "serial", "arbitration")


@dataclass(eq=False)
class Message:
    """What a node sends: `packets` packets of `flits` flits, the last one of `last_flits`."""

    number: int
    inject: int
    eject: int
    dst: int
    plane: int
    packets: int
    flits: int
    last_flits: int
    at: int
    opened: int = 0
    arrived: int = 0
    first_launch: int = -1
    last_arrival: int = -1

    @property
    def total(self) -> int:
        return (self.packets - 1) * self.flits + self.last_flits

    def next_packet(self) -> Packet:
        index = self.opened
        self.opened += 1
        return Packet(self, index, self.last_flits if index == self.packets - 1 else self.flits)


@dataclass(eq=False)
class Packet:
    """`size` flits that follow one path; `launched` and `arrived` count them at the two interfaces."""

    message: Message
    index: int
    size: int
    launched: int = 0
    arrived: int = 0

    def next_flit(self) -> Flit:
        flit = Flit(self, self.launched)
        self.launched += 1
        return flit


@dataclass(eq=False)
class Flit:
    """One unit of flow control. `arrival` is the cycle in which it reaches the end of the link it is on."""

    packet: Packet
    index: int
    arrival: int = -1

    @property
    def head(self) -> bool:
        return self.index == 0

    @property
    def tail(self) -> bool:
        return self.index == self.packet.size - 1


@dataclass(eq=False)
class InputVC:
    """The downstream end of a VC: a FIFO, and what the packet at its front has got so far."""

    number: int
    fifo: deque[Flit] = field(default_factory=deque)
    most: int = 0
    front_time: int = -1  # f of the packet at the front
    granted: int = -1  # the output VC it holds, and since when
    granted_at: int = -1

    def put(self, flit: Flit, t: int) -> None:
        if not self.fifo and flit.head:
            self.front_time = t
        self.fifo.append(flit)
        self.most = max(self.most, len(self.fifo))

    def take(self, t: int) -> Flit:
        flit = self.fifo.popleft()
        if flit.tail:
            self.granted = self.granted_at = -1
            self.front_time = t + 1 if self.fifo else -1
        return flit


@dataclass(eq=False)
class OutputVC:
    """The upstream end of a VC: a credit counter, and the packet that holds it."""

    number: int
    depth: int
    drained: bool
    credits: int
    holder: Packet | None = None
    tail_left: int = -1  # the cycle in which the holder's tail went, -1 until then

    def free(self, t: int) -> bool:
        if self.holder is None:
            return True
        if self.tail_left < 0:
            return False
        return self.credits == self.depth if self.drained else t > self.tail_left

    def hold(self, packet: Packet) -> None:
        self.holder, self.tail_left = packet, -1

    def spend(self, flit: Flit, t: int) -> None:
        """A flit of the holder goes in cycle `t`: one slot downstream is spoken for."""
        if flit.packet is not self.holder or self.credits == 0:
            raise AssertionError("a flit left without its VC or without a credit")
        self.credits -= 1
        if flit.tail:
            self.tail_left = t


Launch = tuple[int, int, int, int, int, int]  # (cycle, link, vc, message, packet, flit)


@dataclass(eq=False)
class Link:
    """A directed link with the two ends of all its VCs; `src` or `dst` is -1 where an interface stands."""

    number: int
    src: int
    dst: int
    s: Fraction
    delay: int
    credit_delay: int
    output_queue: bool
    classes: int
    group: int
    inputs: list[InputVC]
    outputs: list[OutputVC]
    log: list[Launch]
    clear: Fraction = Fraction(0)  # `free` in the text: when the next flit can start
    queue: deque[tuple[Flit, int]] = field(default_factory=deque)
    flying: list[tuple[Flit, int]] = field(default_factory=list)
    returning: list[tuple[int, int]] = field(default_factory=list)  # (arrival, vc) of credits
    flits: int = 0
    stalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))

    def available(self, t: int) -> bool:
        return self.clear < t + 1

    def launch(self, flit: Flit, vc: int, t: int) -> None:
        if not self.available(t):
            raise AssertionError(f"link {self.number} is not available in cycle {t}")
        end = max(Fraction(t), self.clear) + self.s
        self.clear = end
        flit.arrival = math.ceil(end) + self.delay
        self.flying.append((flit, vc))
        self.flits += 1
        self.log.append((t, self.number, vc, flit.packet.message.number, flit.packet.index, flit.index))

    def accept(self, flit: Flit, vc: int, t: int) -> None:
        """Take a flit from the switch. With an output queue it may have to wait behind others."""
        if self.output_queue and (self.queue or not self.available(t)):
            self.queue.append((flit, vc))
        else:
            self.launch(flit, vc, t)

    def return_credit(self, vc: int, t: int) -> None:
        self.returning.append((t + self.credit_delay, vc))

    def arriving_flits(self, t: int) -> list[tuple[Flit, int]]:
        """Take off the wire the flits that arrive in cycle `t`, with their VCs."""
        here = [(flit, vc) for flit, vc in self.flying if flit.arrival == t]
        self.flying = [(flit, vc) for flit, vc in self.flying if flit.arrival != t]
        return here

    def arriving_credits(self, t: int) -> list[int]:
        """Take off the wire the credits that arrive in cycle `t`: their VCs."""
        here = [vc for when, vc in self.returning if when == t]
        self.returning = [(when, vc) for when, vc in self.returning if when != t]
        return here

    def vc_range(self, vc_class: int) -> range:
        vcs = len(self.outputs)
        return range(vc_class * vcs // self.classes, (vc_class + 1) * vcs // self.classes)

    def class_of(self, vc: int) -> int:
        return next(c for c in range(self.classes) if vc in self.vc_range(c))

    def check(self) -> None:
        """credits + buffer + in flight + in the output queue + credits in flight = B, for each VC."""
        away = Counter([vc for _, vc in self.flying] + [vc for _, vc in self.queue] + [vc for _, vc in self.returning])
        for out, buffer in zip(self.outputs, self.inputs, strict=True):
            total = out.credits + len(buffer.fifo) + away[out.number]
            if total != out.depth or out.credits < 0:
                raise AssertionError(f"link {self.number} vc {out.number}: {total} slots of {out.depth} accounted for")
