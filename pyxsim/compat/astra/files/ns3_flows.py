"""Flow files of ns-3's HPCC model as tables [[message]].

The first line has the number of flows; then a line per flow: source, destination, priority group, destination port,
bytes, and the start in seconds. As in ns-3, lines after the last flow are not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pyxsim.errors import InputError, raise_all
from pyxsim.file_entries import PathLike, shown
from pyxsim.textfile import read_text

_TIME = re.compile(r"\d{1,9}(\.\d{0,12})?([eE][+-]?\d{1,2})?", re.ASCII)
_ROW = "source, destination, priority group, destination port, bytes, start in seconds"
_PORT = 100  # destination port of ns-3's own generators, which the hash of routes takes


def flow_messages(path: PathLike, hosts: Sequence[int]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages of a flow file, and warnings. Raises InputError with the faults of all lines.

    `hosts`: the nodes that are NPUs, in order.
    """
    lines = [(number, line.split()) for number, line in enumerate(read_text(path).splitlines(), 1) if line.split()]
    if not lines or len(lines[0][1]) != 1 or not lines[0][1][0].isdecimal():
        raise InputError("is not a flow file", file=f"{path}:1", allowed="the number of flows in the first line")
    said, rows = lines[0][1][0], lines[1:]
    count = int(said) if len(said) < 10 else len(rows) + 1
    npu = {node: number for number, node in enumerate(hosts)}
    faults: list[InputError] = []
    messages = []
    groups: dict[str, None] = {}
    others = 0
    for number, words in rows[:count]:
        try:
            messages.append(_message(words, npu))
        except InputError as error:
            faults.append(error.at(file=f"{path}:{number}"))
            continue
        groups[words[2]] = None
        others += words[3] != str(_PORT)
    raise_all(faults)
    if len(messages) < count:
        problem = f"has {len(messages)} flows, but its first line says {shown(said)}"
        raise InputError(problem, file=f"{path}:1", allowed="as many as there are")
    if len(groups) > 1:
        problem = f"has flows of the priority groups {', '.join(groups)}"
        raise InputError(problem, file=str(path), allowed="one priority group for all flows")
    notes = []
    if others:
        port = f"a destination port other than {_PORT}, with which ns-3 may choose other routes"
        notes.append(f"{path}: {others} flows have {port}")
    if count < len(rows):
        notes.append(f"{path}:{rows[count][0]}: follows the last of {count} flows, and is not read")
    return messages, notes


def _message(words: Sequence[str], npu: dict[int, int]) -> dict[str, Any]:
    if len(words) != 6:
        raise InputError(f"has {len(words)} values", allowed=_ROW)
    ends = [npu.get(int(word)) if word.isdecimal() else None for word in words[:2]]
    for word, end in zip(words, ends, strict=False):
        if end is None:
            raise InputError(f"'{shown(word)}' is not a host of the topology", allowed=_ROW)
    if ends[0] == ends[1]:
        raise InputError(f"node {words[0]} sends to itself", allowed="two hosts")
    for word in words[2:5]:
        if not word.isdecimal():
            raise InputError(f"'{shown(word)}' is not a whole number", allowed=_ROW)
    if int(words[4]) < 1:
        raise InputError("has no bytes: such a flow of ns-3 never ends", allowed="at least 1")
    if not _TIME.fullmatch(words[5]):
        raise InputError(f"'{shown(words[5])}' is not a time in seconds", allowed="a number such as 2.0001")
    return {"src": ends[0], "dst": ends[1], "size": f"{words[4]} B", "at": f"{Fraction(words[5]) * 10**9} ns"}
