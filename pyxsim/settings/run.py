"""[run]: how a result is computed. No number of it depends on anything here."""

from __future__ import annotations

from pydantic import Field

from pyxsim.settings.types import Flag, Table


class Run(Table):
    """How the result is computed; it is the same however."""

    skip: Flag = Field(
        default=True,
        description="Skip whole periods of regular traffic, exactly ([fast_forward.md](fast_forward.md)); false: "
        "simulate every cycle (`--no-skip`). Packet backend.",
    )
