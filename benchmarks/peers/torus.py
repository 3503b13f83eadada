"""What peers share: the traffic that they are given, routes on a torus, and how they tell what they did.

A peer runs in a Python of its own, which may have no pyxsim: this file needs nothing but the standard library.
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
    packet. Packet i is created in `cycle[i]`, at node `src[i]`, for node `dst[i]`, which is another one.
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
    """What a peer did. `cpu_s`: its simulation alone; `latency`: mean cycles of a packet; `events`: of its own kind."""

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
    """Which neighbour, by its place among them: the first dimension first, the short way round, up if both are."""
    for dimension, stride in enumerate((1, side)):
        away = (dst // stride - node // stride) % side
        if away:
            return 2 * dimension + (2 * away > side)
    raise ValueError("there already")


def missing(how: str) -> NoReturn:
    """End, because the simulator is not installed."""
    print(how, file=sys.stderr)
    raise SystemExit(MISSING)


def main(simulate: Callable[[Traffic], Outcome]) -> None:
    """A peer: `python with_x.py TRAFFIC.json`; a line of JSON on stdout."""
    (name,) = sys.argv[1:]
    begin = time.process_time()
    outcome = simulate(Traffic(**json.loads(Path(name).read_text(encoding="ascii"))))
    print(json.dumps({**vars(outcome), "whole_cpu_s": time.process_time() - begin}))
