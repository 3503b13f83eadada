"""[workload] of a model: training settings, and [workload.parallelism]: how the NPUs divide the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.experts import Experts
from pyxsim.settings.types import Flag, PositiveBytes, Table, whole

Axis = Literal["tensor", "data", "pipeline"]
AXES: tuple[Axis, ...] = ("tensor", "data", "pipeline")
_Count = Annotated[int, *whole(1, 2**20)]


class Parallelism(Table):
    """How the NPUs divide a model: tensor x data x pipeline is the number of NPUs."""

    tensor: _Count = Field(
        default=1, description="NPUs that divide the matrices of each layer by columns and rows, as in Megatron-LM."
    )
    pipeline: _Count = Field(default=1, description="Pipeline stages of consecutive layers, with about equal work.")
    data: _Count | None = Field(
        default=None,
        description="Replicas of the model, each of which processes a part of the batch. Default: the number of NPUs "
        "/ (tensor x pipeline).",
    )
    expert: _Count = Field(default=1, description="Number of replicas that divide the experts of a layer among them.")
    zero: Annotated[int, *whole(0, 3)] = Field(
        default=0,
        description="ZeRO stage: what replicas partition: nothing (0), the optimizer state (1), also the gradients "
        "(2), also the parameters (3).",
    )
    sequence: Flag = Field(
        default=False,
        description="Sequence parallelism as in Megatron-LM: the operations that tensor parallelism does not divide "
        "are divided by tokens, and reduce-scatter and all-gather replace all-reduce.",
    )
    schedule: Literal["1f1b", "gpipe", "interleaved"] = Field(
        default="1f1b",
        description="Pipeline schedule: alternating forward and backward passes (1f1b), all forward passes first "
        "(gpipe), or 1f1b with several stages per NPU (interleaved).",
    )
    chunks: Annotated[int, *whole(2, 2**10)] | None = Field(
        default=None, description="Stages per NPU in an interleaved pipeline. Default: 2."
    )
    order: tuple[Axis, ...] = Field(
        default=AXES, description="Order of the axes in NPU numbers: NPUs of the first axis have consecutive numbers."
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Parallelism:
        raise_all(list(self._faults()))
        return self

    def _faults(self) -> Iterator[InputError]:
        if sorted(self.order) != sorted(AXES):
            allowed = f"each of {', '.join(AXES)} once"
            yield InputError(f"invalid order {', '.join(self.order)}", key="order", allowed=allowed)
        if self.data is not None and self.data % self.expert:
            problem = f"{self.expert} does not divide the {self.data} replicas"
            yield InputError(problem, key="expert", allowed="a divisor of data")
        if self.data == 1 and self.zero:
            yield InputError("has no effect with a single replica", key="zero", allowed="0, or more replicas")
        if self.sequence and self.tensor == 1:
            problem = "has no effect without tensor parallelism"
            yield InputError(problem, key="sequence", allowed="false, or tensor above 1")
        if self.schedule == "interleaved" and self.pipeline == 1:
            yield InputError("requires a pipeline", key="schedule", allowed="pipeline above 1")
        if self.chunks is not None and self.schedule != "interleaved":
            problem = f"{self.schedule} runs one stage per NPU"
            yield InputError(problem, key="chunks", allowed='with schedule = "interleaved"')

    @property
    def virtual(self) -> int:
        """Stages per NPU."""
        return (self.chunks or 2) if self.schedule == "interleaved" else 1


class Training(Table):
    """Training settings; they require a `model` and are rejected with a `file`."""

    batch: _Count | None = Field(
        default=None,
        description="Samples per step, over all replicas. Default: for each replica, the batch of the model's table.",
    )
    micro_batch: _Count | None = Field(
        default=None,
        description="Samples per micro-batch; gradients accumulate over micro-batches. Default: 1 in a pipeline, else "
        "all samples of the replica.",
    )
    sequence: _Count | None = Field(
        default=None, description="Tokens per sample. Default: the sequence length of the model's training."
    )
    element: PositiveBytes | None = Field(
        default=None,
        description="Size of an element of communicated activations, parameters and gradients. Default: 2 B.",
    )
    gradient: PositiveBytes | None = Field(
        default=None,
        description="Size of the gradient of a parameter, if it differs from element_bytes (4 B: "
        "accumulation in FP32).",
    )
    recompute: Literal["none", "selective", "full"] | None = Field(
        default=None,
        description="Activation recomputation: the backward pass recomputes nothing (default), the attention scores, "
        "or each block.",
    )
    offload: Literal["none", "optimizer", "parameters"] | None = Field(
        default=None,
        description="What [system.remote_memory] holds (ZeRO-Offload, ZeRO-Infinity): nothing (default), gradients "
        "and optimizer state, or also parameters. [memory.md](memory.md) gives the order of loads and stores.",
    )
    parallelism: Parallelism | None = Field(
        default=None, description="How the NPUs divide the model. Default: one replica per NPU."
    )
    experts: Experts | None = Field(
        default=None, description="How tokens are spread over experts. Default: each expert receives equally many."
    )

    def given(self) -> list[str]:
        """Return the keys that are set."""
        return [key for key in Training.model_fields if getattr(self, key) is not None]

    @property
    def offloaded(self) -> bool:
        """Whether anything is kept in remote memory."""
        return self.offload not in (None, "none")

    @property
    def element_bytes(self) -> int:
        """Bytes of an activation or a parameter."""
        return self.element or 2

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient of a parameter."""
        return self.gradient or self.element_bytes
