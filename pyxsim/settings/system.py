"""[system]: how collectives are cut into chunks, queued and scheduled over the dimensions, as in ASTRA-sim."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.algorithms import Algorithms
from pyxsim.settings.endpoint import Endpoint
from pyxsim.settings.members import Members, Npus
from pyxsim.settings.memory import RemoteMemory
from pyxsim.settings.npu import Npu
from pyxsim.settings.semantics import faults_of
from pyxsim.settings.spelling import DIMENSION_ORDERS, QUEUE_ORDERS
from pyxsim.settings.types import (
    Bandwidth,
    Flag,
    PerDimension,
    Table,
    Time,
    Word,
    number,
    whole,
    written,
)
from pyxsim.units import Cycles

_Count = Annotated[int, *whole(1, 2**20)]


def _astra(words: Mapping[str, str]) -> BeforeValidator:
    """ASTRA-sim's words for those of a key."""
    return BeforeValidator(lambda value: words.get(value, value) if isinstance(value, str) else value)


def _or_none(value: str | None) -> str | None:
    return None if value == "none" else value


Scheduling = Annotated[Literal["LIFO", "FIFO", "explicit"], _astra({"EXPLICIT": "explicit"})]
IntraDimension = Annotated[
    Literal["FIFO", "RG", "smallest-first", "fewest-phases-first"],
    _astra(QUEUE_ORDERS),
]
InterDimension = Annotated[
    Literal["ascending", "round-robin", "themis", "themis-flex"],
    _astra(DIMENSION_ORDERS),
]


class SharedBus(Table):
    """The bus between an NPU and its network interface, which its messages share: the LogGP model of ASTRA-sim."""

    L: Time = Field(default=written("0 ns"), description="Latency: of the way over the bus.")
    o: Time = Field(default=written("0 ns"), description="Overhead: the NPU is busy with a message at either end.")
    g: Time = Field(default=written("0 ns"), description="Gap: the least time between two messages.")
    G: Time = Field(default=written("0 ns"), description="Gap per byte: what a byte of a long message takes.")
    reduction_delay: Time = Field(
        default=written("0 ns"),
        description="What reducing 100 bytes takes; each reduction costs 50 ns on top (local-reduction-delay).",
    )

    @field_validator("G")
    @classmethod
    def _exact(cls, gap: Fraction | Cycles) -> Fraction | Cycles:
        if isinstance(gap, Cycles):
            raise InputError("cycles per byte would be whole ones", allowed="a time such as '0.01 ns'")
        return gap


