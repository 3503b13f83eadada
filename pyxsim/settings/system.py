"""[system]: how collectives are divided into chunks, queued and scheduled over the dimensions, as in ASTRA-sim."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from pyxsim import plugins
from pyxsim.errors import InputError, raise_all
from pyxsim.settings.algorithms import Algorithms
from pyxsim.settings.endpoint import Endpoint
from pyxsim.settings.memory import RemoteMemory
from pyxsim.settings.npu import Npu
from pyxsim.settings.semantics import faults_of
from pyxsim.settings.spelling import DIMENSION_ORDERS, QUEUE_ORDERS
from pyxsim.settings.types import (
    Bandwidth,
    Flag,
    Members,
    Npus,
    PerDimension,
    Registered,
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
    """Convert ASTRA-sim's names of values."""
    return BeforeValidator(lambda value: words.get(value, value) if isinstance(value, str) else value)


def _or_none(value: str | None) -> str | None:
    return None if value == "none" else value


Scheduling = Annotated[Literal["LIFO", "FIFO", "explicit"], _astra({"EXPLICIT": "explicit"})]
_Compat = Annotated[str, Registered(plugins.system_layers, ("none",))]
IntraDimension = Annotated[
    str,
    Registered(plugins.queue_orders, ("FIFO",)),
    _astra(QUEUE_ORDERS),
]
InterDimension = Annotated[
    Literal["ascending", "round-robin", "themis", "themis-flex"],
    _astra(DIMENSION_ORDERS),
]


class SharedBus(Table):
    """The bus between an NPU and its network interface, shared by its messages: the LogGP model of ASTRA-sim."""

    L: Time = Field(default=written("0 ns"), description="Latency of the bus.")
    o: Time = Field(
        default=written("0 ns"), description="Overhead: time that the NPU at either end is busy with a message."
    )
    g: Time = Field(default=written("0 ns"), description="Gap: minimum time between two messages.")
    G: Time = Field(default=written("0 ns"), description="Gap per byte: additional time per byte of a long message.")
    reduction_delay: Time = Field(
        default=written("0 ns"),
        description="Time to reduce 100 bytes; each reduction adds 50 ns (local-reduction-delay).",
    )

    @field_validator("G")
    @classmethod
    def _exact(cls, gap: Fraction | Cycles) -> Fraction | Cycles:
        if isinstance(gap, Cycles):
            raise InputError("is a whole number of cycles per byte", allowed="a time such as '0.01 ns'")
        return gap


