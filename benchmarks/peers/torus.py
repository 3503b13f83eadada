"""Shared code of the peers: their traffic, routes on a torus, and their report.

A peer runs in another Python, which may not have pyxsim: this file uses only the standard library.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MISSING = 3  # exit code of a peer whose simulator is not installed


@dataclass(frozen=True)
class Traffic:
    """A square torus and its packets. A cycle is a nanosecond.

    `hop`: cycles from router to router for a head flit alone; `width`: bytes per cycle of a link; `size`: bytes of a
    packet. Packet i is created in `cycle[i]`, at node `src[i]`, for another node `dst[i]`.
    """

    side: int
    hop: int
    width: int
    size: int
    cycle: list[int]
    src: list[int]
    dst: list[int]

    @property
    def nodes(self) -> int:
        return self.side * self.side


@dataclass
class Outcome:
    """The report of a peer. `cpu_s`: of its simulation; `latency`: mean of a packet, cycles; `events`: its own unit."""

    version: str
    packets: int
    latency: float
    cpu_s: float
    events: int | None = None


def neighbours(side: int, node: int) -> list[int]:
    """Up and down in the first dimension, up and down in the second one."""
    x, y = node % side, node // side
    up_x, down_x = y * side + (x + 1) % side, y * side + (x - 1) % side
    return [up_x, down_x, (y + 1) % side * side + x, (y - 1) % side * side + x]


def next_hop(side: int, node: int, dst: int) -> int:
    """Return the index of the next neighbour: first dimension first, the shorter way round, up for equal ways."""
    for dimension, stride in enumerate((1, side)):
        away = (dst // stride - node // stride) % side
        if away:
            return 2 * dimension + (2 * away > side)
    raise ValueError("there already")


def missing(how: str) -> NoReturn:
    """Exit because the simulator is not installed."""
    print(how, file=sys.stderr)
    raise SystemExit(MISSING)


def main(simulate: Callable[[Traffic], Outcome]) -> None:
    """Run a peer: `python with_x.py TRAFFIC.json` prints a line of JSON."""
    (name,) = sys.argv[1:]
    begin = time.process_time()
    outcome = simulate(Traffic(**json.loads(Path(name).read_text(encoding="ascii"))))
    print(json.dumps({**vars(outcome), "whole_cpu_s": time.process_time() - begin}))
