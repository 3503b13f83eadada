"""[network.router]: the routers. docs/router.md describes the effect of each setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema, no_info_plain_validator_function

from pyxsim.errors import InputError, nearest, raise_all
from pyxsim.plugins import allocators
from pyxsim.registry import OWN
from pyxsim.settings.types import Flag, Options, PerDimension, Table, Word, WordOrTable, exact, shown, whole
from pyxsim.units import MAX_CYCLES

MAX_VCS = 1024
MAX_FLITS = 2**20

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
    """A pipeline, stage by stage; the default of each stage is that of `booksim`."""

    bw: _Delay = Field(
        default=0, description="Buffer write (BW): cycles until an arrived flit is visible to the next stage."
    )
    rc: _Delay = Field(default=1, description="Route computation (RC); head flits only.")
    va: _Delay = Field(
        default=1, description="VC allocation (VA); head flits only. 0: a head receives its VC when it wins the switch."
    )
    sa: _AtLeastOne = Field(
        default=1, description="Switch allocation (SA); each cycle above 1 delays every flit on arrival."
    )
    st: _Delay = Field(default=1, description="Switch traversal.")

    def stages(self) -> Stages:
        """Return the stage delays."""
        return Stages(self.bw, self.rc, self.va, self.sa, self.st)


# Functions of the router latency r. Garnet does RC, VA and SA in the last of its r cycles.
PIPELINES: dict[str, Callable[[int], Stages]] = {
    "booksim": lambda r: Stages(bw=0, rc=1, va=1, sa=1, st=1),
    "garnet": lambda r: Stages(bw=r - 1, rc=0, va=0, sa=1, st=0),
}

MOST_STEPS = 16


def _steps() -> tuple[PlainValidator, WithJsonSchema]:
    """The type of an internal speed-up: an integer where it is one, such as 2, or 1.5."""
    allowed = f"a number from 1 to {MOST_STEPS}, such as 2 or 1.5"

    def read(value: object) -> int | float:
        steps = exact(value)
        if steps is None or isinstance(value, str):
            raise InputError(f"{shown(value)} is not a number", allowed=allowed)
        if not 1 <= steps <= MOST_STEPS:
            raise InputError(f"{shown(value)} is too {'small' if steps < 1 else 'large'}", allowed=allowed)
        return int(steps) if steps.denominator == 1 else float(steps)

    return PlainValidator(read), WithJsonSchema({"type": "number", "minimum": 1, "maximum": MOST_STEPS})


DEFAULT_ALLOCATORS = {"va": "rotating", "sa": "separable-input-first"}


def read_allocator(value: object, stage: str) -> tuple[str, int]:
    """Return (registered name, iterations) of an allocator such as "islip:2" for a stage ("va" or "sa").

    Raises InputError for a name that is not registered or not for this stage, or a wrong number of iterations.
    """
    if value == DEFAULT_ALLOCATORS[stage]:
        return str(value), 1  # without an import of the allocators
    word, colon, number = value.partition(":") if isinstance(value, str) else ("", "", "")
    if word in allocators:
        traits = allocators.traits(word)
        count = int(number) if re.fullmatch("[0-9]{1,9}", number) else 0
        if stage not in traits.stages:
            problem = f"the allocator {shown(value)} does not serve {stage.upper()}"
            raise InputError(problem, allowed=allocators.spellings(stage))
        if 1 <= count <= traits.iterations or not colon:
            return allocators.canonical(word), count or 1
    allowed = []
    for name in allocators.spellings(stage):
        counted = name.removesuffix(":N")
        allowed.append(name if name == counted else f"{counted}:1 to {counted}:{allocators.traits(counted).iterations}")
    if word and word not in allocators and not nearest(word, allowed):
        allowed.append(OWN)
    raise InputError(f"unknown value {shown(value)}", allowed=allowed, given=value if isinstance(value, str) else None)


class _AllocatorType:
    """The type of an allocator's name. A name that is not registered yet may come from a library, loaded later."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def read(self, value: object) -> str:
        """Validate a name."""
        default = value == DEFAULT_ALLOCATORS[self.stage]
        if default or not isinstance(value, str) or not value or value.partition(":")[0] in allocators:
            read_allocator(value, self.stage)
        return str(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        yours = {"type": "string", "format": "name of a registered allocator", "examples": ["my-pim"]}
        return {"anyOf": [{"enum": allocators.spellings(self.stage)}, yours]}


class RouterSettings(Table):
    """The input-queued virtual-channel routers with credit-based flow control; docs/router.md specifies them."""

    pipeline: WordOrTable[Literal["booksim", "garnet"], PipelineTable] = Field(
        default="booksim", description="Stage delays: a preset, or a table of cycles `{ bw, rc, va, sa, st }`."
    )
    latency: _AtLeastOne = Field(default=1, description='Router latency in cycles; only with `pipeline = "garnet"`.')
    lookahead: Flag = Field(
        default=False,
        description="Whether routes are computed one router ahead (lookahead routing), so that RC takes no cycle.",
    )
    speculation: Flag = Field(
        default=False,
        description="Whether a head requests the switch in the same cycle as a VC (speculative switch allocation); "
        "without a VC, the switch grant is wasted.",
    )
    vcs: Annotated[int, *whole(1, MAX_VCS)] = Field(default=4, description="Virtual channels per link.")
    virtual_networks: Annotated[tuple[Annotated[int, *whole(1, MAX_VCS)], ...], Field(min_length=1)] | None = Field(
        default=None,
        description="VCs of each virtual network, such as `[2, 2]`; different virtual networks share no VC. Default: "
        "one virtual network with all VCs.",
    )
    buffer: Annotated[int | Literal["auto"], *whole(1, MAX_FLITS, "auto")] = Field(
        default="auto",
        description='Flits per VC buffer; "auto": enough to cover the credit loop and, for cut-through and '
        "store-and-forward, whole packets.",
    )
    shared_buffer: Annotated[int, *whole(0, MAX_FLITS)] = Field(
        default=0, description="Flits in the buffer pool that the VCs of a link share in addition to their own buffers."
    )
    shared_limit: Annotated[int | Literal["equal", "power-of-two"], *whole(0, MAX_FLITS, "equal", "power-of-two")] = (
        Field(
            default=0,
            description="Maximum number of slots that one VC of a link with a shared buffer may occupy, including its "
            'own: a number (0: no limit); "equal": all slots divided by the number of VCs that packets hold; or '
            '"power-of-two": the same with that number rounded up to a power of two.',
        )
    )
    flow_control: Literal["wormhole", "virtual-cut-through", "store-and-forward"] = Field(
        default="wormhole",
        description="When a flit may advance: if there is space for the flit (wormhole); a head only if there is "
        "space for its whole packet (virtual-cut-through); or only if, in addition, the whole packet has arrived "
        "(store-and-forward).",
    )
    vc_reuse: Literal["tail", "drained"] = Field(
        default="tail",
        description="When an output VC is released: after the tail has left, or after all its credits have returned.",
    )
    credit_delay: _Delay = Field(default=0, description="Additional cycles until a router can use a returned credit.")
    va_allocator: Annotated[str, _AllocatorType("va")] = Field(
        default=DEFAULT_ALLOCATORS["va"],
        description="VC allocator; `islip:N` makes N iterations. "
        "All except `rotating` may assign a VC that was released in the same cycle.",
    )
    sa_allocator: Annotated[str, _AllocatorType("sa")] = Field(
        default=DEFAULT_ALLOCATORS["sa"], description="Switch allocator; `islip:N` makes N iterations."
    )
    input_speedup: Annotated[int, *whole(1, MAX_VCS)] = Field(
        default=1, description="Switch connections per input port; VC `v` uses connection `v` modulo this number."
    )
    output_speedup: Annotated[int, *whole(1, MAX_VCS)] = Field(
        default=1,
        description="Switch connections per output port; input port `i` uses connection `i` modulo this number. With "
        "more than one, links have an output queue behind ST.",
    )
    internal_speedup: Annotated[int | float, *_steps()] = Field(
        default=1,
        description="Router ticks per network cycle, such as 2 or 1.5. With more than one, RC, VA and ST are counted "
        "in ticks, and links have an output queue.",
    )
    hold_switch: Flag = Field(
        default=False,
        description="Whether a packet that won the switch holds its switch input and output until its tail has left, "
        "or until its next flit has not arrived or has no credit.",
    )
    priority: Literal["class", "age", "network-age", "local-age", "hops", "queue"] = Field(
        default="class",
        description="What ranks packets in allocators, after the priority of their message class: nothing; the cycle "
        "in which the message was sent, the packet entered the network, or the packet reached the front of its "
        "buffer (earlier first); or the number of routers passed or of flits in the buffer (more first).",
    )
    vc_requests: Literal["free", "credit"] = Field(
        default="free",
        description="Which VCs a head may request: all free VCs, or only those with a credit (requires a matrix "
        "allocator for VCs).",
    )
    vc_choice: Literal["lowest", "next"] = Field(
        default="lowest",
        description="Which free VC a head takes when it wins the switch, without a VA stage (va = 0): the lowest one, "
        "or the next one in turn. With `next`, heads rank behind flits that hold a VC (piggyback).",
    )
    vc_classes: Literal["disjoint", "shared"] = Field(
        default="disjoint",
        description="How VCs are divided among VC classes if the number of VCs is not a multiple of that of classes: "
        "as evenly as possible, or in equal parts, with the remaining VCs in all classes (requires a matrix "
        "allocator for VCs; can deadlock).",
    )
    arbiter: Literal["round-robin", "step"] = Field(
        default="round-robin",
        description="How arbiters update their pointer: past the winner, or by one per grant (Garnet).",
    )
    injection: Literal["packet", "interleaved"] = Field(
        default="packet", description="Whether a lane injects one packet at a time, or one per VC (Garnet)."
    )
    ordered: Flag = Field(
        default=False,
        description="Whether packets from an input port to an output port stay in order, as in Garnet's ordered "
        "networks.",
    )
    output_queue: Flag = Field(
        default=False, description="Whether each link has an output queue, like Garnet's serializer."
    )
    queue_limit: Annotated[int, *whole(0, MAX_FLITS)] = Field(
        default=0,
        description="Capacity of an output queue in flits: at this length the switch grants its output no further "
        "flits. 0: unbounded.",
    )
    serdes: _Delay = Field(
        default=0, description="Additional cycles per hop over a link with a flit time above one cycle."
    )
    serdes_credit: PerDimension[Annotated[int, *whole(0, MAX_CYCLES)]] | None = Field(
        default=None,
        description="Additional cycles for the credits of a hop over a link with a flit time above one cycle; one "
        "value or one per dimension. Default: serdes plus the flit time.",
    )
    routing: Word | None = Field(
        default=None,
        description='Name of the routing algorithm. Default: that of the topology (for grids "dimension-order").',
    )
    routing_options: Options = Field(
        default_factory=dict, description="Further parameters of the routing, by name ([routing.md](routing.md))."
    )
    watchdog: Annotated[int, *whole(1, MAX_CYCLES)] = Field(
        default=10_000,
        description="Cycles between two searches for packets that can never move again while others still move.",
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
        """Settings that conflict with others or have no effect."""
        stages = self._pipeline_stages()
        if self.lookahead and not stages.rc:
            yield InputError("has no effect: RC takes no cycle in this pipeline", key="lookahead", allowed="false")
        if self.speculation and not stages.va:
            problem = "requires VC allocation as a stage; the pipeline has va = 0"
            yield InputError(problem, key="speculation", allowed="a pipeline with va of at least 1")
        if self.va_allocator != DEFAULT_ALLOCATORS["va"] and not stages.va:
            problem = f"'{self.va_allocator}' has no effect: the pipeline has no VC allocation (va = 0)"
            yield InputError(problem, key="va_allocator", allowed=[DEFAULT_ALLOCATORS["va"]])
        networks = self.virtual_networks
        if networks is not None and sum(networks) != self.vcs:
            problem = f"the virtual networks have {sum(networks)} VCs in total; a link has {self.vcs}"
            yield InputError(problem, key="virtual_networks", allowed="numbers that add up to vcs")
        if self.input_speedup > self.vcs:
            problem = f"{self.input_speedup} exceeds the number of VCs of a port"
            yield InputError(problem, key="input_speedup", allowed=f"at most vcs = {self.vcs}")
        matrix = {"vc_requests": self.vc_requests == "credit", "vc_classes": self.vc_classes == "shared"}
        for key in (key for key, given in matrix.items() if given and self.va_allocator == DEFAULT_ALLOCATORS["va"]):
            problem = f"{shown(getattr(self, key))} requires a matrix allocator for VCs"
            yield InputError(problem, key=key, allowed=f"another va_allocator than {DEFAULT_ALLOCATORS['va']}")
        queued = self.output_queue or self.internal_speedup > 1 or self.output_speedup > 1
        if self.output_speedup > 1 and self.shared_buffer:
            problem = "cannot be combined with shared_buffer: two flits could take its last slot in the same cycle"
            yield InputError(problem, key="output_speedup", allowed="1 with a shared_buffer")
        if self.shared_limit and (not self.shared_buffer or self.flow_control != "wormhole"):
            problem = f"{shown(self.shared_limit)} requires a shared_buffer and wormhole flow control"
            yield InputError(problem, key="shared_limit", allowed="0, or a shared_buffer with wormhole")
        if self.vc_choice == "next" and stages.va:
            problem = "'next' has no effect: the pipeline has a VA stage"
            yield InputError(problem, key="vc_choice", allowed="lowest, or a pipeline with va = 0")
        if self.queue_limit and not queued:
            problem = "has no effect without output queues"
            allowed = "0, or output_queue, or an internal or output speed-up"
            yield InputError(problem, key="queue_limit", allowed=allowed)
        garnets = {"arbiter": self.arbiter == "step", "ordered": self.ordered}
        for key in (key for key, given in garnets.items() if given):
            yield from self._no_garnet(key, stages)

    def _no_garnet(self, key: str, stages: Stages) -> Iterator[InputError]:
        """Settings that Garnet's arbiters and ordering do not support."""
        others = {
            "va_allocator": (self.va_allocator, stages.va and self.va_allocator != DEFAULT_ALLOCATORS["va"]),
            "sa_allocator": (self.sa_allocator, self.sa_allocator != DEFAULT_ALLOCATORS["sa"]),
            "input_speedup": (self.input_speedup, self.input_speedup > 1),
            "internal_speedup": (self.internal_speedup, self.internal_speedup > 1),
            "output_speedup": (self.output_speedup, self.output_speedup > 1),
            "hold_switch": (self.hold_switch, self.hold_switch),
            "speculation": (self.speculation, self.speculation),
        }
        for other, (value, given) in others.items():
            if given:
                problem = f"cannot be combined with {other} = {shown(value)}"
                yield InputError(problem, key=key, allowed=f"{key} only with the default of {other}")

    def _pipeline_stages(self) -> Stages:
        if isinstance(self.pipeline, PipelineTable):
            return self.pipeline.stages()
        return PIPELINES[self.pipeline](self.latency)

    def stages(self) -> Stages:
        """Return the stage delays in cycles; in router steps with an internal speedup."""
        stages = self._pipeline_stages()
        return stages._replace(rc=0) if self.lookahead else stages

    @property
    def steps(self) -> int | Fraction:
        """The internal speed-up: steps of a router per cycle."""
        steps = Fraction(str(self.internal_speedup))
        return int(steps) if steps.denominator == 1 else steps

    @property
    def queue_after_st(self) -> bool:
        """Whether ST comes before the output queue, instead of being part of a link's delay."""
        return self.internal_speedup > 1 or self.output_speedup > 1

    def allocator(self, stage: str) -> tuple[str, int]:
        """Return (registered name, iterations) of the allocator of a stage, "va" or "sa".

        Raises InputError for an unknown name. The libraries must have been loaded.
        """
        try:
            return read_allocator(self.va_allocator if stage == "va" else self.sa_allocator, stage)
        except InputError as error:
            raise error.at(key=f"network.router.{stage}_allocator") from None

    def networks(self) -> tuple[int, ...]:
        """Return the number of VCs of each virtual network."""
        return self.virtual_networks or (self.vcs,)
