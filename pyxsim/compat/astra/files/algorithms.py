"""The algorithms of an ASTRA-sim system file: one for each dimension, in its spelling."""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.collective.lookup import get_algorithm
from pyxsim.errors import InputError
from pyxsim.file_entries import Entries
from pyxsim.settings import canonical_algorithm

# What ASTRA-sim has, as its files spell it.
SPELLED = ("ring", "direct", "halvingDoubling", "doubleBinaryTree", "oneRing", "oneDirect", "oneHalvingDoubling")


def algorithms(file: Entries, key: str, spelled: Sequence[str], dims: int | None, kind: str | None) -> list[str] | None:
    """Their names in our spelling; None where something is wrong.

    `dims`: how many dimensions there are, if that is known. `kind`: what the algorithms must be able to do, if any.
    """
    names = []
    for word in spelled:
        try:
            names.append(canonical_algorithm(word))
            if kind is not None:
                get_algorithm(names[-1]).check(kind)
        except InputError as error:
            # In the words of the file, whose spelling is not ours.
            problem = error.problem if f"'{word}'" in error.problem else f"'{word}': {error.problem}"
            unknown = isinstance(error.allowed, tuple)
            told = InputError(problem, allowed=SPELLED if unknown else error.allowed, given=word)
            file.faults.append(told.at(file=file.place(key), key=key))
            return None
    if dims is not None and len(names) not in (1, dims):
        file.fault(key, f"{len(names)} algorithms for {dims} dimensions", f"one name, or {dims} names")
        return None
    return names
