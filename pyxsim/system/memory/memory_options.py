"""Options of the remote memory: the settings of [system.remote_memory], resolved for one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from math import ceil

from pyxsim.errors import InputError
from pyxsim.settings.memory import BANDWIDTHS
from pyxsim.settings.memory import RemoteMemory as Settings
from pyxsim.units import to_cycles

KEY = "system.remote_memory"
_ASTRA_SIM_2 = "astra-sim-2"
_NS_PER_S = 10**9
_STRETCHES = 5  # of an access, at most


class Access(IntEnum):
    """Kinds of access to remote memory.

    GATHER and REDUCE are collectives of a memory with reduction in its switches: all NPUs load the same bytes; all
    store bytes that are added on the way.
    """

    LOAD = 0
    STORE = 1
    GATHER = 2
    REDUCE = 3

    @property
    def loads(self) -> bool:
        """Whether bytes move to the NPUs."""
        return self in (Access.LOAD, Access.GATHER)

    @property
    def together(self) -> bool:
        """Whether all NPUs take part."""
        return self in (Access.GATHER, Access.REDUCE)


@dataclass(frozen=True)
class MemoryOptions:
    """The settings for one network. `latency` in cycles.

    `cut`: transfer times are truncated to whole nanoseconds, as in ASTRA-sim 2; otherwise rounded up to cycles.
    """

    settings: Settings
    npus: int
    latency: int
    cycles_per_ns: Fraction
    cut: bool = False

    def of(self, key: str) -> Fraction:
        """Return a bandwidth of the settings in bytes per cycle."""
        value: Fraction = getattr(self.settings, key)
        return value / (self.cycles_per_ns * _NS_PER_S)

    @property
    def rate(self) -> Fraction:
        """`bandwidth` in bytes per cycle."""
        return self.of("bandwidth")

    def transfer(self, size: int) -> int:
        """Return the cycles of a transfer of `size` bytes without contention."""
        cycles = size / self.rate
        return ceil(int(cycles / self.cycles_per_ns) * self.cycles_per_ns) if self.cut else ceil(cycles)

    def most(self, sizes: Sequence[int]) -> int:
        """Return an upper bound of the cycles of accesses of these sizes together."""
        keys = [key for key in BANDWIDTHS if getattr(self.settings, key) is not None]
        slowest = min(self.of(key) for key in keys)
        return _STRETCHES * (len(sizes) * (self.latency + 2) + ceil(sum(sizes) / slowest))

    @property
    def node_size(self) -> int:
        """NPUs of a node; all NPUs without nodes."""
        return self.settings.npus_per_node or self.npus

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.npus // self.node_size

    def refusal(self, access: Access) -> str | None:
        """Return why the memory does not support an access, or None."""
        if not access.together or self.settings.in_switch:
            return None
        return "the remote memory has no collectives in its switches (only hierarchical memory with in_switch does)"


def resolve_memory(
    settings: Settings | None, npus: int, clock: Fraction, compat: str | None = None
) -> MemoryOptions | None:
    """Return the memory options of a network. Raises InputError if the NPUs do not fill whole nodes."""
    if settings is None:
        return None
    if settings.npus_per_node is not None and npus % settings.npus_per_node:
        problem = f"{npus} NPUs do not fill nodes of {settings.npus_per_node} NPUs"
        raise InputError(problem, key=f"{KEY}.npus_per_node", allowed="a divisor of the number of NPUs")
    latency = to_cycles(settings.latency, clock)[0]
    return MemoryOptions(settings, npus, latency, clock / _NS_PER_S, cut=compat == _ASTRA_SIM_2)
