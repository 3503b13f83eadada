"""What memories did: bytes that each NPU moved, and how busy each memory and link was."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]

MOST_TOLD = 10  # memories and links, in JSON

NPU_TEXT = {
    "loaded": ("bytes", "it began to load from remote memory"),
    "stored": ("bytes", "it began to store in remote memory"),
    "read": ("bytes", "communication read from its own memory"),
    "written": ("bytes", "communication wrote to its own memory"),
    "compute": ("bytes", "computations moved through its own memory"),
    "engine": ("bytes", "its communication engine processed"),
    "busy": ("cycles", "its own memory had something to carry"),
}
USED_TEXT = {
    "name": ("", "name of the memory or link"),
    "bandwidth": ("bytes/second", "what it can carry; 0: as much as anybody wants"),
    "bytes": ("bytes", "what it carried"),
    "busy": ("cycles", "it had something to carry"),
}


@dataclass(eq=False)
class Memory:
    """`npus`: a row for each NPU: `loaded` and `stored` where there is remote memory, the others where endpoints share
    theirs. `used`: a row for each remote memory and link to it."""

    npus: Columns
    used: Columns

    def busiest(self, count: int) -> list[int]:
        """The rows of `used` that were busy longest."""
        return [int(row) for row in np.argsort(-self.used["busy"], kind="stable")[:count]]

    def json(self, cycles: int) -> dict[str, Any]:
        """What scripts are told. `cycles`: of the run."""
        used = [
            {
                "name": str(self.used["name"][row]),
                "bytes": int(self.used["bytes"][row]),
                "busy": float(self.used["busy"][row]) / max(1, cycles),
            }
            for row in self.busiest(MOST_TOLD)
        ]
        sums = {name: int(column.sum()) for name, column in self.npus.items() if name != "busy"}
        busy = {"busy": float(self.npus["busy"].mean()) / max(1, cycles)} if "busy" in self.npus else {}
        return {"memory": {**sums, **busy, "used": used}}


def used_columns(
    names: list[str], rates: list[Fraction], moved: list[int], busy: list[int], clock: Fraction
) -> Columns:
    """The columns of `used`. `rates`: bytes per cycle."""
    return {
        "name": np.array(names, dtype=object),
        "bandwidth": np.array([float(rate * clock) for rate in rates], np.float64),
        "bytes": np.array(moved, np.int64),
        "busy": np.array(busy, np.int64),
    }
