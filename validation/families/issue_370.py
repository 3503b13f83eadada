"""astra-sim issue 370: an all-reduce stops forever where paths of one dimension have unlike latencies.

It was found on twisted tori, with fewer active chunks than chunks, and goes away with as many. Here such tori are drawn
as graphs, with links of one latency or of several, and each is run with ASTRA-sim's rules and with ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyxsim.errors import StuckError
from validation.case import Case, Found, Picture, Series
from validation.machines import Tables, simulated

SOURCE = "github.com/astra-sim/astra-sim, issue 370"
RUNS = 40
SIDE = 4
NPUS = SIDE * SIDE
SIZE = 64 * 1024
SHAPES = ((4, 4), (4, 2, 2), (2, 4, 2))
LATENCIES = ("10 ns", "300 ns", "5 us")
ASTRA: Tables = {"compat": "astra-sim-2", "local_memory_bandwidth": "1600 GB/s"}


class Run(NamedTuple):
    """A torus whose columns close `twist` places further on, and the chunks of the collective."""

    twist: int
    unlike: bool
    shape: tuple[int, ...]
    chunks: int
    seed: int

    @classmethod
    def draw(cls, seed: int) -> Run:
        rng = random.Random(seed)
        return cls(rng.choice([0, 2]), rng.random() < 0.7, rng.choice(SHAPES), rng.choice([4, 8, 16]), seed)

    def graph(self, path: Path) -> None:
        """Write the torus, NPU by NPU along the rows."""
        import networkx as nx

        rng = random.Random(self.seed)
        graph = nx.Graph()
        graph.add_nodes_from(range(NPUS), npus=1)
        for row in range(SIDE):
            for column in range(SIDE):
                across = row * SIDE + (column + 1) % SIDE
                twist = self.twist if row == SIDE - 1 else 0
                down = (row + 1) % SIDE * SIDE + (column + twist) % SIDE
                for other in (across, down):
                    latency = rng.choice(LATENCIES) if self.unlike else "500 ns"
                    graph.add_edge(row * SIDE + column, other, bandwidth="50 GB/s", latency=latency)
        nx.write_graphml(graph, path)

    def tables(self, path: Path, active: int, system: Tables) -> Tables:
        return {
            "network": {"topology": "graph", "options": {"file": str(path), "dims": list(self.shape)}},
            "system": {
                "all_reduce": "ring",
                "chunks": self.chunks,
                "active_chunks": active,
                "endpoint_delay": "10 ns",
                "queues": 1,
                **system,
            },
            "collective": {"kind": "all-reduce", "size": f"{SIZE} B"},
        }


def runs(system: Tables, backend: str = "packet", *, all_active: bool = False) -> tuple[list[float], list[StuckError]]:
    """Return the times of the runs that end, and what stopped the others."""
    times: list[float] = []
    stopped: list[StuckError] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "torus.graphml"
        for seed in range(RUNS):
            one = Run.draw(seed)
            one.graph(path)
            try:
                result = simulated(one.tables(path, one.chunks if all_active else 1, system), backend)
            except StuckError as error:
                stopped.append(error)
            else:
                times.append(float(result.time_ns))
    return times, stopped


def ours(backend: str) -> Found:
    times, stopped = runs({}, backend)
    return _found(len(stopped), times, stopped)


def theirs() -> Found:
    """It stops as the original does, reports which NPU waits for which, and ends if all chunks may be active."""
    times, stopped = runs(ASTRA)
    silent = sum(not any("waits for messages from NPU" in line for line in error.waits) for error in stopped)
    with_all, still = runs(ASTRA, all_active=True)
    note = f"with all chunks active {len(with_all)} end"
    return _found(silent + len(still) + (not stopped), times, stopped, note)


def _found(wrong: int, times: list[float], stopped: list[StuckError], note: str = "") -> Found:
    picture = Picture("run", "ns", [Series("those that end", list(range(len(times))), times, "points")], log=True)
    return Found(wrong, picture, {"runs": str(RUNS), "stopped": str(len(stopped))}, note)


def cases() -> Iterator[Case]:
    claim = "On (twisted) tori with one active chunk of 4 to 16, every all-reduce ends and delivers all its bytes"
    for backend in ("packet", "analytical"):
        yield Case(f"issue-370/{backend}", claim, SOURCE, 0, "wrong runs", partial(ours, backend), 4)
    claim = (
        "With compat = astra-sim-2, some of these all-reduces deadlock, as in the original, and report what waits for "
        "what; if all chunks may be active, none deadlocks"
    )
    yield Case("issue-370/compat", claim, SOURCE, 0, "wrong runs", theirs, 8)


FAMILY = ("issue-370", "Chunks that wait for each other", ("runs", "stopped"), cases)
