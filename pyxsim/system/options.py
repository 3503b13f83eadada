"""Options of the system layer: the settings of [system], resolved for one network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.lookup import get_algorithm
from pyxsim.errors import InputError
from pyxsim.network.fault_times import FaultTimes
from pyxsim.settings import System as Settings
from pyxsim.settings import per_dimension
from pyxsim.system.memory import MemoryOptions, resolve_memory
from pyxsim.topology.topology import Queue, Topology
from pyxsim.units import format_bandwidth, to_cycles, to_seconds

ASTRA_SIM_1 = "astra-sim-1"
_READS_AND_WRITES = 3  # of a reduction: two reads and a write of every byte
_OF_A_GROUP = "ring"  # of NPUs that form no grid, as in ASTRA-sim, unless all dimensions have the same algorithm


@dataclass(frozen=True)
class SharedBus:
    """The bus between an NPU and its network interface: LogGP, Alexandrov et al., SPAA 1995. L, o, g in cycles, G in
    cycles per byte; `reduction`: cycles for 100 bytes, `reduction_start` for each."""

    L: int
    o: int
    g: int
    G: Fraction
    reduction: Fraction = Fraction(0)
    reduction_start: int = 0


@dataclass(frozen=True)
class Endpoint:
    """The endpoint that computation and communication share; bytes per cycle, None for no limit (docs/endpoint.md)."""

    memory: Fraction | None = None
    communication: Fraction | None = None
    compute_share: Fraction = Fraction(0)
    engine: bool = False
    engine_memory: int | None = None
    engine_rate: Fraction | None = None


@dataclass(frozen=True)
class ComputeFault:
    """When an NPU computes `slow` times as long, or (0) not at all."""

    times: FaultTimes
    slow: Fraction


@dataclass(frozen=True)
class Options:
    """Options of a system layer, named as in [system]; delays in cycles.

    algorithms   kind of collective -> name per dimension of the network; raises InputError
    queues       per dimension: its queues
    slots        per dimension: chunks that each queue runs at a time
    bandwidths   per dimension: of one NPU, in any unit (Themis)
    reduction_bytes_per_cycle   of the local memory, which a reduction reads twice and writes once; None: no time
    start_skew   per NPU: so much later it begins with everything; empty: none does
    slowdown     per NPU: factor of its delays; empty: 1
    compute_faults   NPU -> when it is slow or stops; empty: no NPU ever
    lockstep     simulate the groups of NPU 0 in each phase, which stand for all others (pyxsim/system/lockstep.py)
    confined     messages cannot leave the dimension that they are in (Garnet's rings)
    remote_memory   what NPUs load from and store to besides; None: nothing
    carry        keep a log of messages, for the real data (pyxsim/system/data_carrier.py)
    """

    algorithms: Callable[[str], Sequence[str]]
    queues: Sequence[Sequence[Queue]]
    slots: Sequence[int]
    bandwidths: Sequence[Fraction]
    compat: str | None = None
    chunks: int = 1
    active_chunks: int = 1
    scheduling: str = "LIFO"
    optimization: str = "localBWAware"
    intra_dimension: str = "FIFO"
    inter_dimension: str = "ascending"
    endpoint_delay: int = 0
    reduction_delay: int = 0
    reduction_bytes_per_cycle: Fraction | None = None
    shared_bus: SharedBus | None = None
    endpoint: Endpoint | None = None
    boost: bool = False
    lockstep: bool = False
    rendezvous: bool = False
    start_skew: Sequence[int] = ()
    slowdown: Sequence[Fraction] = ()
    compute_faults: Mapping[int, Sequence[ComputeFault]] = field(default_factory=dict)
    confined: bool = False
    remote_memory: MemoryOptions | None = None
    carry: bool = False
    cycles_per_ns: Fraction = Fraction(1)

    def algorithms_for(self, kind: str, group: Communicator) -> Sequence[str]:
        """Return the algorithm of each dimension of a communicator. Raises InputError.

        NPUs that form no grid are one group over all dimensions: they use the algorithm that all dimensions share, or
        else the default of a group.
        """
        names = self.algorithms(kind)
        if group.is_grid:
            return [names[dim] for dim in group.dims]
        if len(set(names)) == 1:
            return [names[0].removeprefix("one-")]
        return [natural(_OF_A_GROUP, kind)]

    def priority(self, number: int, wanted: int | None) -> int:
        """Return the priority of collective `number`; higher goes first. `wanted`: with explicit scheduling."""
        if self.scheduling == "explicit":
            return wanted or 0
        return number if self.scheduling == "LIFO" else -number

    def reduction_cost(self, size: int) -> int:
        """Return the cycles of a reduction of `size` bytes."""
        bus, rate = self.shared_bus, self.reduction_bytes_per_cycle
        if bus is not None:
            return ceil(size // 100 * bus.reduction) + bus.reduction_start
        return self.reduction_delay + (ceil(_READS_AND_WRITES * size / rate) if rate else 0)

    def cycles_of_ns(self, ns: int) -> int:
        """Return a time in cycles, rounded up."""
        return ceil(ns * self.cycles_per_ns)

    def slow(self, npus: int) -> Sequence[Fraction]:
        """Return the factor of the delays of each NPU."""
        return self.slowdown or [Fraction(1)] * npus

    def endpoint_delays(self, npus: int) -> list[int]:
        """Return the cycles that each NPU takes to receive a message."""
        return [ceil(self.endpoint_delay * factor) for factor in self.slow(npus)]

    def skew(self, npu: int) -> int:
        """Return by how many cycles an NPU begins late."""
        return self.start_skew[npu] if self.start_skew else 0


def resolve(
    settings: Settings,
    topology: Topology,
    clock: Fraction,
    bandwidths: Sequence[Fraction] | None = None,
    *,
    seed: int = 1,
    carry: bool = False,
) -> Options:
    """Resolve the settings of [system] for a network. Raises InputError.

    Parameters
    ----------
    bandwidths
        Of an NPU in each dimension, in any unit; equal by default.
    seed
        Of the start skew.
    carry
        Keep a log of messages for real data.
    """
    dims = len(topology.dims)
    queues = _queues(settings, topology)
    astra = settings.compat == ASTRA_SIM_1
    # ASTRA-sim's Garnet backend has no bandwidths: Themis treats all dimensions as equal there.
    if bandwidths is None or (astra and topology.confined):
        bandwidths = [Fraction(1)] * dims
    memory = settings.local_memory_bandwidth
    return Options(
        algorithms=partial(_algorithms, settings, topology),
        queues=queues,
        slots=[-(-settings.active_chunks // len(own)) for own in queues],
        bandwidths=bandwidths,
        compat=settings.compat,
        chunks=settings.chunks,
        active_chunks=settings.active_chunks,
        scheduling=settings.scheduling,
        optimization=settings.optimization,
        intra_dimension=settings.intra_dimension,
        inter_dimension=settings.inter_dimension,
        endpoint_delay=to_cycles(settings.endpoint_delay, clock)[0],
        reduction_delay=to_cycles(settings.reduction_delay, clock)[0],
        reduction_bytes_per_cycle=memory / clock if memory is not None else None,
        shared_bus=_shared_bus(settings, clock),
        endpoint=_endpoint(settings, clock),
        boost=settings.boost,
        rendezvous=settings.rendezvous,
        start_skew=_start_skew(settings, topology.npus, clock, seed),
        slowdown=_slowdown(settings, topology.npus),
        confined=topology.confined,
        remote_memory=resolve_memory(settings.remote_memory, topology.npus, clock, settings.compat),
        carry=carry,
        cycles_per_ns=clock / 10**9,
    )


_REDUCTION_START = Fraction(50, 10**9)  # fixed seconds of each reduction (LogGP.cc of ASTRA-sim)


def _shared_bus(settings: Settings, clock: Fraction) -> SharedBus | None:
    bus = settings.shared_bus
    if bus is None:
        return None
    latency, overhead, gap = (to_cycles(time, clock)[0] for time in (bus.L, bus.o, bus.g))
    per_byte, reduction = (to_seconds(time, clock) * clock for time in (bus.G, bus.reduction_delay))
    start = ceil(_REDUCTION_START * clock) if reduction or settings.compat is not None else 0
    return SharedBus(latency, overhead, gap, per_byte, reduction, start)


_MOST_RATE = 2**30  # bytes per cycle that the 64-bit integers of pipes.pyx can represent


def _endpoint(settings: Settings, clock: Fraction) -> Endpoint | None:
    """Resolve the shared endpoint. Raises InputError for bandwidths that cannot be represented."""
    endpoint = settings.endpoint
    if endpoint is None:
        return None

    def rate(key: str) -> Fraction | None:
        bandwidth: Fraction | None = getattr(endpoint, key)
        if bandwidth is None:
            return None
        if not Fraction(1, 2**16) <= bandwidth / clock <= _MOST_RATE:
            problem = f"{format_bandwidth(bandwidth)} cannot be represented in cycles of this clock"
            allowed = f"2^-16 to {_MOST_RATE} bytes per cycle"
            raise InputError(problem, key=f"system.endpoint.{key}", allowed=allowed)
        return bandwidth / clock

    return Endpoint(
        rate("memory_bandwidth"),
        rate("communication_bandwidth"),
        endpoint.compute_share,
        endpoint.offload == "engine",
        endpoint.engine_memory,
        rate("engine_rate"),
    )


def _start_skew(settings: Settings, npus: int, clock: Fraction, seed: int) -> Sequence[int]:
    """Delay of each NPU's start: uniform up to `start_skew`, plus the start of its stragglers."""
    longest_skew = to_cycles(settings.start_skew, clock)[0]
    late = np.random.default_rng((seed, _SKEW)).integers(0, longest_skew, npus, endpoint=True).tolist()
    for straggler in settings.stragglers:
        for npu in set(straggler.npus):
            late[npu] += to_cycles(straggler.start, clock)[0]
    return late if any(late) else ()


_SKEW = 0x736B6577  # random stream of its own, independent of packets and routers


def _slowdown(settings: Settings, npus: int) -> Sequence[Fraction]:
    """Factor of each NPU's delays."""
    slow = [Fraction(1)] * npus
    for straggler in settings.stragglers:
        for npu in set(straggler.npus):
            slow[npu] *= straggler.slow
    return slow if settings.stragglers else ()


def _queues(settings: Settings, topology: Topology) -> list[tuple[Queue, ...]]:
    """Queues of each dimension; with both directions, the first half is clockwise."""
    natural = list(topology.queues)
    # ASTRA-sim has one queue per dimension by default; over Garnet one per ring.
    default = 1 if settings.compat is not None and not topology.lane_per_plane else None
    queues = default if settings.queues is None else settings.queues
    if queues is None:
        return natural
    counts: Any = per_dimension(queues, len(natural))
    if topology.lane_per_plane:
        for dim, (directions, count) in enumerate(zip(natural, counts, strict=True)):
            if len(directions) != count:
                raise InputError(
                    f"dimension {dim} has {len(directions)} rings with a queue each: {count} queues are impossible",
                    key="system.queues",
                    allowed=f"{len(directions)} there, or no queues at all",
                )
        return natural
    return [
        tuple(directions[number * len(directions) // count] for number in range(count))
        for directions, count in zip(natural, counts, strict=True)
    ]


def _algorithms(settings: Settings, topology: Topology, kind: str) -> Sequence[str]:
    """Algorithm of each dimension: that of the settings, or the natural one of its block."""
    wanted = settings.algorithms(kind)
    dims = topology.dims
    key = f"system.{kind.replace('-', '_')}"
    if wanted is not None:
        names: tuple[str, ...] = per_dimension(wanted, len(dims))
        for name in names:
            get_algorithm(name, key=key).check(kind, key=key)
        if topology.confined and any(get_algorithm(name).over_all for name in names):
            raise InputError(
                "an algorithm over all dimensions requires routes between them, which these rings do not have",
                key=key,
                allowed="one algorithm per dimension",
            )
        return names
    return tuple(natural(block.algorithm, kind) for block in dims)


def natural(name: str, kind: str) -> str:
    """Return a block's own algorithm if it supports this kind of collective, else direct, which supports all."""
    return name if kind in get_algorithm(name).kinds else "direct"
