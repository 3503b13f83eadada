"""Files of GOAL schedules: what a file is, reading and writing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pyxsim.errors import InputError
from pyxsim.paths import created, missing
from pyxsim.workload.goal.binary_form import MAGIC, USED_UP, read_binary, write_binary
from pyxsim.workload.goal.schedule import Schedule
from pyxsim.workload.goal.text_form import read_text, write_text

ENDINGS = (".goal", ".bin")
"""Of the text and of the binary form, as they are written."""

_HEAD = re.compile(rb"(?>\s|//[^\n]*\n|/\*.*?\*/)*+num_ranks\s", re.DOTALL)
_LOOK = 4096  # bytes


def is_goal(name: str) -> bool:
    """Return whether a file is a GOAL schedule, by what it holds."""
    try:
        with Path(name).open("rb") as stream:
            head = stream.read(_LOOK)
    except (OSError, ValueError):
        return False
    return head[:8] in (MAGIC, USED_UP) or _HEAD.match(head) is not None


@contextmanager
def read_goal(name: str) -> Iterator[Schedule]:
    """Open a schedule, text or binary; its ranks are read one by one. Raises InputError."""
    with _opened(name) as stream:
        magic = stream.read(len(MAGIC))
        if magic == USED_UP:
            problem = "is a schedule that a run of LogGOPSim has used up (--save-mem)"
            raise InputError(problem, file=name, allowed="a new file of txt2bin")
        if magic == MAGIC:
            yield read_binary(stream, name)
        else:
            stream.seek(0)
            yield read_text(stream, name)


def _opened(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except FileNotFoundError as error:
        raise missing(name) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=name) from error


def write_goal(schedule: Schedule, target: str) -> int:
    """Write a schedule, as text (.goal) or binary (.bin); return the number of operations. Raises InputError."""
    with created(target) as stream:
        return (write_binary if target.endswith(ENDINGS[1]) else write_text)(schedule, stream)
