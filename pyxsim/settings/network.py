"""[network]: the simulated network. docs/router.md describes the effect of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.analytical import Analytical
from pyxsim.settings.credits import Credits
from pyxsim.settings.ethernet import Ethernet
from pyxsim.settings.failure import Reroute, Retry
from pyxsim.settings.router import PipelineTable, RouterSettings, Stages
from pyxsim.settings.transactions import Transactions
from pyxsim.settings.types import (
    Bandwidth,
    Bytes,
    Flag,
    Frequency,
    Line,
    Options,
    PerDimension,
    PositiveBytes,
    PositiveTime,
    Table,
    Word,
    per_dimension,
    whole,
    written,
)
from pyxsim.units import MAX_CYCLES, Duration, format_bandwidth, format_duration, rounding_warnings, to_cycles

__all__ = ["MAX_NPUS", "Dimension", "Network", "PipelineTable", "RouterSettings", "Stages"]

MAX_NPUS = 2**20

_Npus = Annotated[int, *whole(1, MAX_NPUS)]


class Dimension(Table):
    """One dimension of a product network."""

    block: Word = Field(
        description='Topology of the dimension: "ring", "mesh", "switch", "fully-connected", or another block.'
    )
    npus: _Npus = Field(description="NPUs along the dimension.")
    bandwidth: Bandwidth | None = Field(
        default=None, description="Bandwidth of the links of the dimension. Default: that of the network."
    )
    latency: PositiveTime | None = Field(
        default=None, description="Latency of the links of the dimension. Default: that of the network."
    )
    bidirectional: Flag | None = Field(
        default=None,
        description="Whether links exist in both directions, for blocks that support either. Default: "
        "that of the block.",
    )


class Network(Table):
    """The network: either `topology` (with `shape`) or `dims`, and its links and routers."""

    topology: Word | None = Field(
        default=None, description="A topology or named system on the shelf (`pyxsim list`). Instead: `dims`."
    )
    dims: Annotated[tuple[Dimension, ...], Field(min_length=1)] | None = Field(
        default=None, description="A product of blocks, one table `[[network.dims]]` per dimension."
    )
    shape: Annotated[tuple[_Npus, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="NPUs per dimension; NPU numbers increase fastest along the first dimension. Only with `topology`.",
    )
    options: Options = Field(
        default_factory=dict, description="Further parameters of the topology, by name. Only with `topology`."
    )
    name: Line | None = Field(
        default=None,
        description="Name of the network in summaries and results. Default: the name of its topology or of its named "
        "system ([systems.md](systems.md)).",
    )
    clock: Frequency = Field(
        default=written("1 GHz"),
        description="Clock of the network; simulated time counts its cycles. Default: 1 GHz or, if a link carries "
        "more than one flit per cycle at 1 GHz, the lowest multiple of 1 GHz at which no link does.",
    )
    flit: PositiveBytes = Field(default=written("256 B"), description="Size of a flit (flow control digit).")
    packet: PositiveBytes = Field(
        default=written("4 KiB"),
        description="Maximum payload of a packet; the last packet of a message may be shorter.",
    )
    header: Bytes = Field(default=written("0 B"), description="Header bytes in the head flit of each packet.")
    bandwidth: PerDimension[Bandwidth] = Field(
        default=written("100 GB/s"),
        description="Bandwidth of a link, per direction. One value, or one per dimension (kind of links).",
    )
    latency: PerDimension[PositiveTime] = Field(
        default=written("500 ns"),
        description="Latency of a link, rounded up to cycles. One value, or one per dimension (kind of links).",
    )
    lanes: Annotated[
        int | Literal["per-link", "per-dimension", "auto"], *whole(1, 1024, "per-link", "per-dimension", "auto")
    ] = Field(
        default="auto",
        description="Injection and ejection lanes of an NPU: one per link of its router, one per dimension, or a "
        'number. "auto": one per link, but a single lane where NPUs share a router and for [traffic]. '
        "Where packets choose their links, messages take the lanes in turn, and each is as wide as the widest link.",
    )
    lane_latency: PositiveTime | None = Field(
        default=None, description="Latency between an NPU's interface and its router. Default: 1 cycle."
    )
    lane_bandwidth: Bandwidth | None = Field(
        default=None, description="Bandwidth of a lane. Default: that of the fastest link that it serves."
    )
    host_links: Flag = Field(
        default=True,
        description="Whether NPUs that attach to switches (fat trees, dragonfly, slim-fly, random-regular; hyperx and "
        "concentrated-mesh with several NPUs per router) attach by host links. These links have the kind `host`, "
        "the first in lists of `bandwidth` and `latency`. Otherwise, or if `lanes`, `lane_latency` or "
        "`lane_bandwidth` is set, NPUs attach by lanes.",
    )
    pad_packets: Flag = Field(
        default=False,
        description="Whether every packet is padded to the full size, including the last packet of a message, as in "
        "Garnet.",
    )
    router: RouterSettings = Field(default_factory=RouterSettings, description="The routers.")
    retry: Retry | None = Field(default=None, description="Retry at the link, of the packet backend. Default: none.")
    reroute: Reroute | None = Field(
        default=None,
        description="Recomputes routing tables when links go down or come up. Default: routes stay the same.",
    )
    credits: Credits | None = Field(
        default=None,
        description="Credits as messages, of the packet backend. Default: credits return beside the links, and take no "
        "bandwidth.",
    )
    transactions: Transactions | None = Field(
        default=None,
        description="Messages as memory transactions with responses, on the packet backend "
        "([memory_traffic.md](memory_traffic.md)). Default: none.",
    )
    analytical: Analytical = Field(
        default_factory=Analytical, description="Settings of the analytical and flow backends."
    )
    ethernet: Ethernet = Field(default_factory=Ethernet, description="Settings of the Ethernet backend.")

    @field_validator("dims")
    @classmethod
    def _topology_or_dims(
        cls, dims: tuple[Dimension, ...] | None, info: ValidationInfo
    ) -> tuple[Dimension, ...] | None:
        if "topology" not in info.data:  # present but invalid: already reported
            return dims
        if (dims is None) == (info.data["topology"] is None):
            which = "neither 'topology' nor 'dims' is given" if dims is None else "cannot be combined with 'topology'"
            raise InputError(which, allowed="exactly one of them")
        _check_npus([dim.npus for dim in dims or ()])
        return dims

    @field_validator("shape", "options")
    @classmethod
    def _check_topology_key(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("dims"):
            raise InputError("requires 'topology'; cannot be combined with 'dims'")
        if info.field_name == "shape":
            _check_npus(value or ())
        return value

    @field_validator("packet")
    @classmethod
    def _packet_holds_a_flit(cls, packet: int, info: ValidationInfo) -> int:
        if packet < info.data.get("flit", 0):
            raise InputError("the packet is smaller than a flit", allowed="at least one flit")
        return packet

    @field_validator("header")
    @classmethod
    def _header_fits_the_head(cls, header: int, info: ValidationInfo) -> int:
        if header > info.data.get("flit", header):
            raise InputError("the header is larger than the head flit", allowed="at most one flit")
        return header

    @field_validator("transactions")
    @classmethod
    def _transaction_fills_a_flit(cls, transactions: Transactions | None, info: ValidationInfo) -> Transactions | None:
        if transactions is not None and info.data.get("flit", 0) > transactions.bytes_of("size"):
            size = transactions.bytes_of("size")
            raise InputError(
                f"a flit holds more than a transaction of {size} B", allowed=f"network.flit of at most {size} B"
            )
        return transactions

    @field_validator("bandwidth", "latency")
    @classmethod
    def _one_per_dimension(cls, value: object, info: ValidationInfo) -> object:
        dimensions = len(info.data.get("dims") or info.data.get("shape") or ())
        if isinstance(value, tuple) and dimensions and len(value) != dimensions:
            raise InputError(
                f"the list has {len(value)} entries, but the network has {dimensions} dimensions",
                allowed=f"one value for all, or a list of {dimensions}",
            )
        return value

    @model_validator(mode="after")
    def _check_times(self) -> Network:
        faults = []
        for key, latency in self._latencies_by_key():
            if to_cycles(latency, self.clock)[0] > MAX_CYCLES:
                faults.append(InputError(f"{format_duration(latency)} is too many cycles", key=key, allowed=_MOST))
        for key, bandwidth in self._bandwidths_by_key():
            if self.cycles_per_flit(bandwidth) > MAX_CYCLES:
                problem = f"one flit at {format_bandwidth(bandwidth)} takes too many cycles"
                faults.append(InputError(problem, key=key, allowed=_MOST))
        raise_all(faults)
        return self

    def _latencies_by_key(self) -> list[tuple[str, Duration]]:
        own = [(f"dims[{i}].latency", d.latency) for i, d in enumerate(self.dims or ()) if d.latency is not None]
        lane = [] if self.lane_latency is None else [("lane_latency", self.lane_latency)]
        return [*_by_key("latency", self.latency), *lane, *own]

    def _bandwidths_by_key(self) -> list[tuple[str, Fraction]]:
        own = [(f"dims[{i}].bandwidth", d.bandwidth) for i, d in enumerate(self.dims or ()) if d.bandwidth is not None]
        lane = [] if self.lane_bandwidth is None else [("lane_bandwidth", self.lane_bandwidth)]
        return [*_by_key("bandwidth", self.bandwidth), *lane, *own]

    def tables(self, *, defaults: bool = True) -> dict[str, Any]:
        """Return the table [network] as in a file; with `defaults` also the keys that are not set.

        A clock that is not set is left out: one that is written is never changed.
        """
        data = self.model_dump(mode="python", exclude_unset=not defaults, exclude_none=True)
        if "clock" not in self.model_fields_set:
            data.pop("clock", None)
        if not self.options:
            data.pop("options", None)
        return data

    @property
    def dimensions(self) -> int | None:
        """The number of dimensions from `dims` or `shape`; None if neither is given."""
        return len(self.dims or self.shape or ()) or None

    @property
    def has_host_links(self) -> bool:
        """Whether NPUs of indirect topologies have host links; settings of lanes replace these by lanes."""
        lanes_are_set = self.lanes != "auto" or self.lane_latency is not None or self.lane_bandwidth is not None
        return self.host_links and not lanes_are_set

    @property
    def lane_cycles(self) -> int:
        """Latency of a lane that is no host link, in cycles."""
        return 1 if self.lane_latency is None else to_cycles(self.lane_latency, self.clock)[0]

    def cycles_per_flit(self, bandwidth: Fraction) -> Fraction:
        """Return the exact serialization time of a flit on a link in cycles; below 1, the engine refuses the link."""
        return self.flit * self.clock / bandwidth

    def bandwidths(self, dimensions: int) -> list[Fraction]:
        """Return the bytes per second of the links of each dimension; a dimension's own value takes precedence."""
        values: tuple[Fraction, ...] = per_dimension(self.bandwidth, dimensions)
        own = [dim.bandwidth for dim in self.dims or ()] or [None] * dimensions
        return [value if mine is None else mine for value, mine in zip(values, own, strict=True)]

    def latencies(self, dimensions: int) -> list[Duration]:
        """Return the latency of the links of each dimension; a dimension's own value takes precedence."""
        values: tuple[Duration, ...] = per_dimension(self.latency, dimensions)
        own = [dim.latency for dim in self.dims or ()] or [None] * dimensions
        return [value if mine is None else mine for value, mine in zip(values, own, strict=True)]

    def warnings(self) -> list[str]:
        """Return one line per latency that rounding up to whole cycles increases by more than 1 %."""
        return rounding_warnings([(f"network.{key}", time) for key, time in self._latencies_by_key()], self.clock)


def _by_key(key: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, tuple):
        return [(f"{key}[{i}]", item) for i, item in enumerate(value)]
    return [(key, value)]


def _check_npus(counts: Sequence[int]) -> None:
    if prod(counts) > MAX_NPUS:
        raise InputError(f"{prod(counts)} NPUs are too many", allowed=f"at most {MAX_NPUS}")


_MOST = f"at most {MAX_CYCLES} cycles of the clock"
