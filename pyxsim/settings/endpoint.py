"""[system.endpoint]: what an NPU's memory and its offload engine can take, shared by computing and communicating."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bandwidth, PositiveBytes, Table, number


class Endpoint(Table):
    """The endpoint's memory, shared by computing and communicating, and an engine that takes collectives off it."""

    memory_bandwidth: Bandwidth | None = Field(
        default=None,
        description="Of the memory of each NPU, for all that reads and writes it at a time: computations that say how "
        "many bytes they move, and communication. Left out: never short.",
    )
    communication_bandwidth: Bandwidth | None = Field(
        default=None, description="The most of it that communication takes. Left out: whatever is its share."
    )
    compute_share: Annotated[Fraction, *number(0, 1)] = Field(
        default=Fraction(0),
        description="Part of an NPU's cores that carry out collectives: while it is at one, it computes so much more "
        "slowly. Only without an engine.",
    )
    offload: Literal["none", "engine"] = Field(
        default="none",
        description="Who carries out collectives: the NPU's cores, with all data in its memory; or an engine, which "
        "reads a chunk once, keeps it, and writes what it has become.",
    )
    engine_memory: PositiveBytes | None = Field(
        default=None, description="Room for chunks in each engine; others wait. Left out: enough for all."
    )
    engine_rate: Bandwidth | None = Field(
        default=None,
        description="Bytes of messages that come in and go out of each engine in a time. Left out: any number.",
    )

    @model_validator(mode="after")
    def _sound(self) -> Endpoint:
        raise_all(list(_faults(self)))
        return self


def _faults(endpoint: Endpoint) -> Iterator[InputError]:
    if endpoint.offload == "none":
        for key in ("engine_memory", "engine_rate"):
            if getattr(endpoint, key) is not None:
                yield InputError("there is no engine", key=key, allowed='to leave it out, or offload = "engine"')
    elif endpoint.compute_share:
        problem = "an engine carries out the collectives, and no cores do"
        yield InputError(problem, key="compute_share", allowed='0, or offload = "none"')
    if endpoint.compute_share == 1:
        problem = "nothing would be computed beside a collective"
        yield InputError(problem, key="compute_share", allowed="less than 1, such as 0.0625")
    memory, communication = endpoint.memory_bandwidth, endpoint.communication_bandwidth
    if communication is not None and (memory is None or communication > memory):
        problem = "it is a part of memory_bandwidth"
        yield InputError(problem, key="communication_bandwidth", allowed="at most memory_bandwidth, beside it")
    if not (memory or endpoint.compute_share or endpoint.engine_memory or endpoint.engine_rate):
        yield InputError("nothing is limited here", key="memory_bandwidth", allowed="a bandwidth such as '900 GB/s'")
