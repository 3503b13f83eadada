"""Traces read without any code of pyxsim: JSON, and decimals as they are written."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Told:
    """The events of a file. Times are nanoseconds, exact."""

    def __init__(self, path: Path) -> None:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        self.file = json.loads(data, parse_float=Decimal, parse_constant=_refuse)
        self.events: list[Event] = self.file["traceEvents"]
        self.slices = [_timed(event) for event in self.events if event["ph"] == "X"]
        names = [event for event in self.events if event["name"] == "process_name"]
        self.processes: dict[int, str] = {event["pid"]: event["args"]["name"] for event in names}
        threads = [event for event in self.events if event["name"] == "thread_name"]
        self.threads: dict[int, str] = {event["tid"]: event["args"]["name"] for event in threads}

    def of(self, category: str) -> list[Event]:
        return [event for event in self.slices if event["cat"] == category]

    @property
    def counters(self) -> dict[tuple[str, str, str], dict[int, Any]]:
        """{(process, what it is of, what is counted): {time: value}}"""
        found: dict[tuple[str, str, str], dict[int, Any]] = defaultdict(dict)
        for event in self.events:
            if event["ph"] == "C":
                ((what, value),) = event["args"].items()
                times = found[self.processes[event["pid"]], event["name"], what]
                assert _ns(event["ts"]) not in times
                times[_ns(event["ts"])] = value
        return found

    @property
    def chains(self) -> list[list[Event]]:
        """The slices that arrows join, in the order of time."""
        found = defaultdict(list)
        for event in self.slices:
            if "bind_id" in event:
                found[event["bind_id"]].append(event)
        return list(found.values())

    @property
    def arrows(self) -> list[tuple[Event, Event]]:
        """The other arrows: the slice on the thread of each end that goes on at its time."""
        ends: dict[int, dict[str, Event]] = defaultdict(dict)
        for event in self.events:
            if event["ph"] in "sf":
                assert event["ph"] not in ends[event["id"]]
                ends[event["id"]][event["ph"]] = event
        return [(self._at(each["s"]), self._at(each["f"])) for each in ends.values()]

    def _at(self, end: Event) -> Event:
        time = _ns(end["ts"])
        (found,) = [each for each in self.slices if each["tid"] == end["tid"] and each["begin"] == time]
        return found


def _timed(event: Event) -> Event:
    begin = _ns(event["ts"])
    return {**event, "begin": begin, "end": begin + _ns(event["dur"])}


def _ns(microseconds: Any) -> int:
    value = Decimal(microseconds) * 1000
    assert value == int(value)
    return int(value)


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is no JSON")
