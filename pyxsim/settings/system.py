"""[system]: how collectives are cut into chunks, queued and scheduled over the dimensions, as in ASTRA-sim."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pyxsim.errors import InputError
from pyxsim.settings.types import PerDimension, Table, Time, Word, whole, written

_Count = Annotated[int, *whole(1, 2**20)]


# ASTRA-sim's spellings of the algorithms, besides those that are the same (ring, direct).
_ASTRA = {
    "oneRing": "one-ring",
    "oneDirect": "one-direct",
    "halvingDoubling": "halving-doubling",
    "oneHalvingDoubling": "one-halving-doubling",
    "doubleBinaryTree": "double-binary-tree",
}


def canonical_algorithm(name: str) -> str:
    """The name of an algorithm in our spelling, from ours or ASTRA-sim's; other names stay as they are.

    oneRing -> one-ring, halvingDoubling -> halving-doubling, direct4 -> direct:4. A window is a whole number from 1;
    anything else raises InputError. Whether the algorithm exists is not asked here: the shelf knows.
    """
    known = re.fullmatch(r"(direct|oneDirect|one-direct)(?:(\d+)|:(.*))", name, re.ASCII)
    if known is None:
        return _ASTRA.get(name, name)
    word = _ASTRA.get(known[1], known[1])
    window = known[2] or known[3] or ""
    if not re.fullmatch(r"0*[1-9]\d{0,8}", window, re.ASCII):
        raise InputError(f"the window of '{name}' is no count", allowed=f"a whole number from 1, such as '{word}:4'")
    return f"{word}:{int(window)}"


Algorithm = Annotated[Word, AfterValidator(canonical_algorithm)]
_Algorithms = PerDimension[Algorithm] | None
_BY_DIMENSION = (
    "by name: one for all dimensions, or a list with one for each. Left out: what suits the dimension's block."
)


class System(Table):
    """The layer between a collective and the network."""

    compat: Literal["astra-sim-1"] | None = Field(
        default=None, description="Reproduce another simulator where it differs."
    )
    chunks: _Count = Field(
        default=1, description="Chunks that a collective is cut into (ASTRA-sim: preferred-dataset-splits)."
    )
    active_chunks: _Count = Field(default=1, description="Chunks that are worked on at a time in each queue.")
    scheduling: Literal["LIFO", "FIFO"] = Field(
        default="LIFO", description="Which collective goes first: the last issued, or the first."
    )
    intra_dimension: Literal["FIFO"] = Field(default="FIFO", description="Which chunk goes first in a queue.")
    inter_dimension: Literal["ascending", "round-robin", "themis"] = Field(
        default="ascending",
        description="In which order a chunk goes through the dimensions: always ascending, rotated chunk by chunk, or "
        "the least loaded first (Themis).",
    )
    optimization: Literal["baseline", "localBWAware"] = Field(
        default="localBWAware",
        description="All-reduce over dimensions: one in each, or reduce-scatters there and all-gathers back.",
    )
    endpoint_delay: Time = Field(
        default=written("0 ns"), description="What an NPU needs to take in a message before it can go on."
    )
    reduction_delay: Time = Field(
        default=written("0 ns"), description="What an NPU needs to reduce a message into its buffer."
    )
    queues: PerDimension[_Count] | None = Field(
        default=None,
        description="Queues per dimension, a number or a list. Left out: one for each direction of the block.",
    )
    all_reduce: _Algorithms = Field(default=None, description=f"All-reduce algorithm {_BY_DIMENSION}")
    reduce_scatter: _Algorithms = Field(default=None, description=f"Reduce-scatter algorithm {_BY_DIMENSION}")
    all_gather: _Algorithms = Field(default=None, description=f"All-gather algorithm {_BY_DIMENSION}")
    all_to_all: _Algorithms = Field(default=None, description=f"All-to-all algorithm {_BY_DIMENSION}")

    def algorithms(self, kind: str) -> str | tuple[str, ...] | None:
        """The algorithms that the user wants for a kind of collective ("all-reduce"), None for the natural ones."""
        table = {
            "all-reduce": self.all_reduce,
            "reduce-scatter": self.reduce_scatter,
            "all-gather": self.all_gather,
            "all-to-all": self.all_to_all,
        }
        return table[kind]
