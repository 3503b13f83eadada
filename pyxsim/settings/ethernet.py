"""[network.ethernet]: switches, NICs and transport of the Ethernet backend. docs/ethernet.md describes the effects."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import (
    Bandwidth,
    Bytes,
    Flag,
    Line,
    Npus,
    Options,
    PositiveBytes,
    Table,
    Time,
    Word,
    number,
    whole,
    written,
)

_Share = Annotated[Fraction, *number(0, 1)]
_Factor = Annotated[Fraction, *number(0, 1000)]


class Buffer(Table):
    """The packet buffer of a switch, which its ports share."""

    capacity: PositiveBytes = Field(default=written("32 MiB"), description="Size of the buffer of a switch.")
    queue: PositiveBytes | None = Field(
        default=None,
        description="Most bytes in one output queue, without PFC. Default: what the buffer permits; with NDP: eight "
        "packets.",
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
    random: Literal["switch", "ns-3"] = Field(
        default="switch",
        description="Random numbers for marks and for errors of links: of each switch and link, or those of ns-3, "
        "whose RngRun is `output.seed`.",
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
    headroom_delays: Annotated[int, *whole(0, 1000)] | None = Field(
        default=None,
        description="Headroom of each input port in multiples of what its link holds, rate x latency; replaces "
        "`headroom`.",
    )
    resume: Bytes = Field(
        default=written("3072 B"), description="Distance below the threshold at which a sender resumes."
    )
    frame: PositiveBytes = Field(default=written("84 B"), description="Size of a pause frame on the wire.")
    obeyed: Flag = Field(
        default=True,
        description="Whether PFC frames have an effect where they arrive. false: switches send them and drop what does "
        "not fit, as with ns-3's QbbEnabled=0.",
    )
    log: Flag = Field(
        default=False, description="Whether the result has a row for each PFC frame that arrives (`pfc_frames`)."
    )


class TrafficClass(Table):
    """A class of data with queues of its own. A message is in the first class whose conditions it meets.

    Other messages are in one further class after these, with weight 1, PFC and ECN.
    """

    traffic: Line = Field(
        default="*",
        description="Names of collectives, messages and communicating tasks, as in results; `*` stands for any text, "
        "`?` for any character.",
    )
    npus: Npus | None = Field(default=None, description="The sending NPUs, such as those of a job. Default: all.")
    min_size: Bytes = Field(default=written("0 B"), description="Least size of a message.")
    max_size: Bytes | None = Field(default=None, description="Largest size of a message. Default: any.")
    weight: Annotated[int, *whole(1, 1000)] = Field(
        default=1, description='Share of a port that other classes also use, with `scheduling = "weighted"`.'
    )
    pfc: Flag = Field(
        default=True, description="Whether the class is lossless, with PFC; otherwise its packets are dropped."
    )
    ecn: Flag = Field(default=True, description="Whether switches mark packets of the class.")

    @model_validator(mode="after")
    def _has_sizes(self) -> TrafficClass:
        if self.max_size is not None and self.max_size < self.min_size:
            problem = "max_size is smaller than min_size"
            raise_all([InputError(problem, key="max_size", allowed="at least min_size")])
        return self


class LinkFault(Table):
    """Links that are slow, lose packets or are down, for the whole run or a part of it."""

    link: Line = Field(
        description="Names of the links, as in the table `ports`; `*` stands for any text, `?` for any character. `*`: "
        "all links."
    )
    both_directions: Flag = Field(
        default=True, description="Whether the links in the opposite direction are affected, too."
    )
    rate_factor: _Share = Field(default=Fraction(1), description="Factor of the bandwidth of each link.")
    packet_error_rate: _Share = Field(
        default=Fraction(0), description="Probability that a packet is lost on the link, whatever its size."
    )
    bit_error_rate: _Share = Field(
        default=Fraction(0), description="Probability that a bit is wrong; a packet with a wrong bit is lost."
    )
    down: Flag = Field(default=False, description="Whether every packet is lost.")
    routes: Literal["avoid", "stale"] = Field(
        default="avoid",
        description='Whether routes avoid links that are down. "stale": packets sent there are lost, as before routing '
        "has converged.",
    )
    convergence: Time = Field(
        default=written("0 ns"),
        description="How long a link must be down before routes avoid it, and up before they use it again.",
    )
    start: Time = Field(default=written("0 ns"), description="From when on.")
    end: Time | None = Field(default=None, description="Until when. Default: the end of the run.")

    @model_validator(mode="after")
    def _has_an_effect(self) -> LinkFault:
        faults = []
        if not self.rate_factor:
            faults.append(InputError("a link without bandwidth", key="rate_factor", allowed="above 0, or down = true"))
        for key in ("packet_error_rate", "bit_error_rate"):
            if getattr(self, key) == 1:
                faults.append(InputError("no packet would arrive", key=key, allowed="below 1, or down = true"))
        raise_all(faults)
        return self


class PortRate(Table):
    """Values for the ports of one rate, which replace those of `ecn` and `buffer`."""

    rate: Bandwidth = Field(description="Rate of the ports.")
    kmin: Bytes | None = Field(default=None, description="As `ecn.kmin`.")
    kmax: Bytes | None = Field(default=None, description="As `ecn.kmax`.")
    pmax: _Share | None = Field(default=None, description="As `ecn.pmax`.")
    alpha: _Factor | None = Field(default=None, description="As `buffer.alpha`.")


def _few(classes: tuple[TrafficClass, ...]) -> tuple[TrafficClass, ...]:
    if len(classes) > 6:  # of 8, one is for control packets and one for other messages
        raise InputError(f"{len(classes)} traffic classes", allowed="at most 6")
    return classes


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
    load_balancing: Literal["ecmp", "spray", "adaptive", "flowlet"] = Field(
        default="ecmp",
        description="How one of several shortest routes is chosen: for each flow by a hash, for each packet at random, "
        "for each packet by the shortest queue, or for each flowlet at random.",
    )
    flowlet_gap: Time = Field(
        default=written("50 us"), description="A packet of a flow that follows the last one later begins a flowlet."
    )
    flowlet_entries: Annotated[int, *whole(1, 1 << 20)] = Field(
        default=4096, description="Entries of the table of flowlets of a switch; flows with the same hash share one."
    )
    source_ports: Literal["random", "counted"] = Field(
        default="random",
        description="UDP ports, which the hash of ECMP takes: a random source port to RoCEv2's 4791, or as in ns-3 "
        "source ports counted from 10000 by source and destination, to 100.",
    )
    pacing: Literal["flow", "port"] = Field(
        default="flow",
        description="When a NIC sends packets of flows below its rate: each flow as soon as its pause is over, or as "
        "in ns-3 by one timer per port, which is not set while the pause of any flow is over, so that the port may "
        "stay idle until the next reply.",
    )
    npus_forward: Flag = Field(
        default=True,
        description="Whether NPUs that are nodes of the network, as in a torus, forward packets of others to where "
        "switches alone do not lead. false: never.",
    )
    base_rtt: Literal["pair", "largest"] = Field(
        default="pair",
        description="Round-trip time for windows and congestion control: of source and destination, or the largest in "
        "the network.",
    )
    transport: Word = Field(default="dcqcn", description="Congestion control: a transport (`pyxsim list transports`).")
    transport_options: Options = Field(default_factory=dict, description="Parameters of the transport, by name.")
    queue_pairs: Annotated[int, *whole(1, 1024)] = Field(
        default=1,
        description="Queue pairs of a message: flows with a source port of their own, each with a part of its packets. "
        "Where a NIC has several ports, each uses another one in turn.",
    )
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
    timeout: Time | None = Field(
        default=None,
        description="Retransmission timeout, doubled with each expiry in a row. 0: no retransmission. Default: 1 ms; "
        "of Ultra Ethernet: 15 us and six times what a full queue takes.",
    )
    retries: Annotated[int, *whole(0, 65536)] = Field(
        default=16, description="Timeouts of a message in a row after which the run fails. 0: no limit."
    )
    trim: Bytes | None = Field(
        default=None,
        description="Size to which a switch cuts a packet that does not fit; its header continues in class 0. 0: the "
        "packet is dropped. Default: 0; of Ultra Ethernet and NDP: the size of an acknowledgment.",
    )
    end: Literal["received", "acknowledged"] = Field(
        default="received",
        description="When a message has arrived: when its receiver has all packets, or when its sender knows it.",
    )
    sampled_flows: Annotated[int, *whole(0, 256)] = Field(
        default=0,
        description="The result has rate, window, bytes in flight and round-trip time of this number of flows, the "
        "first ones, at the end of each window of time (`flow_windows`).",
    )
    resolution: Time = Field(
        default=written("0 ns"),
        description="Transmission times are rounded to multiples of it. 0: to picoseconds.",
    )
    buffer: Buffer = Field(default_factory=Buffer, description="The buffers of switches.")
    ecn: Ecn = Field(default_factory=Ecn, description="Marks.")
    pfc: Pfc = Field(default_factory=Pfc, description="Pauses.")
    scheduling: Literal["round-robin", "strict", "weighted"] = Field(
        default="round-robin",
        description="How a port serves its classes of data: a packet each in turn, the first listed class first, or "
        "bytes by weight (deficit weighted round robin).",
    )
    classes: Annotated[tuple[TrafficClass, ...], AfterValidator(_few)] = Field(
        default=(), description="Traffic classes of data, at most six. Default: one class."
    )
    links: tuple[LinkFault, ...] = Field(default=(), description="Links that are slow, lose packets or are down.")
    ports: tuple[PortRate, ...] = Field(
        default=(), description="Marks and thresholds by rate, one table `[[network.ethernet.ports]]` for each rate."
    )

    @model_validator(mode="after")
    def _takes_packets(self) -> Ethernet:
        """Queues hold a packet, and what is trimmed becomes smaller."""
        packet = self.mtu + self.header
        faults = []
        for key, size in ("buffer.queue", self.buffer.queue), ("buffer.capacity", self.buffer.capacity):
            if size is not None and size < packet:
                problem = f"{size} bytes do not hold a packet of {packet} bytes (mtu and header)"
                faults.append(InputError(problem, key=key, allowed=f"at least {packet} B"))
        if self.trim is not None and self.trim >= packet:
            problem = f"a packet has {packet} bytes (mtu and header)"
            faults.append(InputError(problem, key="trim", allowed=f"less than {packet} B"))
        if self.pacing == "port" and self.classes:
            problem = "one timer per port does not know traffic classes (network.ethernet.classes)"
            faults.append(InputError(problem, key="pacing", allowed='"flow"'))
        raise_all(faults)
        return self
