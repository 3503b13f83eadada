"""[run]: how a result is computed. No number of it depends on anything here."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from pyxsim.errors import InputError
from pyxsim.settings.types import Flag, Table, shown, whole

SECONDS = {"s": 1, "min": 60, "h": 3600}
_EVERY = re.compile(rf"(?:every\s+)?(\d{{1,9}}(?:\.\d{{1,9}})?)\s*({'|'.join(SECONDS)})", re.ASCII)


def interval(value: object) -> str | None:
    """A time of a clock on the wall, as "60 s"; "every 60 s" is the same."""
    if value is None:
        return None
    match = _EVERY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not Fraction(match[1]):
        raise InputError(f"{shown(value)} is no time", allowed="a time above zero, such as '60 s', '10 min' or '1 h'")
    return f"{match[1]} {match[2]}"


_INTERVAL = PlainValidator(interval), WithJsonSchema({"type": "string", "format": "time", "examples": ["60 s"]})

MOST_THREADS = 64


class Run(Table):
    """How the result is computed; it is the same however."""

    skip: Flag = Field(
        default=True,
        description="Skip whole periods of regular traffic, exactly ([fast_forward.md](fast_forward.md)); false: "
        "simulate every cycle (`--no-skip`). Packet backend.",
    )
    threads: Annotated[int | Literal["auto"], *whole(1, MOST_THREADS, "auto")] = Field(
        default="auto",
        description="Threads that simulate one network ([threads.md](threads.md)), the result is the same: so many, "
        'which then skip nothing; or "auto": as many as pay (`--threads`). Packet backend.',
    )

    checkpoint: Annotated[str | None, *_INTERVAL] = Field(
        default=None,
        description="Write a checkpoint of the run every so often, of a clock on the wall: s, min, h "
        "([checkpoint.md](checkpoint.md)). `pyxsim run` (`--checkpoint`), `pyxsim.run`; others refuse it.",
    )

    @property
    def every(self) -> float | None:
        """Seconds from one checkpoint to the next; None: there are none."""
        if self.checkpoint is None:
            return None
        number, unit = self.checkpoint.split()
        return float(number) * SECONDS[unit]

    def without_checkpoints(self) -> None:
        """Raise InputError where somebody expects them of a command that writes none."""
        if self.checkpoint is not None:
            allowed = "with `pyxsim run`, or nothing"
            raise InputError("this command has no checkpoints", key="run.checkpoint", allowed=allowed)

    @property
    def most_threads(self) -> int | None:
        """None: as many as pay."""
        return None if self.threads == "auto" else self.threads
