"""[traffic]: packets by chance, by a batch or by a list instead of a collective; and how long they are measured."""

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
    """A number from `least` (or only `above` it) to `most`."""
    allowed = f"a number {'above' if above else 'from'} {least:g}{', at most' if above else ' to'} {most:g}"

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{shown(value)} is no number", allowed=allowed)
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
        problem = "'on-off' needs its probabilities" if bursts else f"{shown(value)} is none of what is allowed"
        raise InputError(problem, allowed="'bernoulli', or a table { process = \"on-off\", alpha = 0.01, beta = 0.01 }")
    return "bernoulli"


_Bernoulli = Annotated[Literal["bernoulli"], PlainValidator(_process), WithJsonSchema({"const": "bernoulli"})]


class MessageClass(NamedTuple):
    """What the network has to know of a class of messages. A higher priority goes first."""

    name: str
    virtual_network: int
    priority: int


class OnOff(Table):
    """Bursts: a node is on or off. Give two of `alpha`, `beta` and `r1`; the third follows from the load."""

    process: Literal["on-off"] = Field(description="The process of injection.")
    alpha: _Share | None = Field(default=None, description="Probability per cycle that a node turns on.")
    beta: _Share | None = Field(default=None, description="Probability per cycle that a node turns off.")
    r1: _Share | None = Field(default=None, description="Packets per cycle of a node that is on.")

    @model_validator(mode="after")
    def _two_of_three(self) -> OnOff:
        given = [key for key in ("alpha", "beta", "r1") if getattr(self, key) is not None]
        if len(given) != 2:
            raise InputError(
                f"{len(given)} of alpha, beta and r1 are given", allowed="two; the load determines the third"
            )
        return self


