"""[network.ethernet]: switches, NICs and transport of the Ethernet backend. docs/ethernet.md describes the effects."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bytes, Flag, Options, PositiveBytes, Table, Time, Word, number, whole, written

_Share = Annotated[Fraction, *number(0, 1)]
_Factor = Annotated[Fraction, *number(0, 1000)]


class Buffer(Table):
    """The packet buffer of a switch, which its ports share."""

    capacity: PositiveBytes = Field(default=written("32 MiB"), description="Size of the buffer of a switch.")
    queue: PositiveBytes | None = Field(
        default=None, description="Most bytes in one output queue. Default: what the buffer permits."
    )
    alpha: _Factor = Field(
        default=Fraction(1),
        description="Dynamic threshold: the share of the free buffer that one queue (with PFC: the packets of one "
        "input port and class) may take. 0: no threshold.",
    )
    reserve: Bytes = Field(
        default=written("0 B"), description="Bytes of each input port and class outside the shared part, with PFC."
    )


class Ecn(Table):
    """Explicit congestion notification: which packets a switch marks."""

    enabled: Flag = Field(default=True, description="Whether switches mark packets.")
    kmin: Bytes | None = Field(
        default=None,
        description="Depth of a queue up to which no packet is marked. Default: 1 us at the rate of the port.",
    )
    kmax: Bytes | None = Field(
        default=None,
        description="Depth of a queue beyond which every packet is marked. Default: 4 x kmin.",
    )
    pmax: _Share = Field(
        default=Fraction(1, 5),
        description="Probability of a mark at kmax; from kmin it rises linearly. kmin = kmax: a step, as in DCTCP.",
    )
    mark: Literal["dequeue", "enqueue"] = Field(
        default="dequeue", description="When the depth of the queue is compared: when a packet leaves or enters it."
    )

    @model_validator(mode="after")
    def _ascending(self) -> Ecn:
        if self.kmin is not None and self.kmax is not None and self.kmin > self.kmax:
            raise_all([InputError("kmin is larger than kmax", key="kmin", allowed="at most kmax")])
        return self


class Pfc(Table):
    """Priority-based flow control (IEEE 802.1Qbb): a switch pauses the senders of a class before its buffer is full."""

    enabled: Flag = Field(default=True, description="Whether switches pause senders; otherwise they drop packets.")
    headroom: Bytes | None = Field(
        default=None,
        description="Bytes of each input port for packets that arrive after the pause. Default: what is on the way in "
        "the meantime (docs/ethernet.md), which loses nothing.",
    )
    resume: Bytes = Field(
        default=written("3072 B"), description="Distance below the threshold at which a sender resumes."
    )
    frame: PositiveBytes = Field(default=written("84 B"), description="Size of a pause frame on the wire.")


class Ethernet(Table):
    """Settings of the Ethernet backend; the other backends ignore them."""

    mtu: PositiveBytes = Field(default=written("4096 B"), description="Most payload of a packet.")
    header: Bytes = Field(
        default=written("82 B"),
        description="Bytes on the wire of a packet beside its payload. Default: preamble and gap 20, Ethernet 18, "
        "IPv4 20, UDP 8, BTH 12 and ICRC 4 of RoCEv2.",
    )
    ack: PositiveBytes = Field(default=written("84 B"), description="Size of an acknowledgment on the wire.")
    forwarding: Literal["store-and-forward", "cut-through"] = Field(
        default="store-and-forward",
        description="Whether a switch forwards a packet when it has arrived completely, or after its header.",
    )
    switch_latency: Time = Field(default=written("0 ns"), description="Latency of a switch.")
    load_balancing: Literal["ecmp", "spray", "adaptive"] = Field(
        default="ecmp",
        description="How one of several shortest routes is chosen: for each flow by a hash, for each packet at random, "
        "or for each packet by the shortest queue.",
    )
    transport: Word = Field(default="dcqcn", description="Congestion control: a transport (`pyxsim list transports`).")
    transport_options: Options = Field(default_factory=dict, description="Parameters of the transport, by name.")
    reliability: Literal["go-back-n", "selective"] = Field(
        default="go-back-n",
        description="What a sender repeats: all packets from the first lost one on, or the lost packets only.",
    )
    ack_interval: Annotated[int, *whole(1, 65536)] = Field(
        default=1, description="Packets per acknowledgment (go-back-N)."
    )
    nack_interval: Time = Field(
        default=written("500 us"), description="Time until the same gap is reported again (go-back-N)."
    )
    cnp_interval: Time = Field(
        default=written("0 ns"),
        description="Least time between congestion notification packets of a flow. 0: acknowledgments echo each mark.",
    )
    timeout: Time = Field(
        default=written("1 ms"),
        description="Retransmission timeout, doubled with each expiry in a row. 0: no retransmission.",
    )
    trim: Bytes = Field(
        default=written("0 B"),
        description="Size to which a switch cuts a packet that does not fit; its header continues in class 0. 0: the "
        "packet is dropped.",
    )
    end: Literal["received", "acknowledged"] = Field(
        default="received",
        description="When a message has arrived: when its receiver has all packets, or when its sender knows it.",
    )
    resolution: Time = Field(
        default=written("0 ns"),
        description="Transmission times are rounded to multiples of it. 0: to picoseconds.",
    )
    buffer: Buffer = Field(default_factory=Buffer, description="The buffers of switches.")
    ecn: Ecn = Field(default_factory=Ecn, description="Marks.")
    pfc: Pfc = Field(default_factory=Pfc, description="Pauses.")
