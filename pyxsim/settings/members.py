"""Lists of NPUs in settings: who takes part in a group, whom a delay concerns."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import AfterValidator, Field

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import shown, whole

MOST_NPUS = 2**20
Npu = Annotated[int, *whole(0, MOST_NPUS - 1)]
Npus = Annotated[tuple[Npu, ...], Field(min_length=1)]


def _group(npus: tuple[int, ...]) -> tuple[int, ...]:
    """Refuse a list that is no group: an NPU twice, or one NPU alone."""
    twice = [npu for npu, count in Counter(npus).items() if count > 1]
    faults = [InputError(f"NPU {npu} is listed {npus.count(npu)} times", allowed="every NPU once") for npu in twice]
    if len(npus) == 1:
        faults.append(InputError(f"{shown(npus)} is one NPU alone", allowed="a list of at least two NPUs"))
    raise_all(faults)
    return npus


# In the order of their ranks.
Members = Annotated[Npus, AfterValidator(_group)]
