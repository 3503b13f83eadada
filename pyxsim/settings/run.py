"""[run]: how a result is computed; no result depends on it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from pyxsim.errors import InputError
from pyxsim.settings.types import Flag, Table, listed, shown, whole

SECONDS = {"s": 1, "min": 60, "h": 3600}
_EVERY = re.compile(rf"(?:every\s+)?(\d{{1,9}}(?:\.\d{{1,9}})?)\s*({'|'.join(SECONDS)})", re.ASCII)


def interval(value: object) -> str | None:
    """Normalize a wall-clock interval: "60 s" and "every 60 s" become "60 s"; InputError for others."""
    if value is None:
        return None
    match = _EVERY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not Fraction(match[1]):
        raise InputError(
            f"{shown(value)} is not a time", allowed="a time above zero, such as '60 s', '10 min' or '1 h'"
        )
    return f"{match[1]} {match[2]}"


_INTERVAL = PlainValidator(interval), WithJsonSchema({"type": "string", "format": "time", "examples": ["60 s"]})

MOST_THREADS = 64


def with_oom(overrides: Iterable[str], allow_oom: bool) -> list[str]:
    """Return overrides, with the one of `allow_oom`."""
    return [*listed(overrides), *(["run.allow_oom=true"] if allow_oom else [])]


class Run(Table):
    """How the result is computed; results do not depend on it."""

    skip: Flag = Field(
        default=True,
        description="Whether to fast-forward over whole periods of regular traffic, which does not change the result "
        "([fast_forward.md](fast_forward.md)); false: simulate every cycle (`--no-skip`). "
        "Also whether NPU 0 may stand for all ([folding.md](folding.md)). Packet, analytical and flow backends.",
    )
    episodes: Literal["run", "cache"] = Field(
        default="run",
        description="How long episodes are kept, which are simulated once and then replayed "
        "([folding.md](folding.md#when-is-an-episode-replayed)): within the run, or across runs and the points of a "
        "sweep, in a folder `episodes` in `$PYXSIM_CACHE`. Packet backend only.",
    )

    threads: Annotated[int | Literal["auto"], *whole(1, MOST_THREADS, "auto")] = Field(
        default="auto",
        description="Threads that simulate one network ([threads.md](threads.md)). A number disables fast-forward; "
        '"auto" chooses the fastest number (`--threads`). Packet backend only.',
    )

    mpi: Flag = Field(
        default=False,
        description="Whether the MPI ranks of this run simulate one network together ([threads.md](threads.md)), as in "
        "`mpiexec -n 2 pyxsim run X.toml --mpi`. Several ranks disable fast-forward. Only for `pyxsim run` (`--mpi`) "
        "and `pyxsim.run`. Packet backend only.",
    )

    checkpoint: Annotated[str | None, *_INTERVAL] = Field(
        default=None,
        description="Wall-clock interval between checkpoints, in s, min or h ([checkpoint.md](checkpoint.md)). Only "
        "for `pyxsim run` (`--checkpoint`) and `pyxsim.run`.",
    )

    allow_oom: Flag = Field(
        default=False,
        description="Whether to run a model that needs more memory than an NPU has; the run then prints a warning "
        "(`--allow-oom`).",
    )

    memory: Literal["check", "ignore"] = Field(
        default="check",
        description="`check` refuses a run whose estimated memory exceeds what the machine, its control groups and "
        "`ulimit -v` leave ([scale.md](scale.md#how-much-memory-will-my-run-need)); `ignore` runs it anyway.",
    )

    @property
    def every(self) -> float | None:
        """Seconds between checkpoints; None for no checkpoints."""
        if self.checkpoint is None:
            return None
        number, unit = self.checkpoint.split()
        return float(number) * SECONDS[unit]

    def check_single(self) -> None:
        """Raise InputError if checkpoints or MPI are set; for commands that have neither."""
        if self.mpi:
            raise InputError("this command does not use MPI", key="run.mpi", allowed="with `pyxsim run`")
        if self.checkpoint is not None:
            allowed = "with `pyxsim run`"
            raise InputError("this command writes no checkpoints", key="run.checkpoint", allowed=allowed)

    @property
    def most_threads(self) -> int | None:
        """The number of threads; None for an automatic choice."""
        return None if self.threads == "auto" else self.threads
