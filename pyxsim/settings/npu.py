"""[system.npu]: how fast an NPU computes, and how it is found out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bandwidth, Flag, Flops, Frequency, Table, Word, exact, shown, whole, written

PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
_Count = Annotated[int, *whole(1, 2**16)]


def _share(value: object) -> Fraction:
    share = exact(value)
    if share is None or not 0 < share <= 1:
        raise InputError(f"{shown(value)} is no share", allowed="a number above 0, at most 1")
    return share


Share = Annotated[
    Fraction,
    PlainValidator(_share),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]


class Sram(Table):
    """The buffers of a systolic array, for SCALE-Sim: with them it knows when the array waits for its memory."""

    inputs: _Count = Field(default=64, description="KiB for inputs.")
    weights: _Count = Field(default=64, description="KiB for weights.")
    outputs: _Count = Field(default=64, description="KiB for outputs.")
    words_per_cycle: _Count = Field(description="What the memory behind the buffers gives and takes in a cycle.")


class Array(Table):
    """The systolic array that `compute` asks for."""

    rows: _Count = Field(description="Rows of multipliers.")
    columns: _Count = Field(description="Columns of multipliers.")
    count: _Count = Field(default=1, description="Arrays of an NPU; they divide the columns of a product.")
    clock: Frequency = Field(description="Of the array.")
    dataflow: Literal["os", "ws", "is"] = Field(
        default="ws", description="What stays in place: outputs, weights or inputs."
    )
    sram: Sram | None = Field(
        default=None, description='With compute = "scalesim": its buffers. Left out: they are never waited for.'
    )


class Npu(Table):
    """How fast an NPU computes."""

    device: Word | None = Field(
        default=None, description="A device on the shelf (`pyxsim list`): its peak and memory; docs/models.md."
    )
    precision: Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"] | None = Field(
        default=None, description="Which peak of the device counts. Left out: bf16, or fp16 where it has no bf16."
    )
    peak: Flops | None = Field(default=None, description="Operations per second, instead of the device's.")
    memory_bandwidth: Bandwidth | None = Field(default=None, description="Of its memory, instead of the device's.")
    efficiency: Share = Field(
        default=written("1"), description="Share of the peak that matrix products reach at best (roofline)."
    )
    roofline: Flag = Field(
        default=False,
        description="Compute nodes of Chakra traces take what a roofline gives for their num_ops and tensor_size, not "
        "their duration (roofline-enabled of ASTRA-sim 2).",
    )
    compute: Literal["roofline", "systolic", "scalesim"] = Field(
        default="roofline",
        description="How long matrix products of a model take: the roofline; cycles of a systolic `array` in closed "
        "form; or as SCALE-Sim simulates that (`pip install 'pyxsim[scalesim]'`). Never less than their bytes take.",
    )
    array: Array | None = Field(default=None, description="The systolic array.")

    @model_validator(mode="after")
    def _fits(self) -> Npu:
        raise_all(list(self._faults()))
        return self

    def _faults(self) -> Iterator[InputError]:
        without = "or a `device`"
        if self.compute == "roofline":
            if self.array is not None:
                yield InputError("nothing computes with it", key="array", allowed="with compute = 'systolic'")
            if self.device is None and self.peak is None:
                yield InputError("is missing", key="peak", allowed=f"a speed such as '312 TFLOP/s', {without}")
        else:
            if self.array is None:
                yield InputError("is missing", key="array", allowed="rows, columns and clock of a systolic array")
            if self.roofline:
                yield InputError("the array computes", key="roofline", allowed="with compute = 'roofline'")
            for key in ("peak", "precision"):
                if getattr(self, key) is not None:
                    yield InputError("the array computes", key=key, allowed="with compute = 'roofline'")
            if self.efficiency != 1:
                yield InputError("the array computes", key="efficiency", allowed="with compute = 'roofline'")
        if self.device is None:
            if self.memory_bandwidth is None:
                problem = f"a bandwidth such as '2 TB/s', {without}"
                yield InputError("is missing", key="memory_bandwidth", allowed=problem)
            if self.precision is not None:
                yield InputError("`peak` is of one precision", key="precision", allowed="with a `device`")
        elif self.precision is not None and self.peak is not None:
            yield InputError("`peak` stands for it", key="precision", allowed="one of them")
        if self.array is not None and self.array.sram is not None and self.compute != "scalesim":
            yield InputError("nothing waits for it", key="array.sram", allowed="with compute = 'scalesim'")
