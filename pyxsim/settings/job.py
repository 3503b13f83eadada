"""[[job]]: one of several jobs on a network, with its NPUs and its work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter, WithJsonSchema, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.collective import Collective
from pyxsim.settings.restart import Restart
from pyxsim.settings.types import MOST_NPUS, Line, Npus, OneOrMany, Table, Time, shown, whole, written
from pyxsim.settings.workload import Workload

PLACEMENTS = ("packed", "scattered", "random", "by-rack")
_LIST: TypeAdapter[tuple[int, ...]] = TypeAdapter(Npus)


def _placement(value: object) -> str | tuple[int, ...]:
    """A word, or a list of NPUs."""
    if isinstance(value, list | tuple):
        return _LIST.validate_python(tuple(value))
    if value in PLACEMENTS:
        return str(value)
    allowed = [*PLACEMENTS, "a list of NPUs"]
    raise InputError(f"unknown value {shown(value)}", allowed=allowed, given=value if isinstance(value, str) else None)


_Placement = Annotated[
    Any,
    PlainValidator(_placement),
    PlainSerializer(lambda value: value if isinstance(value, str) else list(value), return_type=Any),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": list(PLACEMENTS)},
                {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MOST_NPUS - 1}},
            ]
        }
    ),
]


class JobTable(Table):
    """A job: its NPUs, its arrival, and a workload or collectives (docs/jobs.md)."""

    name: Line = Field(description="Name in results.")
    npus: Annotated[int, *whole(1, MOST_NPUS)] | None = Field(
        default=None, description="Number of its NPUs. Default: the length of the list of `placement`."
    )
    shape: Annotated[tuple[Annotated[int, *whole(1, MOST_NPUS)], ...], Field(min_length=1)] | None = Field(
        default=None, description="Its NPUs as a grid, as its workload sees them. Default: one dimension."
    )
    at: Time = Field(default=written("0 ns"), description="Arrival time.")
    placement: _Placement = Field(
        default="packed",
        description="Its NPUs: the next free ones, evenly spaced free ones, random ones, those of entirely free racks "
        "first, or a list in the order of its ranks.",
    )
    seed: Annotated[int, *whole(0, 2**63 - 1)] | None = Field(
        default=None, description='Seed of the placement `"random"`. Default: `output.seed`.'
    )
    workload: Workload | None = Field(default=None, description="Its workload. Instead: collectives.")
    collective: OneOrMany[Collective] | None = Field(
        default=None, description="Its collectives; `npus` and `root` are ranks of the job. Instead: a workload."
    )

    restart: Restart | None = Field(default=None, description="Iterations, checkpoints, and what follows a failure.")

    @model_validator(mode="after")
    def _check_consistency(self) -> JobTable:
        faults = []
        listed = None if isinstance(self.placement, str) else len(self.placement)
        if self.npus is None and listed is None:
            faults.append(InputError("is missing", key="npus", allowed=f"a whole number from 1 to {MOST_NPUS}"))
        elif self.npus is not None and listed is not None and self.npus != listed:
            problem = f"{self.npus} NPUs, but `placement` lists {listed}"
            faults.append(InputError(problem, key="npus", allowed=f"{listed}, or without `npus`"))
        elif self.shape is not None and math.prod(self.shape) != self.size:
            problem = f"{'x'.join(map(str, self.shape))} is {math.prod(self.shape)} NPUs, but the job has {self.size}"
            faults.append(InputError(problem, key="shape", allowed=f"sizes with the product {self.size}"))
        if self.seed is not None and self.placement != "random":
            faults.append(InputError("has no effect", key="seed", allowed='with `placement = "random"`'))
        if self.workload is not None and self.collective is not None:
            faults.append(InputError("cannot be combined with `workload`", key="collective", allowed="one of them"))
        elif self.workload is None and self.collective is None:
            allowed = "[job.workload] or [[job.collective]]"
            faults.append(InputError("the job has no work", key="workload", allowed=allowed))
        if self.workload is not None and self.workload.serving is not None:
            faults.append(
                InputError(
                    "is not supported in a job: the tasks of requests are not known before the run",
                    key="workload.serving",
                    allowed="training or files, or [workload.serving] at the top level",
                )
            )
        if self.workload is not None and self.workload.offloaded:
            faults.append(InputError("jobs have no remote memory", key="workload.offload", allowed='"none"'))
        if not faults:
            faults += self._collective_faults()
        raise_all(faults)
        return self

    def _collective_faults(self) -> Iterator[InputError]:
        size = self.size
        for key, each in self.collectives:
            for name in ("group", "dims"):
                if getattr(each, name) is not None:
                    allowed = "`npus` with ranks of the job, or none for all"
                    yield InputError("cannot be used in a job", key=f"{key}.{name}", allowed=allowed)
            ranks = each.npus or ()
            for index, rank in enumerate(ranks):
                if rank >= size:
                    place = f"{key}.npus[{index}]"
                    yield InputError(f"there is no rank {rank}", key=place, allowed=f"ranks 0 to {size - 1}")
            if each.root is not None and each.root not in (ranks or range(size)):
                allowed = f"ranks 0 to {size - 1}" if not ranks else "one of `npus`"
                problem = f"the root, rank {each.root}, does not participate"
                yield InputError(problem, key=f"{key}.root", allowed=allowed)

    @property
    def size(self) -> int:
        """The number of its NPUs."""
        return len(self.placement) if self.npus is None else self.npus

    @property
    def grid(self) -> tuple[int, ...]:
        """The shape of its ranks."""
        return self.shape or (self.size,)

    @property
    def collectives(self) -> list[tuple[str, Collective]]:
        """The collectives with their keys: "collective", or "collective[0]", "collective[1]", ..."""
        if self.collective is None:
            return []
        if isinstance(self.collective, tuple):
            return [(f"collective[{number}]", each) for number, each in enumerate(self.collective)]
        return [("collective", self.collective)]


def name_faults(jobs: Sequence[JobTable]) -> Iterator[InputError]:
    """Yield an error for each job with the name of an earlier one."""
    first: dict[str, int] = {}
    for number, job in enumerate(jobs):
        if job.name in first:
            problem = f"job[{first[job.name]}] is also named '{job.name}'"
            yield InputError(problem, key=f"[{number}].name", allowed="a different name for each job")
        first.setdefault(job.name, number)
