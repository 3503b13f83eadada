"""[workload]: what the NPUs compute and communicate, from files or from a model."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.parallelism import Training
from pyxsim.settings.serving import Serving
from pyxsim.settings.types import Flag, Word, exact, shown, whole


def _scale(value: object) -> Fraction:
    """A positive number, exactly as written (0.1 is one tenth, not the nearest binary fraction)."""
    scale = exact(value)
    if scale is None:
        raise InputError(f"{shown(value)} is not a number", allowed="a number above zero, such as 0.5")
    if not 0 < scale <= 10**9:
        raise InputError(f"{shown(value)} is not a scale", allowed="a number above zero, at most 1e9")
    return scale


Scale = Annotated[
    Fraction,
    PlainValidator(_scale),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]


class Workload(Training):
    """A workload: a text of ASTRA-sim 1, Chakra traces, or a model; its passes and scales."""

    file: Word | None = Field(
        default=None,
        description="A workload text of ASTRA-sim 1, or Chakra traces, one per NPU: PREFIX.*.et, or PREFIX alone "
        "(also .json and .jsonl, optionally compressed with gzip). Relative to the folder of the experiment.",
    )
    model: Word | None = Field(
        default=None,
        description="A model on the shelf (`pyxsim list models`), from which pyxsim generates the workload.",
    )
    groups: Word | None = Field(
        default=None,
        description='A JSON file with the NPUs of each process group of the traces (pg_name): {"1": [0, 1], "2": [2, '
        "3]}.",
    )
    algorithms: Word | None = Field(
        default=None,
        description="A YAML file with algorithms for individual collectives of traces: lines `node number: PREFIX`, "
        "where PREFIX names Chakra traces as in [custom_collectives.md](custom_collectives.md) "
        "(per-node-custom-implementation of ASTRA-sim 2).",
    )
    replay: Flag = Field(
        default=False,
        description="Whether every node of a trace takes its recorded duration (replay-only in ASTRA-sim 2).",
    )
    passes: Annotated[int, *whole(1, 2**20)] = Field(
        default=1,
        description="Number of passes over the workload (num-passes in ASTRA-sim). With traces, an NPU starts a pass "
        "when its previous one ends.",
    )
    serving: Serving | None = Field(
        default=None,
        description="Requests that the model answers (inference), instead of training steps "
        "([serving.md](serving.md)). Training settings have no effect then.",
    )
    comm_scale: Scale = Field(
        default=Fraction(1), description="Factor for the bytes of every collective and message, rounded down."
    )
    compute_scale: Scale = Field(default=Fraction(1), description="Factor for every compute time.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Workload:
        faults = []
        if self.file is None and self.model is None:
            allowed = "a workload text or traces PREFIX.*.et; or `model` instead"
            faults.append(InputError("is missing", key="file", allowed=allowed))
        if self.file is not None and self.model is not None:
            faults.append(InputError("cannot be combined with `file`", key="model", allowed="one of them"))
        if self.groups is not None and self.file is None:
            faults.append(InputError("requires traces", key="groups", allowed="with `file`"))
        if self.algorithms is not None and self.file is None:
            faults.append(InputError("requires traces", key="algorithms", allowed="with `file`"))
        if self.replay and self.file is None:
            faults.append(InputError("requires traces", key="replay", allowed="with `file`"))
        if self.serving is not None:
            faults += self._serving_faults()
        if self.model is None:
            problem = "requires a model"
            faults += [InputError(problem, key=key, allowed="with `model`") for key in self.given()]
        raise_all(faults)
        return self

    def _serving_faults(self) -> list[InputError]:
        if self.model is None:
            return [InputError("requires a model", key="serving", allowed="with `model`")]
        given = [key for key in self.given() if key not in ("experts", "element")]
        faults = [InputError("has no effect on serving", key=key, allowed="with training") for key in given]
        if self.passes > 1:
            faults.append(InputError("has no effect on serving", key="passes", allowed="1, or more requests"))
        return faults
