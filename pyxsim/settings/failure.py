"""[[faults]], [network.retry], [network.reroute]: faults, retry at the link, rerouting (docs/faults.md)."""

from __future__ import annotations

from fractions import Fraction
from math import expm1, log1p
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import (
    Bandwidth,
    Flag,
    Line,
    PositiveTime,
    Table,
    Time,
    number,
    whole,
    written,
)
from pyxsim.units import Duration

_Share = Annotated[Fraction, *number(0, 1)]
_WHAT = ("link", "router", "npu", "group")
_OF_LINKS = ("down", "bandwidth", "latency", "bit_error_rate", "flit_error_rate")
_OF_NPUS = ("slow", "stop")
MOST_SLOTS = 2**20


def _named(value: Any) -> Any:
    """The number of an NPU is its name."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Fault(Table):
    """A fault: what fails, how, when and for how long. Exactly one of `link`, `router`, `npu` and `group` selects it.

    In names, `*` stands for any text and `?` for any character.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    link: Line | None = Field(default=None, description="Names of links, as in the table `links`.")
    router: Line | None = Field(default=None, description="Names of routers: all their links, in both directions.")
    npu: Annotated[Line | None, BeforeValidator(_named)] = Field(
        default=None,
        description="Numbers of NPUs, such as 3 or '*': their host links, or the links of routers without other NPUs.",
    )
    group: Line | None = Field(default=None, description="Names of `[[system.groups]]`: all their NPUs.")
    count: Annotated[int, *whole(1, 2**20)] | None = Field(
        default=None, description="How many of them fail, drawn at random. Default: all."
    )
    seed: Annotated[int, *whole(0, 2**63 - 1)] = Field(default=0, description="Seed of the draws.")
    both_directions: Flag = Field(
        default=True, description="Whether the links in the opposite direction are also affected."
    )
    at: Time = Field(default=written("0 ns"), description="Start of the fault.")
    duration: PositiveTime | None = Field(
        default=None, alias="for", description="Duration of the fault. Default: until the end of the run."
    )
    every: PositiveTime | None = Field(default=None, description="Period between the starts of a repeating fault.")
    up: PositiveTime | None = Field(
        default=None, description="Time from the end of a repeating fault to its next start; instead of `every`."
    )
    mttf: PositiveTime | None = Field(
        default=None,
        description="Mean time to failure: each cable, router or NPU fails by itself after an exponentially "
        "distributed time, counted from `at` or from the end of its last fault. Instead of `every` and `up`.",
    )
    until: PositiveTime | None = Field(
        default=None, description="Time from which a repeating fault does not start again. Default: the end of the run."
    )
    down: Flag = Field(default=False, description="Whether the links are down: they transmit no flits.")
    in_flight: Literal["drain", "lose"] = Field(
        default="drain",
        description='Whether flits that are on the wire when a link goes down arrive ("drain") or are lost ("lose").',
    )
    bandwidth: Bandwidth | None = Field(default=None, description="Upper limit on the bandwidth of the links.")
    latency: PositiveTime | None = Field(default=None, description="Lower limit on the latency of the links.")
    bit_error_rate: _Share = Field(
        default=Fraction(0), description="Probability that a bit of a flit is corrupted on the links."
    )
    lanes: _Share = Field(
        default=Fraction(1),
        description="Share of the lanes of the links with this bit error rate, such as 0.25 for one of four: a flit is "
        "striped over all lanes.",
    )
    flit_error_rate: _Share = Field(
        default=Fraction(0), description="Probability that a flit is corrupted; instead of `bit_error_rate`."
    )
    slow: Annotated[Fraction, *number(1, 10**6)] = Field(
        default=Fraction(1), description="Factor for the compute times of the NPUs."
    )
    stop: Flag = Field(default=False, description="Whether the NPUs do not compute.")

    @model_validator(mode="after")
    def _is_a_fault(self) -> Fault:
        raise_all(list(self._conflicts()))
        return self

    def _conflicts(self) -> Any:
        given = [key for key in _WHAT if getattr(self, key) is not None]
        if len(given) != 1:
            problem = f"{' and '.join(given)} exclude each other" if given else "the fault selects nothing"
            yield InputError(problem, allowed="exactly one of link, router, npu, group")
        if not self.affects_links and not self.affects_npus:
            yield InputError("the fault has no effect", allowed=f"one of {', '.join((*_OF_LINKS, *_OF_NPUS))}")
        if self.affects_npus and (self.link is not None or self.router is not None):
            key = "stop" if self.stop else "slow"
            yield InputError("links and routers do not compute", key=key, allowed="with npu or group")
        if self.stop and self.slow != 1:
            yield InputError("cannot be combined with `stop`", key="slow", allowed="one of them")
        for key in ("bit_error_rate", "flit_error_rate"):
            if getattr(self, key) == 1:
                yield InputError("no flit would arrive", key=key, allowed="below 1, or down = true")
        if self.bit_error_rate and self.flit_error_rate:
            problem = "cannot be combined with `bit_error_rate`"
            yield InputError(problem, key="flit_error_rate", allowed="one of them")
        if self.lanes == 0:
            yield InputError("no lane has errors", key="lanes", allowed="above 0")
        elif self.lanes != 1 and not self.bit_error_rate:
            yield InputError("has no effect", key="lanes", allowed="with bit_error_rate")
        if self.in_flight == "lose" and not self.down:
            yield InputError("has no effect", key="in_flight", allowed="with down = true")
        if self.every is not None and self.up is not None:
            yield InputError("cannot be combined with `every`", key="up", allowed="one of them")
        if self.repeats and self.duration is None:
            yield InputError("a repeating fault needs a duration", key="for", allowed="a time such as '10 us'")
        if self.mttf is not None and (self.every is not None or self.up is not None):
            yield InputError("cannot be combined with `every` or `up`", key="mttf", allowed="one of them")
        if self.until is not None and not self.repeats:
            yield InputError("has no effect", key="until", allowed="with every, up or mttf")

    def times(self) -> list[tuple[str, Duration]]:
        """Return the times that are rounded to cycles, by key."""
        keys = {"at": "at", "duration": "for", "every": "every", "up": "up", "until": "until", "latency": "latency"}
        given = ((key, getattr(self, name)) for name, key in keys.items())
        return [(key, time) for key, time in given if time is not None]

    @property
    def affects_links(self) -> bool:
        """Whether it changes links."""
        return self.down or self.bandwidth is not None or self.latency is not None or self.errs

    @property
    def errs(self) -> bool:
        """Whether flits may be wrong."""
        return self.bit_error_rate > 0 or self.flit_error_rate > 0

    def error_of_bit(self, bits: int) -> float:
        """Return the probability that a bit is wrong, on average over the lanes; `bits`: of a flit."""
        if self.flit_error_rate:
            return -expm1(log1p(-float(self.flit_error_rate)) / bits)
        if self.lanes == 1:
            return float(self.bit_error_rate)  # without rounding
        return -expm1(float(self.lanes) * log1p(-float(self.bit_error_rate)))

    @property
    def affects_npus(self) -> bool:
        """Whether it changes how fast NPUs compute."""
        return self.stop or self.slow != 1

    @property
    def loses(self) -> bool:
        """Whether flits may be lost."""
        return self.errs or (self.down and self.in_flight == "lose")

    @property
    def repeats(self) -> bool:
        """Whether it begins more than once."""
        return self.every is not None or self.up is not None or self.mttf is not None


