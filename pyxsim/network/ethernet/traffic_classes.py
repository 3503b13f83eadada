"""Traffic classes of messages ([[network.ethernet.classes]])."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.errors import InputError
from pyxsim.network.ethernet.config import DATA_CLASS
from pyxsim.network.name_patterns import matches
from pyxsim.settings.ethernet import TrafficClass

MOST_NAMES = 8  # in a note


class TrafficClasses:
    """Selects the class of each message: the first entry that applies, or the class after the last one.

    Parameters
    ----------
    entries
        The entries of the settings.
    npus
        Number of NPUs.

    Raises
    ------
    InputError
        For an NPU that does not exist.
    """

    def __init__(self, entries: Sequence[TrafficClass], npus: int) -> None:
        self._entries = entries
        self._used = np.zeros(len(entries), np.bool_)
        self._senders: list[BoolArray] = []
        for number, entry in enumerate(entries):
            if entry.npus is not None and max(entry.npus) >= npus:
                key = f"network.ethernet.classes[{number}].npus"
                raise InputError(f"there is no NPU {max(entry.npus)}", key=key, allowed=f"0 to {npus - 1}")
            sends = np.full(npus, entry.npus is None)
            sends[list(entry.npus or ())] = True
            self._senders.append(sends)
        self._named = np.zeros((0, len(entries)), np.bool_)  # by tag: which entries have a pattern of its name

    def select(self, src: IntArray, nbytes: IntArray, tag: IntArray | int, names: Sequence[str]) -> IntArray:
        """Return int64[K], the class of each message; `names` are those of the tags."""
        tags = np.broadcast_to(np.asarray(tag, np.int64), src.shape)
        most = int(tags.max(initial=-1)) + 1
        if most > len(self._named):
            known = [names[number] if number < len(names) else "" for number in range(most)]
            table = [[matches(name, entry.traffic) for entry in self._entries] for name in known]
            self._named = np.array(table, np.bool_)
        classes: IntArray = np.full(len(src), DATA_CLASS + len(self._entries))
        for number in reversed(range(len(self._entries))):
            entry = self._entries[number]
            applies = self._named[tags, number] & self._senders[number][src] & (nbytes >= entry.min_size)
            if entry.max_size is not None:
                applies &= nbytes <= entry.max_size
            classes[applies] = DATA_CLASS + number
        used = np.unique(classes) - DATA_CLASS
        self._used[used[used < len(self._entries)]] = True
        return classes

    def notes(self, names: Sequence[str]) -> list[str]:
        """Return a line for each entry that no message of the run was in."""
        known = ", ".join(list(dict.fromkeys(names))[:MOST_NAMES]) or "nothing"
        return [
            f'network.ethernet.classes[{number}]: no message is in this class (traffic = "{entry.traffic}"); the '
            f"traffic of this run is {known}"
            for number, (entry, used) in enumerate(zip(self._entries, self._used, strict=True))
            if not used
        ]
