"""[output]: what is recorded, and the random seed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyxsim.settings.types import Flag, PositiveTime, Table, whole, written

ATTRIBUTION = ("off", "links", "messages")  # in the order of the engine's levels


class Output(Table):
    """What is recorded besides totals, and the seed."""

    window: PositiveTime = Field(
        default=written("1 us"),
        description="Length of the time windows of link statistics; it doubles whenever the number of windows reaches "
        "a limit.",
    )
    seed: Annotated[int, *whole(0, 2**63 - 1)] = Field(
        default=1, description="Seed of all random numbers; the same seed gives the same result."
    )
    carry: Flag = Field(
        default=False,
        description="Whether messages carry real data; the final data of every NPU are compared with the directly "
        "computed result (`--carry`).",
    )
    attribution: Literal["off", "links", "messages"] = Field(
        default="off",
        description="Whether to attribute the time of messages to causes, and delays to the traffic that caused them "
        "([attribution.md](attribution.md)): `links` by link and cause, `messages` also per packet and link. "
        "The Ethernet backend divides the time of each message (`flow_times`); others ignore it.",
    )
    tasks: Flag = Field(
        default=False,
        description="Whether to record when each task of the workload was ready, started and ended, and why "
        "([output.md](output.md)); at most 2^20 tasks.",
    )

    @property
    def level(self) -> int:
        """The attribution as the engine's level: 0, 1 or 2."""
        return ATTRIBUTION.index(self.attribution)