class Straggler(Table):
    """NPUs that are late or slow."""

    npus: Npus = Field(description="Which NPUs.")
    start: Time = Field(
        default=written("0 ns"), description="So much later they begin with each collective and message."
    )
    slow: Annotated[Fraction, *number(1, 10**6)] = Field(
        default=Fraction(1), description="So many times longer their endpoint and reduction delays are."
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Straggler:
        if _zero(self, "start") and self.slow == 1:
            raise InputError("neither late nor slow", allowed="`start`, `slow` or both")
        return self


class _Named(Table):
    name: Word = Field(description="What collectives call it: `[collective] group`.")
    npus: Members = Field(description="Its NPUs, in the order of their ranks.")


class Group(Algorithms, _Named):
    """A communicator: some NPUs that run collectives among themselves. Algorithms count before those of [system]."""


class _Scheduling(Table):
    file: Word | None = Field(
        default=None,
        description="A system file of ASTRA-sim: text of version 1 or JSON of version 2. Keys given here override it. "
        "A relative path counts from the folder of the experiment.",
    )
    compat: Annotated[Literal["astra-sim-1", "astra-sim-2", "none"] | None, AfterValidator(_or_none)] = Field(
        default=None,
        description='Reproduce another simulator where it differs: docs/compat.md. "none" says that none is, though a '
        "system file brings one.",
    )
    chunks: _Count = Field(
        default=1, description="Chunks that a collective is cut into (ASTRA-sim: preferred-dataset-splits)."
    )
    active_chunks: _Count = Field(default=1, description="Chunks that are worked on at a time in each dimension.")
    scheduling: Scheduling = Field(
        default="LIFO",
        description="Which collective goes first: the last issued, the first, or the one of the highest `priority`.",
    )
    intra_dimension: IntraDimension = Field(
        default="FIFO",
        description="Which chunk goes first in a queue, among equals of `scheduling`: the first to come, "
        "reduce-scatters and all-gathers in turns (RG), the smallest, or the one with the fewest phases left.",
    )
    inter_dimension: InterDimension = Field(
        default="ascending",
        description="In which order a chunk goes through the dimensions: always ascending, rotated chunk by chunk, the "
        "least loaded first (Themis), or that with chunks cut to even out the loads (Themis flex).",
    )
    optimization: Literal["baseline", "localBWAware"] = Field(
        default="localBWAware",
        description="All-reduce over dimensions: one in each, or reduce-scatters there and all-gathers back.",
    )
    endpoint_delay: Time = Field(
        default=written("0 ns"), description="What an NPU needs to take in a message before it can go on."
    )
    reduction_delay: Time = Field(
        default=written("0 ns"), description="What an NPU needs to reduce a message into its buffer, whatever its size."
    )
    local_memory_bandwidth: Bandwidth | None = Field(
        default=None,
        description="Of an NPU's memory. A reduction writes once and reads twice: three times the message over this. "
        "Left out: no time.",
    )
    shared_bus: SharedBus | None = Field(
        default=None,
        description="The bus of each NPU instead of its endpoint and reduction delays. Left out: none. With "
        'compat = "astra-sim-2" reductions take what local_memory_bandwidth says, too.',
    )
    endpoint: Endpoint | None = Field(
        default=None,
        description="What computing and communicating share at an NPU: its memory; and an engine that takes "
        "collectives off it ([endpoint.md](endpoint.md)). Left out: they do not hold each other up.",
    )
    boost: Flag = Field(
        default=False,
        description="Simulate only the NPUs that share a dimension's group with NPU 0, and take the others for alike.",
    )
    rendezvous: Flag = Field(
        default=False,
        description="Each message is asked for first, by a message of 8 KiB from whoever receives it (ASTRA-sim: "
        '--rendezvous-protocol). With compat = "astra-sim-2" only.',
    )
    queues: PerDimension[_Count] | None = Field(
        default=None,
        description="Queues per dimension, a number or a list. Left out: one for each direction of the block; with "
        "`compat` one for each dimension, or ring of Garnet's networks.",
    )
    start_skew: Time = Field(
        default=written("0 ns"),
        description="Every NPU begins up to so much later with each collective, drawn evenly from `output.seed`.",
    )
    stragglers: tuple[Straggler, ...] = Field(
        default=(), description="NPUs that are late or slow, a table [[system.stragglers]] each time."
    )
    npu: Npu | None = Field(
        default=None,
        description="How fast NPUs compute, for models and for traces that tell operations "
        "([models.md](models.md)). Left out: unknown.",
    )
    remote_memory: RemoteMemory | None = Field(
        default=None, description="Memory beside that of the NPUs, for workloads that access it. Left out: none."
    )
    groups: tuple[Group, ...] = Field(default=(), description="Communicators, a table [[system.groups]] for each.")


class System(Algorithms, _Scheduling):
    """The layer between a collective and the network."""

    @model_validator(mode="after")
    def _sound(self) -> System:
        raise_all([*_names(self), *_without_effect(self), *_beside_endpoint(self), *faults_of(self)])
        return self

    def group(self, name: str) -> Group | None:
        """The group of that name."""
        return next((group for group in self.groups if group.name == name), None)


def _names(system: System) -> list[InputError]:
    """Groups must be told apart by their names."""
    names = [group.name for group in system.groups]
    return [
        InputError(f"there are two groups '{name}'", key=f"groups[{number}].name", allowed="a name for each")
        for number, name in enumerate(names)
        if name in names[:number]
    ]


def _without_effect(system: System) -> list[InputError]:
    """Settings that cannot matter beside others. What stands in a system file is not known yet."""
    if system.file is not None:
        return []
    if system.rendezvous and system.compat is None:
        problem = "a protocol of ASTRA-sim 2"
        return [InputError(problem, key="rendezvous", allowed='false, or compat = "astra-sim-2"')]
    delays = [key for key in ("endpoint_delay", "reduction_delay", "local_memory_bandwidth") if not _zero(system, key)]
    if system.shared_bus is not None:
        # ASTRA-sim 2 adds what the memory takes.
        both = ("local_memory_bandwidth",) if system.compat == "astra-sim-2" else ()
        return [
            InputError("the shared bus stands for it", key=key, allowed="one of them")
            for key in delays
            if key not in both
        ]
    if delays:
        return []
    return [
        InputError("nothing takes an NPU any time here", key=f"stragglers[{number}].slow", allowed=_DELAYS)
        for number, straggler in enumerate(system.stragglers)
        if straggler.slow != 1
    ]


def _beside_endpoint(system: System) -> list[InputError]:
    """Settings that say the same in another way, or take NPUs for alike."""
    if system.endpoint is None:
        return []
    why = {
        "local_memory_bandwidth": "system.endpoint says what reductions read and write",
        "shared_bus": "system.endpoint says how messages come from and to the memory",
        "boost": "memories are shared by all groups of an NPU, and it simulates some",
    }
    given = [key for key in why if getattr(system, key)]
    return [InputError(why[key], key=key, allowed="one of them") for key in given]


_DELAYS = "beside endpoint_delay, reduction_delay, local_memory_bandwidth or a shared_bus"


def _zero(table: Table, key: str) -> bool:
    return getattr(table, key) in (None, 0, Cycles(0))