class Retry(Table):
    """Retry at the link: a replay buffer at the sender, acknowledgments, go-back-N."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "uec": {"efficiency": Fraction(1)},
        "ualink": {"efficiency": Fraction(628, 640)},
        "pcie": {"efficiency": Fraction(236, 256)},
    }

    preset: Literal["uec", "ualink", "pcie"] | None = Field(
        default=None, description="Defaults of a standard ([faults.md](faults.md))."
    )
    buffer: Annotated[int | Literal["auto"], *whole(1, MOST_SLOTS, "auto")] = Field(
        default="auto",
        description='Slots of the replay buffer of a link, in flits. "auto": enough to keep the link busy until the '
        "first acknowledgment, including messages of `[network.credits]`.",
    )
    ack_delay: Time = Field(
        default=written("0 ns"), description="Delay of an acknowledgment beyond that of a credit of the link."
    )
    timeout: PositiveTime | None = Field(
        default=None,
        description="Time after which an unanswered flit is retransmitted. Default: twice the round trip of the link.",
    )
    efficiency: _Share | None = Field(
        default=None,
        description="Share of the bandwidth that remains for flits; checksums, sequence numbers and acknowledgments "
        "take the rest. Default: 1, or that of the preset.",
    )
    nack_bits: Annotated[int, *whole(0, 10**6)] = Field(
        default=0, description="Bits of a nack, which is lost if a bit error corrupts one of them. 0: no nack is lost."
    )

    @model_validator(mode="after")
    def _leaves_bandwidth(self) -> Retry:
        faults = (
            [InputError("leaves no bandwidth", key="efficiency", allowed="above 0")] if self.efficiency == 0 else []
        )
        raise_all(faults)
        return self

    @property
    def share(self) -> Fraction:
        """The share of the bandwidth that remains for flits."""
        if self.efficiency is not None:
            return self.efficiency
        return Fraction(self.PRESETS[self.preset]["efficiency"]) if self.preset else Fraction(1)


class Reroute(Table):
    """Routing tables that are recomputed when links go down or come up."""

    reaction: Time = Field(
        default=written("50 us"),
        description="Time from a change of the set of links that are up until all routers use the new tables.",
    )
    select: Literal["least", "two", "random", "first", "weighted"] = Field(
        default="least",
        description="How a router selects among the candidate links of the new tables: the one with the fewest flits "
        "in use, the better of two random ones, a random one, always the first, or each in proportion to its weight.",
    )
    weights: Literal["capacity", "messages"] | None = Field(
        default=None,
        description='Of `select = "weighted"`: by the capacity that is left behind each link (default), or those of a '
        "maximum concurrent flow of `[[message]]`.",
    )

    @model_validator(mode="after")
    def _weighs(self) -> Reroute:
        if self.weights is not None and self.select != "weighted":
            raise InputError("has no effect", key="weights", allowed='with select = "weighted"')
        return self
