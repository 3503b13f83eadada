"""[output]: what is recorded, and the seed of everything random."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pyxsim.settings.types import Flag, PositiveTime, Table, whole, written


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
