"""Lists of NPUs in settings: members of a group, stragglers."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import AfterValidator, Field

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import shown, whole

MOST_NPUS = 2**20
Npu = Annotated[int, *whole(0, MOST_NPUS - 1)]


def _distinct(npus: tuple[int, ...]) -> tuple[int, ...]:
    twice = {npu: count for npu, count in Counter(npus).items() if count > 1}
    raise_all([InputError(f"NPU {npu} is listed {twice[npu]} times", allowed="every NPU once") for npu in twice])
    return npus


def _several(npus: tuple[int, ...]) -> tuple[int, ...]:
    if len(npus) == 1:
        raise InputError(f"{shown(npus)} is a single NPU", allowed="a list of at least two NPUs")
    return npus


Npus = Annotated[tuple[Npu, ...], Field(min_length=1), AfterValidator(_distinct)]
# In the order of their ranks.
Members = Annotated[Npus, AfterValidator(_several)]
