"""[output]: what is recorded, and the seed of everything random."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyxsim.settings.types import Flag, PositiveTime, Table, whole, written

ATTRIBUTION = ("off", "links", "messages")  # in the order of the engine's levels


class Output(Table):
    """What the result file holds besides the totals."""

    window: PositiveTime = Field(
        default=written("1 us"),
        description="Length of the time windows of the link statistics; doubled when the table gets long.",
    )
    seed: Annotated[int, *whole(0, 2**63 - 1)] = Field(
        default=1, description="Seed of everything random; same seed, same result."
    )
    carry: Flag = Field(
        default=False,
        description="Move real data with the messages and compare what every NPU holds at the end with the result "
        "computed directly (`--carry`).",
    )
    attribution: Literal["off", "links", "messages"] = Field(
        default="off",
        description="Tell where the time of every message went, and who made whom wait "
        "([attribution.md](attribution.md)): `links` by link and cause, `messages` also of each packet at each link. "
        "Packet backend; the others have nothing to tell.",
    )
    tasks: Flag = Field(
        default=False,
        description="Keep each task of the workload in the result, when it was ready, started and ended, and why "
        "([output.md](output.md)): at most 2^20 of them.",
    )

    @property
    def level(self) -> int:
        """The attribution as a number: 0, 1 or 2."""
        return ATTRIBUTION.index(self.attribution)
