"""[system.endpoint]: limits of an NPU's memory and offload engine, shared by computation and communication."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bandwidth, PositiveBytes, Table, number


class Endpoint(Table):
    """The memory of an NPU, shared by computation and communication, and an optional offload engine."""

    memory_bandwidth: Bandwidth | None = Field(
        default=None,
        description="Memory bandwidth of each NPU, shared by communication and by computations whose memory traffic "
        "is known. Default: unlimited.",
    )
    communication_bandwidth: Bandwidth | None = Field(
        default=None, description="Maximum memory bandwidth that communication uses. Default: its fair share."
    )
    compute_share: Annotated[Fraction, *number(0, 1)] = Field(
        default=Fraction(0),
        description="Fraction of an NPU's cores that execute collectives; during a collective, computation loses this "
        "fraction of its speed. Only without an engine.",
    )
    offload: Literal["none", "engine"] = Field(
        default="none",
        description="What executes collectives: the cores of the NPU, with all data in its memory, or an offload "
        "engine, which reads each chunk once, buffers it, and writes the result.",
    )
    engine_memory: PositiveBytes | None = Field(
        default=None, description="Memory for chunks in each engine; other chunks wait. Default: unlimited."
    )
    engine_rate: Bandwidth | None = Field(
        default=None,
        description="Bandwidth of the messages into and out of each engine. Default: unlimited.",
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Endpoint:
        raise_all(list(_faults(self)))
        return self


def _faults(endpoint: Endpoint) -> Iterator[InputError]:
    if endpoint.offload == "none":
        for key in ("engine_memory", "engine_rate"):
            if getattr(endpoint, key) is not None:
                yield InputError("requires an offload engine", key=key, allowed='no value, or offload = "engine"')
    elif endpoint.compute_share:
        problem = "the offload engine executes collectives, not the cores"
        yield InputError(problem, key="compute_share", allowed='0, or offload = "none"')
    if endpoint.compute_share == 1:
        problem = "no cores are left for computation during a collective"
        yield InputError(problem, key="compute_share", allowed="less than 1, such as 0.0625")
    memory, communication = endpoint.memory_bandwidth, endpoint.communication_bandwidth
    if communication is not None and (memory is None or communication > memory):
        problem = "must not exceed memory_bandwidth"
        yield InputError(
            problem, key="communication_bandwidth", allowed="a bandwidth up to memory_bandwidth, which must be set"
        )
    if not (memory or endpoint.compute_share or endpoint.engine_memory or endpoint.engine_rate):
        yield InputError("the table sets no limit", key="memory_bandwidth", allowed="a bandwidth such as '900 GB/s'")
