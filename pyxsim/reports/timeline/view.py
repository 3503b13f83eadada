"""The view of a timeline: times, NPUs, links, and the maximum number of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError, raise_all
from pyxsim.results.result import STALLS, Result
from pyxsim.units import parse_time

MOST_EVENTS = 150_000  # some 40 MB of JSON
BUSIEST = 32  # links
PORT_COUNTERS = {
    "depth": "bytes",
    **dict.fromkeys(("marked", "dropped", "trimmed", "errors"), "packets"),
    "pauses": "pauses",
    "paused": "ps",
}
"""What the Ethernet backend counts on links, and its unit."""
COUNTERS = {
    "utilization": "%",
    "flits": "flits",
    "busy": "cycles",
    **dict.fromkeys(STALLS, "cycles"),
    **PORT_COUNTERS,
}
"""What is counted on links, and its unit."""
_ALL = "all"


@dataclass(frozen=True)
class View:
    """What a timeline shows.

    `begin`, `end`: times such as "10 us"; `npus`: "0-7,12"; `links`: "all", a number of busiest links, names or
    patterns; `counters`: names of COUNTERS.
    """

    begin: str | None = None
    end: str | None = None
    npus: str | None = None
    links: Sequence[str] = (str(BUSIEST),)
    counters: Sequence[str] = ("utilization",)
    most_events: int = MOST_EVENTS

    def check(self) -> None:
        """Raise InputError for settings that fit no result."""
        faults = [
            InputError(f"unknown counter '{name}'", key="--counter", allowed=list(COUNTERS), given=name)
            for name in self.counters
            if name not in COUNTERS
        ]
        if self.most_events < LEAST_EVENTS:
            problem = f"{self.most_events} events are too few"
            faults.append(InputError(problem, key="--max-events", allowed=f"{LEAST_EVENTS} or more"))
        for check in (self._check_times, self._check_npus):
            try:
                check()
            except InputError as error:
                faults.append(error)
        raise_all(faults)

    def _check_times(self) -> None:
        begin, end = _time(self.begin, "--from"), _time(self.end, "--to")
        if begin is not None and end is not None and begin >= end:
            raise InputError(f"'{self.end}' is not after --from '{self.begin}'", key="--to", allowed="a later time")

    def _check_npus(self) -> None:
        if self.npus is not None:
            _ranges(self.npus)

    def cycles(self, result: Result) -> tuple[int, int]:
        """Return the range of cycles. Raises InputError if it is empty."""
        begin, end = _time(self.begin, "--from"), _time(self.end, "--to")
        first = 0 if begin is None else int(begin * result.clock_hz)
        last = result.time_cycles if end is None else int(-(-(end * result.clock_hz) // 1))
        if self.begin is not None and first >= max(1, result.time_cycles):
            lasts = f"a time before the end of the run, {result.time_ns} ns"
            raise InputError(f"'{self.begin}' is after the end of the run", key="--from", allowed=lasts)
        return first, min(last, result.time_cycles)

    def chosen_counters(self, result: Result) -> list[str]:
        """Return the selected counters without repetition. Raises InputError for one that the result does not have."""
        faults = [
            InputError(
                f"the backend '{result.backend}' has no counter '{name}'", key="--counter", allowed=_counted(result)
            )
            for name in self.counters
            if name not in _counted(result)
        ]
        raise_all(faults)
        return list(dict.fromkeys(self.counters))

    def chosen_npus(self, result: Result) -> IntArray | None:
        """Return the selected NPUs; None for all. Raises InputError for an unknown one."""
        if self.npus is None:
            return None
        most = int(result.counts.get("npus", 0))
        npus = _ranges(self.npus)
        if npus[-1] >= most:
            raise InputError(f"there is no NPU {npus[-1]}", key="--npus", allowed=f"0 to {most - 1}")
        return np.array(npus, np.int64)

    def chosen_links(self, result: Result) -> IntArray:
        """Return the selected links, busiest first. Raises InputError for an unknown name."""
        names = result.links.name
        busiest = np.argsort(-result.busy_total, kind="stable")
        links: set[int] = set()
        for text in self.links:
            if text == _ALL:
                links.update(range(len(names)))
            elif text.isdigit():
                links.update(busiest[: int(text)].tolist())
            else:
                matching = [link for link, name in enumerate(names) if name == text or fnmatchcase(name, text)]
                if not matching:
                    allowed = f"all, a number of links, a name or a pattern of names such as '{_example(names)}'"
                    raise InputError(f"there is no link '{text}'", key="--links", allowed=allowed)
                links.update(matching)
        return busiest[np.isin(busiest, np.array(sorted(links), np.int64))]


LEAST_EVENTS = 100


def _counted(result: Result) -> list[str]:
    """The counters that a result has."""
    measured = "port_windows" in result.backend_tables
    return [name for name in COUNTERS if measured or name not in PORT_COUNTERS]


def _example(names: Sequence[str]) -> str:
    return f"{names[0].partition(':')[0]}:*" if names and ":" in names[0] else names[0] if names else "d0+:*"


def _time(text: str | None, key: str) -> Fraction | None:
    """A time in seconds."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except InputError as error:
        raise error.named_by(key) from None


def _ranges(text: str) -> list[int]:
    """The distinct numbers of "0-3,7", sorted."""
    numbers: set[int] = set()
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise InputError(
                f"'{text}' is not a list of NPUs", key="--npus", allowed="numbers and ranges, such as 0-7,12"
            )
        if int(last or first) > MOST_NPUS:
            raise InputError(f"there is no NPU {last or first}", key="--npus", allowed=f"numbers up to {MOST_NPUS}")
        numbers.update(range(int(first), int(last or first) + 1))
    return sorted(numbers)


MOST_NPUS = 1 << 20
