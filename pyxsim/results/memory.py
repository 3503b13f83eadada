"""Bytes that each NPU moved, and how busy each memory and link was."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]

MOST_LISTED = 10  # memories and links in JSON


@dataclass(eq=False, repr=False)
class Memory:
    """The use of remote memories and shared endpoints.

    Attributes
    ----------
    npus
        Columns, one row per NPU: `loaded` and `stored` with remote memory, the others with shared endpoint memory.
    used
        Columns, one row per remote memory and link to it.
    """

    npus: Columns
    used: Columns

    def __repr__(self) -> str:
        return f"Memory({', '.join(self.npus)}; {len(self.used['name'])} memories and links)"

    def busiest(self, count: int) -> list[int]:
        """Return the rows of `used` that were busy longest."""
        return [int(row) for row in np.argsort(-self.used["busy"], kind="stable")[:count]]

    def json(self, cycles: int) -> dict[str, Any]:
        """Return the JSON key `memory`. `cycles`: length of the run."""
        used = [
            {
                "name": str(self.used["name"][row]),
                "bytes": int(self.used["bytes"][row]),
                "busy": float(self.used["busy"][row]) / max(1, cycles),
            }
            for row in self.busiest(MOST_LISTED)
        ]
        sums = {name: int(column.sum()) for name, column in self.npus.items() if name != "busy"}
        busy = {"busy": float(self.npus["busy"].mean()) / max(1, cycles)} if "busy" in self.npus else {}
        return {"memory": {**sums, **busy, "used": used}}


def used_columns(
    names: list[str], rates: list[Fraction], moved: list[int], busy: list[int], clock: Fraction
) -> Columns:
    """Make the columns of `used`. `rates`: bytes per cycle."""
    return {
        "name": np.array(names, dtype=object),
        "bandwidth": np.array([float(rate * clock) for rate in rates], np.float64),
        "bytes": np.array(moved, np.int64),
        "busy": np.array(busy, np.int64),
    }
