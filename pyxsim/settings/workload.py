"""[workload]: a file that says what the NPUs compute and communicate."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from pyxsim.errors import InputError
from pyxsim.settings.types import Table, Word, exact, shown, whole


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


class Workload(Table):
    """A workload file in ASTRA-sim 1's text format, and how often and at which scale it is run."""

    file: Word = Field(description="The file; a relative path counts from the folder of the experiment.")
    passes: Annotated[int, *whole(1, 2**20)] = Field(default=1, description="How many times (num-passes).")
    comm_scale: Scale = Field(default=Fraction(1), description="Factor for the bytes of every collective.")
    compute_scale: Scale = Field(default=Fraction(1), description="Factor for every compute time.")
