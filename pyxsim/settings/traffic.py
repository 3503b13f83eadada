"""[traffic]: open traffic (random packets, batches or a trace), and how it is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, PlainValidator, PrivateAttr, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Options, PerDimension, Table, Word, WordOrTable, shown, whole

MAX_FLITS = 2**20
MAX_CYCLES = 2**40
MAX_CLASSES = 64
_Flits = Annotated[int, *whole(1, MAX_FLITS)]
_Count = Annotated[int, *whole(1, 2**31)]


def _number(least: float, most: float, *, above: bool = False) -> tuple[PlainValidator, WithJsonSchema]:
    """The type of a number from `least` (exclusive with `above`) to `most`."""
    allowed = f"a number {'above' if above else 'from'} {least:g}{', at most' if above else ' to'} {most:g}"

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{shown(value)} is not a number", allowed=allowed)
        if not math.isfinite(value) or not least <= value <= most or (above and value == least):
            raise InputError(f"{shown(value)} is out of range", allowed=allowed)
        return float(value)

    return PlainValidator(read), WithJsonSchema({"type": "number"})


_Share = Annotated[float, *_number(0, 1)]
_Weight = Annotated[float, *_number(0, 1e9)]
_Load = Annotated[float, *_number(0, 1e6, above=True)]


def _process(value: object) -> str:
    if value != "bernoulli":
        bursts = value == "on-off"
        problem = "'on-off' requires probabilities" if bursts else f"unknown value {shown(value)}"
        raise InputError(problem, allowed="'bernoulli', or a table { process = \"on-off\", alpha = 0.01, beta = 0.01 }")
    return "bernoulli"


_Bernoulli = Annotated[Literal["bernoulli"], PlainValidator(_process), WithJsonSchema({"const": "bernoulli"})]


class MessageClass(NamedTuple):
    """A message class as the network sees it; higher priorities go first."""

    name: str
    virtual_network: int
    priority: int


class OnOff(Table):
    """On-off (bursty) injection; set two of `alpha`, `beta` and `r1`, the third follows from the load."""

    process: Literal["on-off"] = Field(description="The injection process.")
    alpha: _Share | None = Field(default=None, description="Probability per cycle that a node turns on.")
    beta: _Share | None = Field(default=None, description="Probability per cycle that a node turns off.")
    r1: _Share | None = Field(
        default=None, description="Probability per cycle that a node that is on creates a packet."
    )

    @model_validator(mode="after")
    def _check_probabilities(self) -> OnOff:
        set_keys = [key for key in ("alpha", "beta", "r1") if getattr(self, key) is not None]
        if len(set_keys) != 2:
            raise InputError(
                f"{len(set_keys)} of alpha, beta and r1 are set", allowed="two of them; the load determines the third"
            )
        return self


class Replies(Table):
    """Request-reply traffic: every packet of the class is a read or write request, and its destination replies."""

    read_request: _Flits = Field(default=1, description="Flits of a read request.")
    read_reply: _Flits = Field(default=5, description="Flits of the reply.")
    write_request: _Flits = Field(default=5, description="Flits of a write request.")
    write_reply: _Flits = Field(default=1, description="Flits of the reply.")
    write_share: _Share = Field(default=0.5, description="Share of write requests.")
    delay: Annotated[int, *whole(1, MAX_CYCLES)] = Field(
        default=1, description="Cycles from the arrival of a request to the creation of its reply."
    )
    virtual_network: Annotated[int, *whole(0, MAX_CLASSES)] = Field(
        default=1, description="Virtual network of the replies, an entry of network.router.virtual_networks."
    )
    priority: Annotated[int, *whole(0, 2**15)] = Field(default=0, description="Priority of the replies.")

    @property
    def request_flits(self) -> float:
        """Mean flits of a request."""
        return self.write_share * self.write_request + (1 - self.write_share) * self.read_request

    @property
    def reply_flits(self) -> float:
        """Mean flits of a reply."""
        return self.write_share * self.write_reply + (1 - self.write_share) * self.read_reply


class Batch(Table):
    """Batches: every node sends the same number of packets as fast as possible; a batch ends when all have arrived."""

    size: _Count = Field(description="Packets per node and batch.")
    count: _Count = Field(default=1, description="Number of batches, one after the other.")
    outstanding: Annotated[int, *whole(0, 2**31)] = Field(
        default=0,
        description="Maximum packets (with replies: requests) of a node in flight; 0: unlimited.",
    )


class TrafficClass(Table):
    """A traffic class; unset keys have the value of [traffic]."""

    name: Word | None = Field(default=None, description='Name in results. Default: "class 0", ...')
    pattern: Word | None = Field(default=None, description="Traffic pattern.")
    pattern_options: Options | None = Field(default=None, description="Options of the pattern, by name.")
    load: _Load | None = Field(default=None, description="Flits per node and cycle of this class.")
    packet_flits: PerDimension[_Flits] | None = Field(
        default=None, description="Flits per packet; a list is a mix of sizes."
    )
    packet_weights: Annotated[tuple[_Weight, ...], Field(min_length=1)] | None = Field(
        default=None, description="Relative frequency of each size of a mix."
    )
    injection: WordOrTable[_Bernoulli, OnOff] | None = Field(default=None, description="Injection process.")
    replies: Replies | None = Field(default=None, description="Replies to requests.")
    virtual_network: Annotated[int, *whole(0, MAX_CLASSES)] | None = Field(
        default=None, description="Virtual network of the packets of the class."
    )
    priority: Annotated[int, *whole(0, 2**15)] | None = Field(
        default=None, description="Priority; higher values go first."
    )
    _own: tuple[str, frozenset[str]] = PrivateAttr(
        ("", frozenset())
    )  # key prefix of the class, and the keys that it sets itself

    def key_of(self, key: str) -> str:
        """Return the key below [traffic] that sets `key` of a complete class; [traffic] sets inherited ones."""
        prefix, own = self._own
        name = key.partition(".")[0]
        inside = name in own or (name == "pattern_options" and "pattern" in own)
        return f"{prefix}{key}" if inside else key

    @property
    def sizes(self) -> tuple[int, ...]:
        """The packet sizes in flits."""
        flits = self.packet_flits or 1
        return flits if isinstance(flits, tuple) else (flits,)

    @property
    def weights(self) -> tuple[float, ...]:
        """The relative frequency of each packet size."""
        return self.packet_weights or (1.0,) * len(self.sizes)

    @property
    def mean_flits(self) -> float:
        """Mean flits per created packet, including its reply."""
        if self.replies is not None:
            return self.replies.request_flits + self.replies.reply_flits
        return sum(n * w for n, w in zip(self.sizes, self.weights, strict=True)) / sum(self.weights)

    def faults(self, key: str = "") -> Iterator[InputError]:
        """Yield the conflicts within a complete class."""
        _, own = self._own
        if self.replies is not None:
            for name in own.intersection(_SIZES):
                problem = "has no effect with replies, which have their own sizes"
                yield InputError(problem, key=f"{key}{name}", allowed="no value")
        if self.packet_weights is not None:
            if len(self.weights) != len(self.sizes):
                yield InputError(
                    f"{len(self.weights)} weights are given for {len(self.sizes)} packet sizes",
                    key=f"{key}packet_weights",
                    allowed=f"a list of {len(self.sizes)}",
                )
            elif not sum(self.weights):
                yield InputError("all weights are zero", key=f"{key}packet_weights")


_METHOD = ("warmup", "measure", "precision", "max_cycles", "latency_limit")  # of the measurement of traffic with a load
_SIZES = ("packet_flits", "packet_weights")  # replies set their own
_PACKETS = ("pattern", "pattern_options", *_SIZES)  # which a trace sets itself
_INHERITED = tuple(name for name in TrafficClass.model_fields if name != "name")


class Traffic(Table):
    """Open traffic: nodes create packets independently of the network; docs/traffic.md has the details."""

    pattern: Word = Field(
        default="uniform",
        description='Traffic pattern: "uniform", "uniform-other", "transpose", "bit-complement", "bit-reverse", '
        '"shuffle", "tornado", "neighbor", "diagonal", "asymmetric", "hotspot", "random-permutation", "adversarial", '
        '"matrix", or one from a library.',
    )
    pattern_options: Options = Field(
        default_factory=dict, description="Options of the pattern, by name: `{ nodes = [0, 5] }`."
    )
    load: _Load | None = Field(
        default=None,
        description="Offered load in flits per node and cycle, including replies. Required, except for a batch or a "
        "trace.",
    )
    packet_flits: PerDimension[_Flits] = Field(default=1, description="Flits per packet; a list is a mix of sizes.")
    packet_weights: Annotated[tuple[_Weight, ...], Field(min_length=1)] | None = Field(
        default=None, description="Relative frequency of each size of a mix. Default: equal."
    )
    injection: WordOrTable[_Bernoulli, OnOff] = Field(
        default="bernoulli",
        description="Injection process: a Bernoulli trial per cycle, or a table for bursts.",
    )
    replies: Replies | None = Field(default=None, description="Replies to requests.")
    virtual_network: Annotated[int, *whole(0, MAX_CLASSES)] = Field(
        default=0, description="Virtual network of the packets, an entry of network.router.virtual_networks."
    )
    priority: Annotated[int, *whole(0, 2**15)] = Field(default=0, description="Priority; higher values go first.")
    classes: Annotated[tuple[TrafficClass, ...], Field(min_length=1, max_length=MAX_CLASSES)] | None = Field(
        default=None, description="Traffic classes, one table `[[traffic.classes]]` each."
    )
    batch: Batch | None = Field(default=None, description="A fixed number of packets instead of a load.")
    trace: Word | None = Field(
        default=None,
        description="A file of messages, which replaces pattern and load: CSV with the columns cycle, src, dst, bytes.",
    )
    warmup: Annotated[int | Literal["auto"], *whole(0, MAX_CYCLES, "auto")] = Field(
        default="auto", description='Length of the warm-up in cycles, which is not measured; "auto": detected.'
    )
    measure: Annotated[int | Literal["auto"], *whole(1, MAX_CYCLES, "auto")] = Field(
        default="auto",
        description='Cycles whose packets are measured; "auto": until the precision is reached. In a saturated '
        "network only packets that have arrived by then count, and an automatic warm-up never ends, so set "
        "`warmup` as well.",
    )
    precision: Annotated[float, *_number(0, 1, above=True)] = Field(
        default=0.01,
        description="Target half-width of the 95 % confidence interval of the mean packet latency, relative to the "
        "mean.",
    )
    max_cycles: Annotated[int | Literal["auto"], *whole(1000, MAX_CYCLES, "auto")] = Field(
        default="auto",
        description='Maximum number of cycles, even if the precision is not reached or packets are in flight; "auto": '
        "200000 cycles, or more where packets are slow or rare.",
    )
    latency_limit: Annotated[int | Literal["auto"], *whole(1, MAX_CYCLES, "auto")] = Field(
        default="auto",
        description='Mean packet latency in cycles above which the network counts as saturated; "auto": 15 times '
        "the zero-load latency.",
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Traffic:
        faults: list[InputError] = []
        loads = [class_.load for class_ in self.classes or ()]
        finite = "batch" if self.batch else "trace" if self.trace else ""
        if self.batch and self.trace:
            faults.append(InputError("cannot be combined with [traffic.batch]", key="trace", allowed="one of them"))
        if finite:
            if self.load is not None or any(load is not None for load in loads):
                faults.append(InputError(f"a {finite} has no load", key="load", allowed="no value"))
            if self.classes:
                faults.append(InputError(f"a {finite} has a single class", key="classes", allowed="no value"))
            if self.injection != "bernoulli":
                faults.append(InputError(f"a {finite} has no injection process", key="injection"))
            if self.trace and self.replies:
                faults.append(InputError("a trace has no replies", key="replies"))
        elif self.load is None and (not loads or None in loads):
            key = f"classes[{loads.index(None)}].load" if any(loads) else "load"
            faults.append(InputError("is missing", key=key, allowed="flits per node and cycle, such as 0.3"))
        elif self.max_cycles != "auto":
            fixed = {key: int(value) for key in ("warmup", "measure") if (value := getattr(self, key)) != "auto"}
            least = sum(fixed.values()) + ("measure" not in fixed)
            if least > self.max_cycles:
                problem = f"{self.max_cycles} cycles are fewer than {' and '.join(fixed)}"
                faults.append(InputError(problem, key="max_cycles", allowed=f"at least {least}"))
        for key in self.without_effect:
            if key in self.model_fields_set and getattr(self, key) not in (None, {}):
                what = f"a {finite}, which runs until all packets have arrived"
                if key not in _METHOD:
                    what = "a trace, which sets it" if self.trace else "replies, which have their own sizes"
                faults.append(InputError(f"has no effect with {what}", key=key, allowed="no value"))
        names: set[str | None] = set()
        for key, class_ in self._complete():
            faults += class_.faults(key)
            if class_.name in names:
                faults.append(InputError(f"duplicate class name '{class_.name}'", key=f"{key}name"))
            names.add(class_.name)
        raise_all(faults)
        return self

    def background_faults(self, compat: str | None) -> Iterator[InputError]:
        """Yield an error for each setting that has no meaning beside collectives or a workload; `compat`: theirs."""
        beside = "beside collectives or a workload"
        if compat is not None:
            yield InputError(f"{compat} has no background traffic", key="traffic", allowed="no system.compat")
        for key in ("batch", "trace"):
            if getattr(self, key) is not None:
                yield InputError(f"is not supported {beside}", key=f"traffic.{key}", allowed="traffic.load")
        for class_ in self.resolved:
            if class_.replies is not None:
                key = f"traffic.{class_.key_of('replies')}"
                yield InputError(f"are not supported {beside}", key=key, allowed="packets without replies")
        for key in _METHOD[1:]:
            if key in self.model_fields_set and getattr(self, key) != type(self).model_fields[key].default:
                problem = f"has no effect {beside}, because the measurement ends with them"
                yield InputError(problem, key=f"traffic.{key}", allowed="no value")

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The keys that have no effect on a batch, a trace, or request-reply traffic."""
        if self.trace:
            return (*_PACKETS, *_METHOD)
        sizes = _SIZES if self.replies is not None and self.classes is None else ()
        return (*sizes, *_METHOD) if self.batch else sizes

    def _complete(self) -> Iterator[tuple[str, TrafficClass]]:
        """Yield the key prefix and the complete settings of each class."""
        own = {name: getattr(self, name) for name in _INHERITED}
        if self.classes is None:
            yield "", TrafficClass.model_construct(name="all", **own)
        for i, class_ in enumerate(self.classes or ()):
            # Inherited weights do not apply to another mix of sizes.
            inherited = own if class_.packet_flits is None else {**own, "packet_weights": None}
            inherited = inherited if class_.pattern is None else {**inherited, "pattern_options": {}}
            set_keys = {name: value for name in _INHERITED if (value := getattr(class_, name)) is not None}
            full: dict[str, Any] = {**inherited, **set_keys, "name": class_.name or f"class {i}"}
            complete = TrafficClass.model_construct(**full)
            complete._own = (f"classes[{i}].", frozenset(set_keys))
            yield f"classes[{i}].", complete

    @property
    def resolved(self) -> tuple[TrafficClass, ...]:
        """The complete settings of each class."""
        return tuple(class_ for _, class_ in self._complete())

    @property
    def offered(self) -> float | None:
        """Flits per node and cycle of all classes; None for a batch or a trace."""
        loads = [class_.load for class_ in self.resolved]
        return None if self.batch or self.trace else sum(load for load in loads if load is not None)

    def at(self, load: float) -> Traffic:
        """Return this traffic with another total load; classes keep their shares."""
        offered = self.offered
        if offered is None:
            raise InputError("this traffic has no load", key="traffic.load")
        if not self.classes or all(class_.load is None for class_ in self.classes):
            return self.model_copy(update={"load": load / len(self.resolved)})
        classes = tuple(
            class_.model_copy(update={"load": (full.load or 0.0) * load / offered})
            for class_, full in zip(self.classes, self.resolved, strict=True)
        )
        return self.model_copy(update={"classes": classes})

    def message_classes(self) -> tuple[MessageClass, ...]:
        """Return the message classes of the network: those of the packets, then those of their replies."""
        own = [
            MessageClass(str(class_.name), class_.virtual_network or 0, class_.priority or 0)
            for class_ in self.resolved
        ]
        replies = [
            MessageClass(f"replies to {class_.name}", answer.virtual_network, answer.priority)
            for class_ in self.resolved
            if (answer := class_.replies) is not None
        ]
        return (*own, *replies)
