"""Connection matrices of htsim (.cm): who sends how much to whom, and the triggers that start flows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pyxsim.compat.htsim.htsim_options import INT_MAX, number, whole
from pyxsim.errors import InputError

MOST_ID = 999_999_999
_COUNTS = ("Nodes", "Connections", "Triggers", "Failures")
_KINDS = ("oneshot", "multishot", "barrier")
_WORDS = ("start", "size", "id", "trigger", "send_done_trigger", "recv_done_trigger", "prio", "msg")
MOST_NODES = 1_000_000


@dataclass(frozen=True)
class Connection:
    """A line `SRC->DST ...`: a flow, or a message of a flow (-conn_reuse). `start`: ps; None: by a trigger."""

    place: str
    src: int
    dst: int
    size: int
    start: int | None
    id: int = 0
    trigger: int = 0
    send_done: int = 0
    recv_done: int = 0
    message: bool = False


@dataclass(frozen=True)
class TriggerLine:
    """A line `trigger id N KIND [count C]`."""

    place: str
    kind: str
    count: int = 0


@dataclass(frozen=True)
class ConnectionMatrix:
    """The contents of a file."""

    nodes: int
    connections: tuple[Connection, ...]
    triggers: dict[int, TriggerLine] = field(default_factory=dict)


def read_matrix(text: str, file: str, *, reuse: bool = False) -> ConnectionMatrix:
    """Return the connections and triggers of a file. Raises InputError with file and line.

    `reuse`: of -conn_reuse, several lines may have the same id.
    """
    counts: dict[str, int] = {}
    connections: list[Connection] = []
    triggers: dict[int, TriggerLine] = {}
    for place, words in _lines(text, file):
        if words[0] in _COUNTS:
            value = words[1] if len(words) == 2 else " ".join(words[1:])
            counts[words[0]] = whole(value, words[0], 0, MOST_NODES if words[0] == "Nodes" else INT_MAX, place)
        elif "->" in words[0]:
            if "Nodes" not in counts:
                raise InputError("'Nodes N' is missing before this line", file=place)
            connections.append(_connection(words, place, counts["Nodes"]))
        elif words[0] == "trigger":
            number_, line = _trigger(words, place)
            if number_ in triggers:
                raise InputError(f"trigger {number_} is there already ({triggers[number_].place})", file=place)
            triggers[number_] = line
        elif words[0] == "failure":
            raise InputError("failures of links are not supported", file=place, allowed="degraded links: -failed N")
        else:
            allowed = [*_COUNTS, "SRC->DST", "trigger", "failure"]
            raise InputError(f"unknown word '{words[0]}'", file=place, allowed=allowed, given=words[0])
    matrix = ConnectionMatrix(counts.get("Nodes", 0), tuple(connections), triggers)
    _check_counts(matrix, counts, file)
    _check_triggers(matrix)
    _check_ids(matrix, reuse)
    return matrix


def _lines(text: str, file: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the words of each line that is not empty and no comment."""
    for row, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield f"{file}:{row}", words


def _connection(words: list[str], place: str, nodes: int) -> Connection:
    ends = words[0].split("->")
    if len(ends) != 2:
        raise InputError(f"'{words[0]}' is not a pair of hosts", file=place, allowed="SRC->DST")
    src, dst = (whole(text, words[0], 0, nodes - 1, place) for text in ends)
    if src == dst:
        raise InputError(f"host {src} sends to itself", file=place)
    values, message = _values(words[1:], place)
    start = None
    if "start" in values:  # htsim reads a float and cuts it to whole microseconds
        start = int(np.float32(number(values["start"], "start", 1e12, file=place))) * 1_000_000
    trigger = _number(values, "trigger", place)
    if start is None and not trigger:
        raise InputError("the flow has no start", file=place, allowed="start MICROSECONDS, or trigger N")
    if start is not None and trigger:
        raise InputError("the flow has both a start and a trigger", file=place, allowed="one of them")
    if "size" not in values:
        raise InputError("the flow has no size", file=place, allowed="size BYTES")
    size = whole(values["size"], "size", 1, INT_MAX, place)
    own_id = _number(values, "id", place)
    if trigger and not own_id:
        raise InputError("the flow has a trigger but no id", file=place, allowed="id N")
    _number(values, "prio", place, 0)
    done = _number(values, "send_done_trigger", place), _number(values, "recv_done_trigger", place)
    return Connection(place, src, dst, size, start, own_id, trigger, *done, message)


