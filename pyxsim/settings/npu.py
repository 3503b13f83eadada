"""[system.npu]: how fast an NPU computes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import (
    Bandwidth,
    Bytes,
    Flag,
    Flops,
    Frequency,
    PositiveBytes,
    Table,
    Word,
    exact,
    shown,
    whole,
    written,
)

PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
_Count = Annotated[int, *whole(1, 2**16)]


def _share(value: object) -> Fraction:
    share = exact(value)
    if share is None or not 0 < share <= 1:
        raise InputError(f"{shown(value)} is not a fraction", allowed="a number above 0, at most 1")
    return share


Share = Annotated[
    Fraction,
    PlainValidator(_share),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]


def _fragments(value: object) -> Fraction:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value, re.ASCII) if isinstance(value, str) else None
    share = Fraction(match[1]) / 100 if match else exact(value)
    if share is None or not 0 <= share <= 1:
        raise InputError(f"{shown(value)} is not a fraction", allowed="from 0 to 1, such as '4 %' or 0.04")
    return share


Fragments = Annotated[
    Fraction,
    PlainValidator(_fragments),
    PlainSerializer(lambda share: f"{float(100 * share):.12g} %", return_type=str),
    WithJsonSchema({"type": "string", "format": "share", "examples": ["4 %"]}),
]


class Sram(Table):
    """The buffers of a systolic array; with them SCALE-Sim simulates stalls for memory."""

    inputs: _Count = Field(default=64, description="Input buffer, in KiB.")
    weights: _Count = Field(default=64, description="Weight buffer, in KiB.")
    outputs: _Count = Field(default=64, description="Output buffer, in KiB.")
    words_per_cycle: _Count = Field(description="Words per cycle between memory and buffers.")


class Array(Table):
    """The systolic array of `compute`."""

    rows: _Count = Field(description="Rows of multipliers.")
    columns: _Count = Field(description="Columns of multipliers.")
    count: _Count = Field(default=1, description="Number of arrays of an NPU; they divide the columns of a product.")
    clock: Frequency = Field(description="Clock of the array.")
    dataflow: Literal["os", "ws", "is"] = Field(
        default="ws", description="Dataflow: output-, weight- or input-stationary."
    )
    sram: Sram | None = Field(
        default=None,
        description='On-chip buffers; only with compute = "scalesim". Default: the array never waits for memory.',
    )


class Npu(Table):
    """The computing speed of an NPU."""

    device: Word | None = Field(
        default=None,
        description="A device on the shelf (`pyxsim list devices`), which sets the peak and the memory "
        "([models.md](models.md)).",
    )
    precision: Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"] | None = Field(
        default=None, description="Precision of the peak. Default: bf16, or fp16 if the device has no peak for bf16."
    )
    peak: Flops | None = Field(default=None, description="Peak operations per second; replaces that of the device.")
    memory_bandwidth: Bandwidth | None = Field(
        default=None, description="Memory bandwidth; replaces that of the device."
    )
    memory: PositiveBytes | None = Field(
        default=None,
        description="Memory capacity; replaces that of the device. A model that needs more is rejected "
        "([training.md](training.md#how-much-memory-does-an-npu-need)).",
    )
    reserved: Bytes = Field(
        default=written("0 B"),
        description="Memory that the device's context and its libraries take; not for the model "
        "([training.md](training.md#what-does-the-estimate-leave-out)).",
    )
    fragments: Fragments = Field(
        default=written("0 %"),
        description="Memory that the allocator holds but cannot use, as a share of what the model needs "
        "([training.md](training.md#what-does-the-estimate-leave-out)).",
    )
    efficiency: Share = Field(
        default=written("1"), description="Share of the peak that matrix products can reach (roofline)."
    )
    roofline: Flag = Field(
        default=False,
        description="Whether compute nodes of Chakra traces take the roofline time of their num_ops and tensor_size "
        "instead of their recorded duration (roofline-enabled in ASTRA-sim 2).",
    )
    compute: Literal["roofline", "systolic", "scalesim"] = Field(
        default="roofline",
        description="How the time of a model's matrix products is computed: by a roofline, by the closed form of a "
        "systolic `array`, or by SCALE-Sim, which simulates the array (`pip install 'pyxsim[scalesim]'`). The "
        "memory bandwidth bounds the time from below in each case.",
    )
    array: Array | None = Field(default=None, description="The systolic array of an NPU.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Npu:
        raise_all(list(self._faults()))
        return self

    def _faults(self) -> Iterator[InputError]:
        without = "or a `device`"
        if self.compute == "roofline":
            if self.array is not None:
                yield InputError("has no effect", key="array", allowed="with compute = 'systolic'")
            if self.device is None and self.peak is None:
                yield InputError("is missing", key="peak", allowed=f"a speed such as '312 TFLOP/s', {without}")
        else:
            if self.array is None:
                yield InputError(
                    "is missing", key="array", allowed="a table with rows, columns and clock of a systolic array"
                )
            if self.roofline:
                yield InputError("has no effect with an array", key="roofline", allowed="with compute = 'roofline'")
            for key in ("peak", "precision"):
                if getattr(self, key) is not None:
                    yield InputError("has no effect with an array", key=key, allowed="with compute = 'roofline'")
            if self.efficiency != 1:
                yield InputError("has no effect with an array", key="efficiency", allowed="with compute = 'roofline'")
        if self.device is None:
            if self.memory_bandwidth is None:
                problem = f"a bandwidth such as '2 TB/s', {without}"
                yield InputError("is missing", key="memory_bandwidth", allowed=problem)
            if self.precision is not None:
                yield InputError("has no effect with `peak`", key="precision", allowed="with a `device`")
        elif self.precision is not None and self.peak is not None:
            yield InputError("cannot be combined with `peak`", key="precision", allowed="one of them")
        if self.array is not None and self.array.sram is not None and self.compute != "scalesim":
            yield InputError("has no effect", key="array.sram", allowed="with compute = 'scalesim'")
