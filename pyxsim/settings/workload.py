"""[workload]: what the NPUs compute and communicate, from files that say it, or from a model."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.parallelism import Training
from pyxsim.settings.types import Flag, Word, exact, shown, whole


def _scale(value: object) -> Fraction:
    """A positive number, exactly as it is written (0.1 is a tenth, not the nearest binary fraction)."""
    scale = exact(value)
    if scale is None:
        raise InputError(f"{shown(value)} is no number", allowed="a number above zero, such as 0.5")
    if not 0 < scale <= 10**9:
        raise InputError(f"{shown(value)} is no scale", allowed="a number above zero, at most 1e9")
    return scale


Scale = Annotated[
    Fraction,
    PlainValidator(_scale),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]


class Workload(Training):
    """What the NPUs do: a text of ASTRA-sim 1, Chakra traces, or a model; how often, and at which scale."""

    file: Word | None = Field(
        default=None,
        description="A text of ASTRA-sim 1; or Chakra traces, one for each NPU: PREFIX.*.et, or PREFIX alone (also "
        ".json and .jsonl, compressed by gzip or not). A relative path counts from the folder of the experiment.",
    )
    model: Word | None = Field(
        default=None, description="A model on the shelf (`pyxsim list models`), from which the workload is made."
    )
    groups: Word | None = Field(
        default=None,
        description='The NPUs of the groups that traces name (pg_name), a JSON file: {"1": [0, 1], "2": [2, 3]}.',
    )
    algorithms: Word | None = Field(
        default=None,
        description="Algorithms of single collectives of traces, a YAML file: lines `number of the node: PREFIX`, of "
        "Chakra traces as in [custom_collectives.md](custom_collectives.md) "
        "(per-node-custom-implementation of ASTRA-sim 2).",
    )
    replay: Flag = Field(
        default=False,
        description="Each node of a trace takes its recorded duration, whatever it does (replay-only of ASTRA-sim 2).",
    )
    passes: Annotated[int, *whole(1, 2**20)] = Field(
        default=1,
        description="How many times (num-passes). Of traces, an NPU begins a pass when it has ended the one before.",
    )
    comm_scale: Scale = Field(
        default=Fraction(1), description="Factor for the bytes of every collective, and message, cut off to whole ones."
    )
    compute_scale: Scale = Field(default=Fraction(1), description="Factor for every compute time.")

    @model_validator(mode="after")
    def _sound(self) -> Workload:
        faults = []
        if self.file is None and self.model is None:
            allowed = "a workload text, or traces PREFIX.*.et; or `model` in its place"
            faults.append(InputError("is missing", key="file", allowed=allowed))
        if self.file is not None and self.model is not None:
            faults.append(InputError("`file` is given, too", key="model", allowed="one of them"))
        if self.groups is not None and self.file is None:
            faults.append(InputError("only traces name groups", key="groups", allowed="beside `file`"))
        if self.algorithms is not None and self.file is None:
            faults.append(InputError("only traces have nodes", key="algorithms", allowed="beside `file`"))
        if self.replay and self.file is None:
            faults.append(InputError("only traces are recorded", key="replay", allowed="beside `file`"))
        if self.model is None:
            wrong = "there is no model to train"
            faults += [InputError(wrong, key=key, allowed="beside `model`") for key in self.given()]
        raise_all(faults)
        return self
