"""Records of the slow network (slow_ethernet.py): packets, ports, nodes, flows; random draws and the hash of routes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

DATA, ACK, NACK, CNP, PAUSE, RESUME = "data", "ack", "nack", "cnp", "pause", "resume"
CONTROL, BULK = 0, 1  # traffic classes
WORD = 2**64 - 1


class SplitMix:
    """splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""

    def __init__(self, seed: int) -> None:
        self.state = seed & WORD

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & WORD
        return mixed ^ (mixed >> 31)

    def uniform(self) -> float:
        return (self.word() >> 11) / 2**53


def murmur3(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 (Appleby) of whole words."""

    def turned(word: int, count: int) -> int:
        return ((word << count) | (word >> (32 - count))) & 0xFFFFFFFF

    total = seed
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little")
        word = turned(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        total = (turned(total ^ word, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    total ^= len(data)
    total = (total ^ (total >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    total = (total ^ (total >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return total ^ (total >> 16)


def address(npu: int) -> int:
    """The IPv4 address of an NPU, 11.x.y.1."""
    return int.from_bytes(bytes([11, npu // 256, npu % 256, 1]), "big")


@dataclass(frozen=True)
class Rules:
    """[network.ethernet] as numbers: bytes and picoseconds."""

    mtu: int
    header: int
    ack: int
    forwarding: str
    load_balancing: str
    reliability: str
    ack_interval: int
    nack_interval: int
    cnp_interval: int
    timeout: int
    trim: int
    end: str
    resolution: int
    capacity: int
    queue: int | None
    alpha: float
    reserve: int
    ecn: bool
    kmin: int
    kmax: int
    pmax: float
    mark: str
    pfc: bool
    headroom: int | None
    resume: int
    frame: int
    error_rate: float = 0.0


@dataclass(eq=False)
class Packet:
    kind: str
    size: int
    src: int = -1
    dst: int = -1
    flow: Any = None
    cls: int = BULK
    number: int = 0
    cumulative: int = 0
    entropy: int = 0
    marked: bool = False
    trimmed: bool = False
    urgent: bool = False  # it fills the window: to be acknowledged at once
    sent: int = 0
    came: Any = None  # the port that sent it to the present node; None: made here
    whole_at: int = 0  # when its last byte is at the present node


@dataclass(eq=False)
class Port:
    number: int
    node: int
    peer: int
    byte_time: Fraction  # ps
    delay: int  # ps
    queue: tuple[deque[Packet], deque[Packet]] = field(default_factory=lambda: (deque(), deque()))
    peak: int = 0
    sending: Packet | None = None
    paused: bool = False  # by the receiver
    paused_since: int = 0
    pausing: bool = False  # the receiver's side: it has sent a pause
    ingress: int = 0  # bytes at the receiver, headroom apart
    headroom_used: int = 0
    headroom: int = 0
    flows: list[Flow] = field(default_factory=list)
    turn: int = 0
    counted: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("sent_bytes", "sent_packets", "marked", "dropped", "trimmed", "errors", "pauses", "paused_time"), 0
        )
    )

    def depth(self, cls: int) -> int:
        return sum(packet.size for packet in self.queue[cls])


@dataclass(eq=False)
class Node:
    npu: int | None
    pool: int
    random: SplitMix
    used: int = 0
    shared: int = 0


@dataclass(eq=False)
class Flow:
    src: int
    dst: int
    nbytes: int
    entropy: int
    start: int
    base_rtt: int
    sizes: list[int]  # payloads
    port: Any = None
    line: int = 0
    rate: float = 0.0
    window: float = 0.0
    bdp: int = 0
    next: int = 0  # first packet never sent, or that go-back-N sends next
    una: int = 0
    known: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    ready: bool = False
    finished: bool = False
    next_send: int = 0
    wake_at: int = 0
    timer_at: int = 0
    retry_at: int = 0
    due: list[int] = field(default_factory=list)  # timers that the transport has set
    expiries: int = 0
    end: int = -1
    state: Any = None
    # receiver
    expected: int = 0
    received: set[int] = field(default_factory=set)
    unacknowledged: int = 0
    nack_of: int = -1
    nack_after: int = 0
    cnp_after: int = 0
    complete: bool = False
    counted: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            (
                "sent",
                "resent",
                "delivered",
                "marked",
                "trimmed",
                "dropped",
                "errors",
                "out_of_order",
                "duplicates",
                "timeouts",
            ),
            0,
        )
    )

    def flight(self) -> int:
        """Bytes of payload on the way: sent, and neither acknowledged nor known to be lost."""
        return sum(self.sizes[i] for i in range(self.una, self.next) if i not in self.known and i not in self.lost)

    def may_send(self) -> bool:
        more = bool(self.lost) or self.next < len(self.sizes)
        return more and (self.window <= 0 or self.flight() < self.window)


@dataclass(frozen=True)
class Link:
    """A directed link between nodes."""

    node: int
    peer: int
    rate: int  # bits per second
    latency: int  # ps, that of a switch behind it included
