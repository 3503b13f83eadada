"""[job.restart]: a job in iterations that restarts from its last checkpoint after a failure (docs/jobs.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import MOST_NPUS, Npus, PositiveTime, Table, Time, shown, whole, written
from pyxsim.units import Cycles

_LIST: TypeAdapter[tuple[int, ...]] = TypeAdapter(Npus)
MOST_ITERATIONS = 2**20


def _spares(value: object) -> int | tuple[int, ...]:
    """A number of NPUs, or a list of them."""
    if isinstance(value, list | tuple):
        return _LIST.validate_python(tuple(value))
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_NPUS:
        return value
    allowed = f"a whole number from 0 to {MOST_NPUS}, or a list of NPUs"
    raise InputError(f"{shown(value)} is not a number of NPUs", allowed=allowed)


_Spares = Annotated[
    Any,
    PlainValidator(_spares),
    PlainSerializer(lambda value: value if isinstance(value, int) else list(value), return_type=Any),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MOST_NPUS},
                {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MOST_NPUS - 1}},
            ]
        }
    ),
]


class Restart(Table):
    """The job runs its work in iterations, writes checkpoints, and restarts after a failure.

    A failure is an NPU that stops, a message that is lost, or NPUs that no route connects.
    """

    iterations: Annotated[int, *whole(1, MOST_ITERATIONS)] = Field(
        description="How many times the job repeats its work. An iteration starts when the previous one has ended on "
        "all NPUs."
    )
    checkpoint_every: Annotated[int, *whole(1, MOST_ITERATIONS)] | None = Field(
        default=None, description="Iterations between checkpoints. Default: none is written."
    )
    checkpoint_interval: PositiveTime | None = Field(
        default=None,
        description="Instead: minimum time since the last checkpoint or start; the first iteration that ends after it "
        "writes one.",
    )
    checkpoint_time: Time = Field(
        default=written("0 ns"), description="Time for which the NPUs of the job write a checkpoint and are blocked."
    )
    after: Time = Field(
        default=written("0 ns"),
        description="Time from a failure until the NPUs resume: detection, scheduling, loading the checkpoint.",
    )
    spares: _Spares = Field(
        default=0,
        description="NPUs that replace failed ones: a number of those that no job uses, or a list. Without spares, the "
        "job waits until the failed NPU works, or is connected, again.",
    )
    most_failures: Annotated[int, *whole(0, 10**6)] = Field(
        default=1000,
        description="Failures after each of which the job restarts. After one more it gives up, and the run fails.",
    )

    @model_validator(mode="after")
    def _checkpoints_fit(self) -> Restart:
        faults = []
        if self.checkpoint_every is not None and self.checkpoint_interval is not None:
            problem = "cannot be combined with `checkpoint_every`"
            faults.append(InputError(problem, key="checkpoint_interval", allowed="one of them"))
        takes_time = self.checkpoint_time not in (Fraction(0), Cycles(0))
        if takes_time and self.checkpoint_every is None and self.checkpoint_interval is None:
            allowed = "with `checkpoint_every` or `checkpoint_interval`"
            faults.append(InputError("has no effect", key="checkpoint_time", allowed=allowed))
        raise_all(faults)
        return self
