"""[network.router]: the routers. docs/router.md tells what each setting does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema, field_validator, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Flag, Options, PerDimension, Table, Word, WordOrTable, shown, whole
from pyxsim.units import MAX_CYCLES

MAX_VCS = 1024
MAX_FLITS = 2**20
MAX_ITERATIONS = 64

_Delay = Annotated[int, *whole(0, 1000)]
_AtLeastOne = Annotated[int, *whole(1, 1000)]


class Stages(NamedTuple):
    """Delays of the router's stages in cycles: buffer write, route, VC allocation, switch allocation, traversal."""

    bw: int
    rc: int
    va: int
    sa: int
    st: int


class PipelineTable(Table):
    """A pipeline told stage by stage; a stage that is left out is as in `booksim`."""

    bw: _Delay = Field(default=0, description="Buffer write: cycles before an arrived flit can be seen.")
    rc: _Delay = Field(default=1, description="Route computation, heads only.")
    va: _Delay = Field(
        default=1, description="VC allocation, heads only; 0: no stage, a head takes its VC when it wins the switch."
    )
    sa: _AtLeastOne = Field(
        default=1, description="Switch allocation; what is above 1 delays every flit at its arrival."
    )
    st: _Delay = Field(default=1, description="Switch traversal.")

    def stages(self) -> Stages:
        return Stages(self.bw, self.rc, self.va, self.sa, self.st)


# Each preset takes the router latency r. Garnet does RC, VA and SA in the last of its r cycles.
PIPELINES: dict[str, Callable[[int], Stages]] = {
    "booksim": lambda r: Stages(bw=0, rc=1, va=1, sa=1, st=1),
    "garnet": lambda r: Stages(bw=r - 1, rc=0, va=0, sa=1, st=0),
}

MATRIX_ALLOCATORS = ("separable-input-first", "separable-output-first", "islip", "wavefront", "age")


def _allocator(*more: str) -> tuple[PlainValidator, WithJsonSchema]:
    """The name of an allocator: one of `more`, or of those that match a request matrix."""
    words = (*more, *MATRIX_ALLOCATORS)

    def read(value: object) -> str:
        match = re.fullmatch(r"islip:([0-9]{1,9})", value) if isinstance(value, str) else None
        if isinstance(value, str) and (value in words or (match and 1 <= int(match[1]) <= MAX_ITERATIONS)):
            return value
        allowed = [*words, f"islip:1 to islip:{MAX_ITERATIONS}"]
        given = value if isinstance(value, str) else None
        raise InputError(f"{shown(value)} is none of what is allowed", allowed=allowed, given=given)

    return PlainValidator(read), WithJsonSchema({"enum": [*words, "islip:N"]})