class Replies(Table):
    """Requests are answered: every packet of the class is a read or a write request, and its destination replies."""

    read_request: _Flits = Field(default=1, description="Flits of a read request.")
    read_reply: _Flits = Field(default=5, description="Flits of the reply to it.")
    write_request: _Flits = Field(default=5, description="Flits of a write request.")
    write_reply: _Flits = Field(default=1, description="Flits of the reply to it.")
    write_share: _Share = Field(default=0.5, description="Share of the requests that are writes.")
    delay: Annotated[int, *whole(1, MAX_CYCLES)] = Field(
        default=1, description="Cycles from the arrival of a request to the creation of its reply."
    )
    virtual_network: Annotated[int, *whole(0, MAX_CLASSES)] = Field(
        default=1, description="Virtual network of the replies: network.router.virtual_networks must have it."
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
    """Every node sends the same number of packets, as fast as it may; then all wait until all have arrived."""

    size: _Count = Field(description="Packets of each node in a batch.")
    count: _Count = Field(default=1, description="Batches, one after the other.")
    outstanding: Annotated[int, *whole(0, 2**31)] = Field(
        default=0,
        description="Packets of a node that may be under way at a time (with replies: requests); 0: any number.",
    )


class TrafficClass(Table):
    """One of several kinds of packets at the same time. What is left out is as in [traffic] itself."""

    name: Word | None = Field(default=None, description='What it is called in results; left out: "class 0", ...')
    pattern: Word | None = Field(default=None, description="Who sends to whom.")
    pattern_options: Options | None = Field(default=None, description="What the pattern wants to know, by name.")
    load: _Load | None = Field(default=None, description="Flits per node and cycle of this class.")
    packet_flits: PerDimension[_Flits] | None = Field(default=None, description="Flits of a packet; a list is a mix.")
    packet_weights: Annotated[tuple[_Weight, ...], Field(min_length=1)] | None = Field(
        default=None, description="How often each size of the mix is drawn."
    )
    injection: WordOrTable[_Bernoulli, OnOff] | None = Field(default=None, description="When a node creates a packet.")
    replies: Replies | None = Field(default=None, description="Whether requests are answered.")
    virtual_network: Annotated[int, *whole(0, MAX_CLASSES)] | None = Field(
        default=None, description="Which part of the VCs it uses."
    )
    priority: Annotated[int, *whole(0, 2**15)] | None = Field(default=None, description="The higher goes first.")
    _own: tuple[str, frozenset[str]] = PrivateAttr(("", frozenset()))  # where the class is told, and what of it there

    def key_of(self, key: str) -> str:
        """The key below [traffic] of something of a complete class: inherited settings are told in [traffic] itself."""
        prefix, told = self._own
        name = key.partition(".")[0]
        inside = name in told or (name == "pattern_options" and "pattern" in told)
        return f"{prefix}{key}" if inside else key

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of packets, in flits."""
        flits = self.packet_flits or 1
        return flits if isinstance(flits, tuple) else (flits,)

    @property
    def weights(self) -> tuple[float, ...]:
        """How often each size is drawn."""
        return self.packet_weights or (1.0,) * len(self.sizes)

    @property
    def mean_flits(self) -> float:
        """Flits that one trial which creates a packet brings into the network; with replies, those of both."""
        if self.replies is not None:
            return self.replies.request_flits + self.replies.reply_flits
        return sum(n * w for n, w in zip(self.sizes, self.weights, strict=True)) / sum(self.weights)

    def faults(self, key: str = "") -> Iterator[InputError]:
        """What does not go together in a complete class."""
        _, told = self._own
        if self.replies is not None:
            for name in told.intersection(_SIZES):
                problem = "has no effect with replies, which have their own sizes"
                yield InputError(problem, key=f"{key}{name}", allowed="leave it out")
        if self.packet_weights is not None:
            if len(self.weights) != len(self.sizes):
                yield InputError(
                    f"{len(self.weights)} weights for {len(self.sizes)} sizes of packets",
                    key=f"{key}packet_weights",
                    allowed=f"a list of {len(self.sizes)}",
                )
            elif not sum(self.weights):
                yield InputError("all weights are zero", key=f"{key}packet_weights")


_METHOD = ("warmup", "measure", "precision", "max_cycles", "latency_limit")  # how long traffic with a load is measured
_SIZES = ("packet_flits", "packet_weights")  # replies have others
_PACKETS = ("pattern", "pattern_options", *_SIZES)  # which a trace tells itself
_INHERITED = tuple(name for name in TrafficClass.model_fields if name != "name")


class Traffic(Table):
    """Open traffic: each node creates packets on its own. docs/traffic.md tells patterns, processes and the method."""

    pattern: Word = Field(
        default="uniform",
        description='Who sends to whom: "uniform", "uniform-other", "transpose", "bit-complement", "bit-reverse", '
        '"shuffle", "tornado", "neighbor", "diagonal", "asymmetric", "hotspot", "random-permutation", "adversarial", '
        '"matrix".',
    )
    pattern_options: Options = Field(
        default_factory=dict, description="What the pattern wants to know, by name: `{ nodes = [0, 5] }`."
    )
    load: _Load | None = Field(
        default=None,
        description="Flits per node and cycle. With replies, those of requests and replies together. Needed, except "
        "for a batch or a trace.",
    )
    packet_flits: PerDimension[_Flits] = Field(default=1, description="Flits of a packet; a list is a mix of sizes.")
    packet_weights: Annotated[tuple[_Weight, ...], Field(min_length=1)] | None = Field(
        default=None, description="How often each size of the mix is drawn. Left out: all equally often."
    )
    injection: WordOrTable[_Bernoulli, OnOff] = Field(
        default="bernoulli",
        description="When a node creates a packet: by a trial in each cycle, or a table for bursts.",
    )
    replies: Replies | None = Field(default=None, description="Requests that are answered.")
    virtual_network: Annotated[int, *whole(0, MAX_CLASSES)] = Field(
        default=0, description="Which part of the VCs packets use: an entry of network.router.virtual_networks."
    )
    priority: Annotated[int, *whole(0, 2**15)] = Field(default=0, description="The higher goes first.")
    classes: Annotated[tuple[TrafficClass, ...], Field(min_length=1, max_length=MAX_CLASSES)] | None = Field(
        default=None, description="Several kinds of packets at a time, one table `[[traffic.classes]]` each."
    )
    batch: Batch | None = Field(default=None, description="A fixed number of packets instead of a load.")
    trace: Word | None = Field(
        default=None,
        description="A file of messages instead of a pattern and a load: CSV with the columns cycle, src, dst, bytes.",
    )
    warmup: Annotated[int | Literal["auto"], *whole(0, MAX_CYCLES, "auto")] = Field(
        default="auto", description='Cycles that are left out at the beginning; "auto": as many as are found needed.'
    )
    measure: Annotated[int | Literal["auto"], *whole(1, MAX_CYCLES, "auto")] = Field(
        default="auto",
        description='Cycles whose packets are measured; "auto": until the precision is reached. In a saturated network '
        "only those count that have arrived by then; and its warm-up has no end: give `warmup`, too.",
    )
    precision: Annotated[float, *_number(0, 1, above=True)] = Field(
        default=0.01, description="Half of the 95 % interval of the mean packet latency, over the mean, to be reached."
    )
    max_cycles: Annotated[int | Literal["auto"], *whole(1000, MAX_CYCLES, "auto")] = Field(
        default="auto",
        description='When to stop though the precision is not reached, or packets are still missing; "auto": after '
        "200000 cycles, or more where packets are slow or rare.",
    )
    latency_limit: Annotated[int | Literal["auto"], *whole(1, MAX_CYCLES, "auto")] = Field(
        default="auto",
        description='Mean packet latency, in cycles, above which the network is called saturated; "auto": 15 times '
        "the latency without any load.",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Traffic:
        faults: list[InputError] = []
        loads = [each.load for each in self.classes or ()]
        finite = "batch" if self.batch else "trace" if self.trace else ""
        if self.batch and self.trace:
            faults.append(InputError("[traffic.batch] is given, too", key="trace", allowed="one of them"))
        if finite:
            if self.load is not None or any(load is not None for load in loads):
                faults.append(InputError(f"a {finite} has no load", key="load", allowed="leave it out"))
            if self.classes:
                faults.append(InputError(f"a {finite} has one class of packets", key="classes", allowed="leave it out"))
            if self.injection != "bernoulli":
                faults.append(InputError(f"a {finite} has no process of injection", key="injection"))
            if self.trace and self.replies:
                faults.append(InputError("messages of a trace are not answered", key="replies"))
        elif self.load is None and (not loads or None in loads):
            key = f"classes[{loads.index(None)}].load" if any(loads) else "load"
            faults.append(InputError("is missing", key=key, allowed="flits per node and cycle, such as 0.3"))
        elif self.max_cycles != "auto":
            fixed = {key: int(value) for key in ("warmup", "measure") if (value := getattr(self, key)) != "auto"}
            least = sum(fixed.values()) + ("measure" not in fixed)
            if least > self.max_cycles:
                problem = f"{self.max_cycles} cycles are over before {' and '.join(fixed)}"
                faults.append(InputError(problem, key="max_cycles", allowed=f"at least {least}"))
        for key in self.without_effect:
            if key in self.model_fields_set and getattr(self, key) not in (None, {}):
                what = f"a {finite}, that is measured to its end"
                if key not in _METHOD:
                    what = "a trace, whose messages it tells" if self.trace else "replies, which have their own sizes"
                faults.append(InputError(f"has no effect with {what}", key=key, allowed="leave it out"))
        names: set[str | None] = set()
        for key, each in self._complete():
            faults += each.faults(key)
            if each.name in names:
                faults.append(InputError(f"two classes are called '{each.name}'", key=f"{key}name"))
            names.add(each.name)
        raise_all(faults)
        return self

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The keys that tell nothing of a batch, a trace, or requests that are answered."""
        if self.trace:
            return (*_PACKETS, *_METHOD)
        answered = _SIZES if self.replies is not None and self.classes is None else ()
        return (*answered, *_METHOD) if self.batch else answered

    def _complete(self) -> Iterator[tuple[str, TrafficClass]]:
        """The key and the complete settings of each class."""
        own = {name: getattr(self, name) for name in _INHERITED}
        if self.classes is None:
            yield "", TrafficClass.model_construct(name="all", **own)
        for i, each in enumerate(self.classes or ()):
            # A mix of sizes has weights of its own.
            inherited = own if each.packet_flits is None else {**own, "packet_weights": None}
            inherited = inherited if each.pattern is None else {**inherited, "pattern_options": {}}
            given = {name: value for name in _INHERITED if (value := getattr(each, name)) is not None}
            full: dict[str, Any] = {**inherited, **given, "name": each.name or f"class {i}"}
            complete = TrafficClass.model_construct(**full)
            complete._own = (f"classes[{i}].", frozenset(given))
            yield f"classes[{i}].", complete

    @property
    def resolved(self) -> tuple[TrafficClass, ...]:
        """Every class with all of its settings."""
        return tuple(each for _, each in self._complete())

    @property
    def offered(self) -> float | None:
        """Flits per node and cycle of all classes; None where the traffic is not told by a load."""
        loads = [each.load for each in self.resolved]
        return None if self.batch or self.trace else sum(load for load in loads if load is not None)

    def at(self, load: float) -> Traffic:
        """The same traffic with another load; several classes keep their shares of it."""
        offered = self.offered
        if offered is None:
            raise InputError("this traffic has no load that could be changed", key="traffic.load")
        if not self.classes or all(each.load is None for each in self.classes):
            return self.model_copy(update={"load": load / len(self.resolved)})
        classes = tuple(
            each.model_copy(update={"load": (full.load or 0.0) * load / offered})
            for each, full in zip(self.classes, self.resolved, strict=True)
        )
        return self.model_copy(update={"classes": classes})

    def message_classes(self) -> tuple[MessageClass, ...]:
        """The classes that the network has to tell apart: those of the packets, then those of the replies to them."""
        own = [MessageClass(str(each.name), each.virtual_network or 0, each.priority or 0) for each in self.resolved]
        replies = [
            MessageClass(f"replies to {each.name}", answer.virtual_network, answer.priority)
            for each in self.resolved
            if (answer := each.replies) is not None
        ]
        return (*own, *replies)
