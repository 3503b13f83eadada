"""How the system layer works: the settings of [system], resolved for one network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pyxsim.collective.lookup import get_algorithm
from pyxsim.errors import InputError
from pyxsim.settings import System as Settings
from pyxsim.settings import per_dimension
from pyxsim.system.reduction import Rule, astra_sim_1, every_addition
from pyxsim.topology.topology import Queue, Topology
from pyxsim.units import to_cycles


@dataclass(frozen=True)
class Options:
    """How the system layer works; delays in cycles. The words are those of [system].

    algorithms   kind of collective -> name per dimension; raises InputError
    queues       per dimension: its queues
    room         per dimension: chunks that are worked on at a time in each queue
    by_turns     each phase of a chunk takes the next queue of its dimension (ASTRA-sim), else a chunk keeps its number
    together     all NPUs of the system finish a phase before any starts the next (ASTRA-sim 1)
    bandwidths   per dimension: of one NPU, in any unit (Themis)
    reduces      which messages cost the reduction delay
    """

    algorithms: Callable[[str], Sequence[str]]
    queues: Sequence[Sequence[Queue]]
    room: Sequence[int]
    bandwidths: Sequence[Fraction]
    chunks: int = 1
    newest_first: bool = True
    optimization: str = "localBWAware"
    inter_dimension: str = "ascending"
    endpoint_delay: int = 0
    reduction_delay: int = 0
    by_turns: bool = False
    together: bool = False
    reduces: Rule = every_addition


def resolve(
    settings: Settings, topology: Topology, clock: Fraction, bandwidths: Sequence[Fraction] | None = None
) -> Options:
    """Everything that [system] leaves open, from the network. Raises InputError.

    `bandwidths`: of an NPU in each dimension, in any unit (default: all alike).
    """
    dims = len(topology.dims)
    queues = _queues(settings, topology)
    astra = settings.compat == "astra-sim-1"
    # ASTRA-sim's Garnet backend knows no bandwidths: Themis takes all dimensions for alike there.
    if bandwidths is None or (astra and topology.confined):
        bandwidths = [Fraction(1)] * dims
    # ASTRA-sim divides by the queue count of dimension 0, whatever the dimension (Sys.cc of version 1).
    shares = [len(queues[0] if astra else queues[dim]) for dim in range(dims)]
    return Options(
        algorithms=lambda kind: _algorithms(settings, topology, kind),
        queues=queues,
        room=[-(-settings.active_chunks // share) for share in shares],
        bandwidths=bandwidths,
        chunks=settings.chunks,
        newest_first=settings.scheduling == "LIFO",
        optimization=settings.optimization,
        inter_dimension=settings.inter_dimension,
        endpoint_delay=to_cycles(settings.endpoint_delay, clock)[0],
        reduction_delay=to_cycles(settings.reduction_delay, clock)[0],
        by_turns=astra,
        together=astra,
        reduces=astra_sim_1 if astra else every_addition,
    )


def _queues(settings: Settings, topology: Topology) -> list[tuple[Queue, ...]]:
    """The queues of each dimension; where both directions exist, the first half of them is clockwise."""
    natural = list(topology.queues)
    if settings.queues is None:
        return natural
    wanted: Any = per_dimension(settings.queues, len(natural))
    if topology.lane_per_plane:
        for dim, (own, count) in enumerate(zip(natural, wanted, strict=True)):
            if len(own) != count:
                raise InputError(
                    f"dimension {dim} has {len(own)} rings with a queue each: {count} queues are impossible",
                    key="system.queues",
                    allowed=f"{len(own)} there, or no queues at all",
                )
        return natural
    return [
        tuple(own[number * len(own) // count] for number in range(count))
        for own, count in zip(natural, wanted, strict=True)
    ]


def _algorithms(settings: Settings, topology: Topology, kind: str) -> Sequence[str]:
    """The algorithm of each dimension: the one that was asked for, or the one that is natural to its block."""
    wanted = settings.algorithms(kind)
    dims = topology.dims
    key = f"system.{kind.replace('-', '_')}"
    if wanted is not None:
        names: tuple[str, ...] = per_dimension(wanted, len(dims))
        for name in names:
            get_algorithm(name, key=key).check(kind, key=key)
        if topology.confined and any(get_algorithm(name).over_all for name in names):
            raise InputError(
                "an algorithm over all dimensions needs routes between them, and these rings have none",
                key=key,
                allowed="an algorithm for each dimension",
            )
        return names
    return tuple(_natural(block.algorithm, kind) for block in dims)


def _natural(name: str, kind: str) -> str:
    """The block's own algorithm where it can do this kind of collective, else direct, which can do all."""
    return name if kind in get_algorithm(name).kinds else "direct"
