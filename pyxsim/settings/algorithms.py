"""Names of collective algorithms, in pyxsim's and in ASTRA-sim's spelling; one key per kind of collective."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from pyxsim.errors import InputError
from pyxsim.settings.types import PerDimension, Table, Word

ASTRA_KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")  # of ASTRA-sim 1
KINDS = (*ASTRA_KINDS, "broadcast", "reduce", "gather", "scatter", "barrier")
ROOTED = ("broadcast", "reduce", "gather", "scatter")

# ASTRA-sim's spellings, except those that are the same (ring, direct).
_ASTRA = {
    "oneRing": "one-ring",
    "oneDirect": "one-direct",
    "halvingDoubling": "halving-doubling",
    "oneHalvingDoubling": "one-halving-doubling",
    "doubleBinaryTree": "double-binary-tree",
}
FILES = (".py", ".xml", ".json", ".csv", ".et")  # formats of the user's own algorithms


def canonical_algorithm(name: str) -> str:
    """Convert the name of an algorithm to pyxsim's spelling; unknown names are returned as they are.

    oneRing -> one-ring, halvingDoubling -> halving-doubling, direct4 -> direct:4. Whether the algorithm exists is not
    checked.

    Raises
    ------
    InputError
        If the window of a direct algorithm is not a whole number from 1.
    """
    known = re.fullmatch(r"(direct|oneDirect|one-direct)(?:(\d+)|:(.*))", name, re.ASCII)
    if known is None:
        return _ASTRA.get(name, name)
    word = _ASTRA.get(known[1], known[1])
    window = known[2] or known[3] or ""
    if not re.fullmatch(r"0*[1-9]\d{0,8}", window, re.ASCII):
        raise InputError(f"invalid number in '{name}'", allowed=f"a whole number of at least 1, such as '{word}:4'")
    return f"{word}:{int(window)}"


def is_file(name: str) -> bool:
    """Whether the name of an algorithm is a file: `FILE.py:FUNCTION`, `FILE.xml` (.json, .csv), `PREFIX.*.et`."""
    return re.fullmatch(rf".*({'|'.join(map(re.escape, FILES))})(:\w+)?", name) is not None


def data_algorithm(name: str) -> str:
    """Return the name of an algorithm that a data file gives: a trace, a system file, a list of prefixes.

    Raises
    ------
    InputError
        If it is a Python file: reading data must not run code. Only users name code.
    """
    if re.search(r"\.py(:|$)", name):
        allowed = "Python code that the experiment's own TOML, --set or --library names"
        raise InputError(f"'{name}' is Python code, which a data file may not name", allowed=allowed)
    return name


Algorithm = Annotated[Word, AfterValidator(canonical_algorithm)]
AlgorithmNames = PerDimension[Algorithm] | None
_BY_DIMENSION = (
    "by name or file: one for all dimensions, or a list with one for each dimension. Default: the best for each block."
)


def _key(kind: str) -> AlgorithmNames:
    return Field(default=None, description=f"{kind} algorithm {_BY_DIMENSION}")


class Algorithms(Table):
    """The algorithm for each kind of collective."""

    all_reduce: AlgorithmNames = _key("All-reduce")
    reduce_scatter: AlgorithmNames = _key("Reduce-scatter")
    all_gather: AlgorithmNames = _key("All-gather")
    all_to_all: AlgorithmNames = _key("All-to-all")
    broadcast: AlgorithmNames = _key("Broadcast")
    reduce: AlgorithmNames = _key("Reduce")
    gather: AlgorithmNames = _key("Gather")
    scatter: AlgorithmNames = _key("Scatter")
    barrier: AlgorithmNames = _key("Barrier")

    def algorithms(self, kind: str) -> str | tuple[str, ...] | None:
        """Return the algorithms for a kind of collective ("all-reduce"); None for the default of each block."""
        names: str | tuple[str, ...] | None = getattr(self, algorithm_key(kind))
        return names


def algorithm_key(kind: str) -> str:
    """Return the setting of a kind's algorithms: all-reduce -> all_reduce."""
    return kind.replace("-", "_")


ALGORITHM_KEYS = tuple(algorithm_key(kind) for kind in KINDS)
