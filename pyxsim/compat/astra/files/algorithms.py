"""The algorithms of an ASTRA-sim system file: one per dimension, in ASTRA-sim's spelling."""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.collective.lookup import get_algorithm
from pyxsim.errors import InputError
from pyxsim.file_entries import Entries
from pyxsim.settings import canonical_algorithm
from pyxsim.settings.algorithms import data_algorithm

# ASTRA-sim's algorithms, as its files spell them.
SPELLED = ("ring", "direct", "halvingDoubling", "doubleBinaryTree", "oneRing", "oneDirect", "oneHalvingDoubling")


def algorithms(file: Entries, key: str, spelled: Sequence[str], dims: int | None, kind: str | None) -> list[str] | None:
    """Return their names in pyxsim's spelling, or None after adding a fault to `file`.

    `dims`: number of dimensions, if known. `kind`: a kind of collective that the algorithms must support.
    """
    names = []
    for word in spelled:
        try:
            names.append(canonical_algorithm(data_algorithm(word)))
            if kind is not None:
                get_algorithm(names[-1]).check(kind)
        except InputError as error:
            # With the spelling of the file.
            problem = error.problem if f"'{word}'" in error.problem else f"'{word}': {error.problem}"
            unknown = isinstance(error.allowed, tuple)
            fault = InputError(problem, allowed=SPELLED if unknown else error.allowed, given=word)
            file.faults.append(fault.at(file=file.place(key), key=key))
            return None
    if dims is not None and len(names) not in (1, dims):
        file.fault(key, f"{len(names)} algorithms for {dims} dimensions", f"one name, or {dims} names")
        return None
    return names