class RouterSettings(Table):
    """Input-queued virtual-channel router with credits; docs/router.md is its contract."""

    pipeline: WordOrTable[Literal["booksim", "garnet"], PipelineTable] = Field(
        default="booksim", description="Stage delays: a preset, or a table of cycles `{ bw, rc, va, sa, st }`."
    )
    latency: _AtLeastOne = Field(default=1, description='Router latency in cycles, for `pipeline = "garnet"` only.')
    lookahead: Flag = Field(
        default=False, description="Routes are computed one router ahead: the stage RC costs no cycle."
    )
    speculation: Flag = Field(
        default=False,
        description="A head bids for the switch in the same cycle as for a VC; wasted where it gets none.",
    )
    vcs: Annotated[int, *whole(1, MAX_VCS)] = Field(default=4, description="Virtual channels per link.")
    virtual_networks: Annotated[tuple[Annotated[int, *whole(1, MAX_VCS)], ...], Field(min_length=1)] | None = Field(
        default=None,
        description="VCs of each virtual network, such as `[2, 2]`: messages of different networks share no VC. "
        "Left out: one network that has them all.",
    )
    buffer: Annotated[int | Literal["auto"], *whole(1, MAX_FLITS, "auto")] = Field(
        default="auto",
        description='Flits that the buffer of one VC holds; "auto": as many as cover the credit loop (in cut-through '
        "and store-and-forward, with room for whole packets besides).",
    )
    shared_buffer: Annotated[int, *whole(0, MAX_FLITS)] = Field(
        default=0, description="Flits that the VCs of a link hold together, in a pool besides the buffer of each."
    )
    flow_control: Literal["wormhole", "virtual-cut-through", "store-and-forward"] = Field(
        default="wormhole",
        description="A flit goes with room for itself; or a head with room for its whole packet; or that, and once the "
        "whole packet is there.",
    )
    vc_reuse: Literal["tail", "drained"] = Field(
        default="tail",
        description="An output VC is free again once the tail has left, or once all its credits are back.",
    )
    credit_delay: _Delay = Field(
        default=0, description="Cycles that a router takes more to count a credit that has come back."
    )
    va_allocator: Annotated[str, *_allocator("rotating")] = Field(
        default="rotating",
        description="Who is granted which output VC; `islip:N` makes N iterations. "
        "Other allocators than the first may hand out the VC that has just been freed, behind the packet before.",
    )
    sa_allocator: Annotated[str, *_allocator()] = Field(
        default="separable-input-first", description="Who may cross the switch; `islip:N` makes N iterations."
    )
    input_speedup: Annotated[int, *whole(1, MAX_VCS)] = Field(
        default=1, description="Connections of an input port to the switch; the VCs share them by number."
    )
    internal_speedup: Annotated[int, *whole(1, 16)] = Field(
        default=1,
        description="How often the router works in every cycle of the network. RC, VA and ST count such steps then, "
        "and links have an output queue.",
    )
    arbiter: Literal["round-robin", "step"] = Field(
        default="round-robin", description="How arbiters move on: after the winner, or (Garnet) one further per grant."
    )
    injection: Literal["packet", "interleaved"] = Field(
        default="packet", description="A lane has one open packet, or (Garnet) one for each VC."
    )
    ordered: Flag = Field(
        default=False,
        description="Packets do not overtake each other between a port and an output, as in Garnet's ordered networks.",
    )
    output_queue: Flag = Field(
        default=False, description="An unbounded queue in front of each link, as in Garnet's serialiser."
    )
    serdes: _Delay = Field(
        default=0, description="Cycles that a hop costs more where a flit takes longer than one cycle."
    )
    serdes_credit: PerDimension[Annotated[int, *whole(0, MAX_CYCLES)]] | None = Field(
        default=None,
        description="The same for the credits of such a hop, a number or a list with one per dimension. Left out: "
        "serdes, and the flit time that a credit waits.",
    )
    routing: Word | None = Field(
        default=None, description='The routing relation by name. Left out: that of the topology ("dimension-order").'
    )
    routing_options: Options = Field(
        default_factory=dict, description="What else the routing wants to know, by name (docs/routing.md)."
    )
    watchdog: Annotated[int, *whole(1, MAX_CYCLES)] = Field(
        default=10_000,
        description="Cycles between two looks for packets that can never move again while others still do.",
    )

    @field_validator("latency")
    @classmethod
    def _latency_is_garnets(cls, latency: int, info: ValidationInfo) -> int:
        if latency != 1 and info.data.get("pipeline", "garnet") != "garnet":
            raise InputError(f"{latency} has no effect with this pipeline", allowed="only with pipeline = 'garnet'")
        return latency

    @model_validator(mode="after")
    def _settings_fit_together(self) -> RouterSettings:
        raise_all(list(self._misfits()))
        return self

    def _misfits(self) -> Iterator[InputError]:
        """Settings that do not go with others, or would have no effect."""
        stages = self._pipeline_stages()
        if self.lookahead and not stages.rc:
            yield InputError("has no effect: RC takes no cycle in this pipeline", key="lookahead", allowed="false")
        if self.speculation and not stages.va:
            problem = "there is no VC allocation to run ahead of (va = 0)"
            yield InputError(problem, key="speculation", allowed="a pipeline with va of at least 1")
        if self.va_allocator != "rotating" and not stages.va:
            problem = f"'{self.va_allocator}' has no effect: the pipeline has no VC allocation (va = 0)"
            yield InputError(problem, key="va_allocator", allowed=["rotating"])
        networks = self.virtual_networks
        if networks is not None and sum(networks) != self.vcs:
            problem = f"they have {sum(networks)} VCs together, a link has {self.vcs}"
            yield InputError(problem, key="virtual_networks", allowed="numbers that add up to vcs")
        if self.input_speedup > self.vcs:
            problem = f"{self.input_speedup} is more than the VCs of a port"
            yield InputError(problem, key="input_speedup", allowed=f"at most vcs = {self.vcs}")
        garnets = {"arbiter": self.arbiter == "step", "ordered": self.ordered}
        for key in (key for key, given in garnets.items() if given):
            yield from self._no_garnet(key, stages)

    def _no_garnet(self, key: str, stages: Stages) -> Iterator[InputError]:
        """What does not go with Garnet's arbiters and its order."""
        others = {
            "va_allocator": (self.va_allocator, stages.va and self.va_allocator != "rotating"),
            "sa_allocator": (self.sa_allocator, self.sa_allocator != "separable-input-first"),
            "input_speedup": (self.input_speedup, self.input_speedup > 1),
            "internal_speedup": (self.internal_speedup, self.internal_speedup > 1),
            "speculation": (self.speculation, self.speculation),
        }
        for other, (value, given) in others.items():
            if given:
                problem = f"does not go with {other} = {shown(value)}"
                yield InputError(problem, key=key, allowed=f"{key} with the default of {other} only")

    def _pipeline_stages(self) -> Stages:
        if isinstance(self.pipeline, PipelineTable):
            return self.pipeline.stages()
        return PIPELINES[self.pipeline](self.latency)

    def stages(self) -> Stages:
        """The stage delays in cycles (ticks, with an internal speed-up), whichever way the pipeline was told."""
        stages = self._pipeline_stages()
        return stages._replace(rc=0) if self.lookahead else stages

    def networks(self) -> tuple[int, ...]:
        """The VCs of each virtual network."""
        return self.virtual_networks or (self.vcs,)