class Straggler(Table):
    """NPUs that start late or are slow."""

    npus: Npus = Field(description="The NPUs.")
    start: Time = Field(default=written("0 ns"), description="Delay of these NPUs before each collective and message.")
    slow: Annotated[Fraction, *number(1, 10**6)] = Field(
        default=Fraction(1),
        description="Factor for the endpoint delays, reduction delays and compute times of these NPUs.",
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Straggler:
        if _zero(self, "start") and self.slow == 1:
            raise InputError("the straggler is neither late nor slow", allowed="`start`, `slow` or both")
        return self


class _Named(Table):
    name: Word = Field(description="Name of the group, for `[collective] group`.")
    npus: Members = Field(description="NPUs of the group, in the order of their ranks.")


class Group(Algorithms, _Named):
    """A communicator: NPUs that run collectives among themselves; its algorithms override those of [system]."""


class _Scheduling(Table):
    file: Word | None = Field(
        default=None,
        description="A system file of ASTRA-sim, relative to the folder of the experiment: text of version 1 or JSON "
        "of version 2. Keys in this table override those of the file.",
    )
    compat: Annotated[_Compat | None, AfterValidator(_or_none)] = Field(
        default=None,
        description='The simulator whose semantics are reproduced ([compat.md](compat.md)). "none" overrides that of '
        "a system file.",
    )
    chunks: _Count = Field(default=1, description="Chunks per collective (ASTRA-sim: preferred-dataset-splits).")
    active_chunks: _Count = Field(default=1, description="Chunks that are active in a dimension at the same time.")
    scheduling: Scheduling = Field(
        default="LIFO",
        description="Order of collectives: last issued first, first issued first, or by `priority`.",
    )
    intra_dimension: IntraDimension = Field(
        default="FIFO",
        description="Order of chunks in a queue, within that of `scheduling`: first come first served, alternating "
        "reduce-scatter and all-gather (RG), smallest first, or fewest remaining phases first.",
    )
    inter_dimension: InterDimension = Field(
        default="ascending",
        description="Order in which a chunk passes the dimensions: ascending, rotated from chunk to chunk, least "
        "loaded first (Themis), or least loaded first with chunk sizes that balance the loads (Themis flex).",
    )
    optimization: Literal["baseline", "localBWAware"] = Field(
        default="localBWAware",
        description="How an all-reduce over several dimensions is carried out: as an all-reduce in each (baseline), "
        "or as reduce-scatters followed by all-gathers in reverse order (localBWAware).",
    )
    endpoint_delay: Time = Field(
        default=written("0 ns"),
        description="Time that an NPU takes to receive a message before it can send messages that depend on it.",
    )
    reduction_delay: Time = Field(
        default=written("0 ns"),
        description="Time that an NPU takes to reduce a message into its buffer, independent of the message size.",
    )
    local_memory_bandwidth: Bandwidth | None = Field(
        default=None,
        description="Memory bandwidth of an NPU for reductions, which read twice and write once: three times the "
        "message size. Default: no memory time.",
    )
    shared_bus: SharedBus | None = Field(
        default=None,
        description="The bus of each NPU, which replaces endpoint and reduction delays. Default: none. With compat = "
        '"astra-sim-2", local_memory_bandwidth applies as well.',
    )
    endpoint: Endpoint | None = Field(
        default=None,
        description="Memory of an NPU that computation and communication share, and an offload engine "
        "([endpoint.md](endpoint.md)). Default: computation and communication do not interfere.",
    )
    boost: Flag = Field(
        default=False,
        description="Whether to simulate only the NPUs that share a group of some dimension with NPU 0, on the "
        "assumption that all others behave in the same way.",
    )
    rendezvous: Flag = Field(
        default=False,
        description="Whether to use the rendezvous protocol: the receiver requests each message by a message of 8 KiB "
        '(ASTRA-sim: --rendezvous-protocol). Only with compat = "astra-sim-2".',
    )
    queues: PerDimension[_Count] | None = Field(
        default=None,
        description="Queues per dimension, one value or one per dimension. Default: one per direction of the block; "
        "with `compat` one per dimension, or per ring of Garnet's networks.",
    )
    start_skew: Time = Field(
        default=written("0 ns"),
        description="Maximum start delay of an NPU; the delay is drawn uniformly for each NPU and collective "
        "(`output.seed`).",
    )
    stragglers: tuple[Straggler, ...] = Field(
        default=(), description="NPUs that start late or are slow, one table [[system.stragglers]] each."
    )
    npu: Npu | None = Field(
        default=None,
        description="Compute speed of the NPUs, for models and for traces with operation counts "
        "([models.md](models.md)).",
    )
    remote_memory: RemoteMemory | None = Field(
        default=None, description="Memory outside the NPUs, for workloads that access it. Default: none."
    )
    groups: tuple[Group, ...] = Field(default=(), description="Communicators, one table [[system.groups]] each.")


class System(Algorithms, _Scheduling):
    """The system layer, between collectives and the network."""

    @model_validator(mode="after")
    def _check_consistency(self) -> System:
        raise_all([*_names(self), *_ineffective_settings(self), *_endpoint_conflicts(self), *faults_of(self)])
        return self

    def group(self, name: str) -> Group | None:
        """Return the group `name`, or None."""
        return next((group for group in self.groups if group.name == name), None)


def _names(system: System) -> list[InputError]:
    """Errors for groups with the same name."""
    names = [group.name for group in system.groups]
    return [
        InputError(f"duplicate group '{name}'", key=f"groups[{number}].name", allowed="unique names")
        for number, name in enumerate(names)
        if name in names[:number]
    ]


def _ineffective_settings(system: System) -> list[InputError]:
    """Errors for settings without effect. Keys of a system file are not known yet."""
    if system.file is not None:
        return []
    if system.rendezvous and system.compat is None:
        problem = "only ASTRA-sim 2 has this protocol"
        return [InputError(problem, key="rendezvous", allowed='false, or compat = "astra-sim-2"')]
    delays = [key for key in _DELAYS if not _zero(system, key)]
    if system.shared_bus is not None:
        # ASTRA-sim 2 adds the memory time.
        both = ("local_memory_bandwidth",) if system.compat == "astra-sim-2" else ()
        return [
            InputError("cannot be combined with shared_bus", key=key, allowed="one of them")
            for key in delays
            if key not in both
        ]
    return []


def ineffective_stragglers(system: System) -> list[InputError]:
    """Errors for slow NPUs that have neither delays nor computation. Keys of a system file are not known yet."""
    if system.file is not None or system.shared_bus is not None or any(not _zero(system, key) for key in _DELAYS):
        return []
    allowed = f"with [workload], {', '.join(_DELAYS)} or shared_bus"
    return [
        InputError(
            "has no effect, because NPUs have no delays", key=f"system.stragglers[{number}].slow", allowed=allowed
        )
        for number, straggler in enumerate(system.stragglers)
        if straggler.slow != 1
    ]


def _endpoint_conflicts(system: System) -> list[InputError]:
    """Errors for settings that [system.endpoint] replaces, or that assume that NPUs behave alike."""
    if system.endpoint is None:
        return []
    reasons = {
        "local_memory_bandwidth": "system.endpoint models the memory traffic of reductions",
        "shared_bus": "system.endpoint models the path between memory and network",
        "boost": "boost simulates only some of the groups of an NPU, but all groups share its memory",
    }
    set_keys = [key for key in reasons if getattr(system, key)]
    return [InputError(reasons[key], key=key, allowed="one of them") for key in set_keys]


_DELAYS = ("endpoint_delay", "reduction_delay", "local_memory_bandwidth")


def _zero(table: Table, key: str) -> bool:
    return getattr(table, key) in (None, 0, Cycles(0))
