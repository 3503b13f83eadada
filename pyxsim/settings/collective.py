"""[collective]: one collective operation over all NPUs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pyxsim.settings.types import PositiveBytes, Table


class Collective(Table):
    """The collective operation that the experiment times."""

    kind: Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all"] = Field(description="The operation.")
    size: PositiveBytes = Field(
        description="The buffer of one NPU; for all-gather the shard that one NPU contributes (as in ASTRA-sim)."
    )
