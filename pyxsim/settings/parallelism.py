"""[workload] of a model: how it is trained, and [workload.parallelism]: how the NPUs divide it among themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Flag, PositiveBytes, Table, whole

Axis = Literal["tensor", "data", "pipeline"]
AXES: tuple[Axis, ...] = ("tensor", "data", "pipeline")
_Count = Annotated[int, *whole(1, 2**20)]


class Parallelism(Table):
    """How the NPUs divide a model: tensor x data x pipeline of them, all NPUs of the network."""

    tensor: _Count = Field(
        default=1, description="NPUs that divide each layer: its matrices by columns and rows, as in Megatron-LM."
    )
    pipeline: _Count = Field(default=1, description="Stages of consecutive layers, with about the same work each.")
    data: _Count | None = Field(
        default=None,
        description="Replicas, each with a part of the batch. Left out: what tensor and pipeline leave of the NPUs.",
    )
    expert: _Count = Field(
        default=1, description="Of the replicas, so many divide the experts of a layer among themselves."
    )
    zero: Annotated[int, *whole(0, 3)] = Field(
        default=0,
        description="ZeRO: what the replicas divide among themselves: nothing, the state of the optimizer (1), "
        "gradients, too (2), parameters, too (3).",
    )
    sequence: Flag = Field(
        default=False,
        description="Megatron's sequence parallelism: what tensor parallelism leaves whole is divided by tokens; "
        "reduce-scatter and all-gather in the place of all-reduce.",
    )
    schedule: Literal["1f1b", "gpipe", "interleaved"] = Field(
        default="1f1b",
        description="The order of micro-batches in a pipeline: one forward, one backward; all forward first; or 1f1b "
        "with several stages on each NPU.",
    )
    chunks: Annotated[int, *whole(2, 2**10)] | None = Field(
        default=None, description="Stages on each NPU of an interleaved pipeline. Left out: 2."
    )
    order: tuple[Axis, ...] = Field(
        default=AXES, description="Whose NPUs are the nearest: those of the first have consecutive numbers."
    )

    @model_validator(mode="after")
    def _sound(self) -> Parallelism:
        raise_all(list(self._faults()))
        return self

    def _faults(self) -> Iterator[InputError]:
        if sorted(self.order) != sorted(AXES):
            allowed = f"each of {', '.join(AXES)} once"
            yield InputError(f"{', '.join(self.order)} is no order", key="order", allowed=allowed)
        if self.data is not None and self.data % self.expert:
            problem = f"{self.expert} does not divide the {self.data} replicas"
            yield InputError(problem, key="expert", allowed="a divisor of data")
        if self.data == 1 and self.zero:
            yield InputError("with one replica nothing is divided", key="zero", allowed="0, or more replicas")
        if self.sequence and self.tensor == 1:
            problem = "it divides what tensor parallelism leaves whole, and there is none"
            yield InputError(problem, key="sequence", allowed="false, or tensor above 1")
        if self.schedule == "interleaved" and self.pipeline == 1:
            yield InputError("there is no pipeline", key="schedule", allowed="pipeline above 1")
        if self.chunks is not None and self.schedule != "interleaved":
            problem = f"{self.schedule} has one stage on each NPU"
            yield InputError(problem, key="chunks", allowed='with schedule = "interleaved"')

    @property
    def virtual(self) -> int:
        """Stages on each NPU."""
        return (self.chunks or 2) if self.schedule == "interleaved" else 1


class Training(Table):
    """What is trained of a model. Everything here is for a `model`, and refused beside a `file`."""

    batch: _Count | None = Field(
        default=None,
        description="Samples of a step, over all replicas. Left out: for each what the table of the model says.",
    )
    micro_batch: _Count | None = Field(
        default=None,
        description="Samples that a replica takes at a time; gradients are added up over them. Left out: 1 in a "
        "pipeline, else its whole part of the batch.",
    )
    sequence: _Count | None = Field(
        default=None, description="Tokens of a sample. Left out: what the model was trained with."
    )
    element: PositiveBytes | None = Field(
        default=None, description="Of activations, parameters and gradients that are communicated. Left out: 2 B."
    )
    gradient: PositiveBytes | None = Field(
        default=None, description="Of the gradients of parameters, if these differ (4 B: they are added up in FP32)."
    )
    recompute: Literal["none", "full"] | None = Field(
        default=None,
        description="What the backward pass computes forward once more, as its activations are not kept: nothing (if "
        "left out), or each block.",
    )
    offload: Literal["none", "optimizer", "parameters"] | None = Field(
        default=None,
        description="What is kept in [system.remote_memory] (ZeRO-Offload, ZeRO-Infinity): nothing (if left out), "
        "gradients and the state of the optimizer, or parameters, too. What is loaded and stored when: "
        "[memory.md](memory.md).",
    )
    parallelism: Parallelism | None = Field(
        default=None, description="How the NPUs divide the model. Left out: each has a replica."
    )

    def given(self) -> list[str]:
        """The keys that are given."""
        return [key for key in Training.model_fields if getattr(self, key) is not None]

    @property
    def offloaded(self) -> bool:
        """Whether anything is kept in remote memory."""
        return self.offload not in (None, "none")

    @property
    def element_bytes(self) -> int:
        """Of an activation or a parameter."""
        return self.element or 2

    @property
    def gradient_bytes(self) -> int:
        """Of a gradient of a parameter."""
        return self.gradient or self.element_bytes
