"""[run]: how a result is computed. No number of it depends on anything here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyxsim.settings.types import Flag, Table, whole

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

    @property
    def most_threads(self) -> int | None:
        """None: as many as pay."""
        return None if self.threads == "auto" else self.threads