def _values(words: list[str], place: str) -> tuple[dict[str, str], bool]:
    """Return the value of each word, and whether there is `msg`, whose value may be absent."""
    values: dict[str, str] = {}
    message, rest = False, list(words)
    while rest:
        word = rest.pop(0)
        if word not in _WORDS:
            raise InputError(f"unknown word '{word}'", file=place, allowed=_WORDS, given=word)
        if word in values:
            raise InputError(f"'{word}' is there twice", file=place)
        if word == "msg":
            message = True
            if rest and rest[0].isdigit():
                whole(rest.pop(0), word, 1, INT_MAX, place)
            continue
        if not rest:
            raise InputError(f"the value of '{word}' is missing", file=place)
        values[word] = rest.pop(0)
    return values, message


def _number(values: dict[str, str], word: str, place: str, least: int = 1) -> int:
    most = MOST_ID if word == "id" else INT_MAX
    return whole(values[word], word, least, most, place) if word in values else 0


def _trigger(words: list[str], place: str) -> tuple[int, TriggerLine]:
    kind, values = None, {"id": 0, "count": 0}
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if word in _KINDS and kind is None:
            kind = word
        elif word in values and rest:
            values[word] = whole(rest.pop(0), word, 1, INT_MAX, place)
        else:
            raise InputError(f"unexpected word '{word}'", file=place, allowed=["id N", *_KINDS, "count N"], given=word)
    if kind is None or not values["id"]:
        raise InputError(
            "the trigger is not complete", file=place, allowed=f"trigger id N {'|'.join(_KINDS)} [count N]"
        )
    if kind == "barrier" and not values["count"]:
        raise InputError("the barrier has no count", file=place, allowed="trigger id N barrier count N")
    return values["id"], TriggerLine(place, kind, values["count"])


def _check_counts(matrix: ConnectionMatrix, counts: dict[str, int], file: str) -> None:
    """Check the numbers of the header."""
    if matrix.nodes < 2:
        raise InputError("the number of hosts is missing", file=file, allowed="a line 'Nodes N', at least 2")
    numbers = {"Connections": len(matrix.connections), "Triggers": len(matrix.triggers), "Failures": 0}
    for name, number_ in numbers.items():
        if counts.get(name, 0) != number_:
            problem = f"the file has {number_}, and not {counts.get(name, 0)}"
            raise InputError(problem, file=file, key=name)
    if not matrix.connections:
        raise InputError("has no connections", file=file, allowed="lines 'SRC->DST start T size BYTES'")


def _check_triggers(matrix: ConnectionMatrix) -> None:
    """Check that each trigger has a line and, if something fires it, targets."""
    targets = {connection.trigger for connection in matrix.connections}
    for line in matrix.connections:
        for number_ in filter(None, (line.trigger, line.send_done, line.recv_done)):
            if number_ not in matrix.triggers:
                allowed = f"a line 'trigger id {number_} {'|'.join(_KINDS)}'"
                raise InputError(f"trigger {number_} has no line", file=line.place, allowed=allowed)
        if line.send_done and line.send_done not in targets:
            raise InputError(f"trigger {line.send_done} starts no flow", file=line.place)


def _check_ids(matrix: ConnectionMatrix, reuse: bool) -> None:
    """Check ids and messages."""
    first: dict[int, Connection] = {}
    for line in matrix.connections:
        if not reuse:
            if line.message:
                raise InputError("'msg' needs the option -conn_reuse", file=line.place)
            if line.id and line.id in first:
                raise InputError(f"id {line.id} is there already ({first[line.id].place})", file=line.place)
        else:
            _check_message(line, first.get(line.id))
        first.setdefault(line.id, line)


def _check_message(line: Connection, first: Connection | None) -> None:
    """Check a message of -conn_reuse; `first`: the first one of its id."""
    if not line.id:
        raise InputError("the message has no id", file=line.place, allowed="id N, with -conn_reuse")
    if line.trigger or line.send_done or line.recv_done:
        raise InputError("triggers are not supported with -conn_reuse", file=line.place)
    if first is not None and not line.message:
        raise InputError(f"id {line.id} is there already ({first.place})", file=line.place, allowed="a further 'msg'")
    if first is not None and (line.src, line.dst) != (first.src, first.dst):
        problem = f"id {line.id} leads from {line.src} to {line.dst}"
        raise InputError(problem, file=line.place, allowed=f"{first.src}->{first.dst} ({first.place})")
