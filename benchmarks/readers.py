"""`python -m benchmarks.readers`: what reading workloads and plans of collectives takes.

Writes a made-up file of each format and size (reader_files.py) and reads it in a process of its own. Prints the nodes
per CPU second, as the median of some runs, and bytes per node: of the file, of the peak of the memory above what the
process had before, and of the arrays of the graph that was read, which is what has to grow. A node is an activity
(PyTorch, Nsight Systems), a node (Chakra), an operation (GOAL, MSCCL++), a layer (SimAI) or a step (MSCCL).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import reader_files as files
from pyxsim.peak_memory import peak_mb
from pyxsim.textfile import MAX_FILE

TREE = Path(__file__).parent.parent
SIZES = (100_000, 300_000, 1_000_000)
SIZES_OF_16_MIB = (25_000, 50_000, 100_000)
_SMALL = 2_000  # nodes read before, so that no module is imported while time counts


def _kineto(name: str) -> object:
    from pyxsim.workload.pytorch import graph_of

    return graph_of(name, 1)


def _chakra(name: str) -> object:
    from fractions import Fraction

    from pyxsim.workload.traces import Rules, read_traces

    return read_traces(name, [files.GPUS], Rules(Fraction(10**9)))


def _goal(name: str) -> object:
    from pyxsim.workload.goal import read_goal
    from pyxsim.workload.goal.tasks import graph_of

    with read_goal(name) as schedule:
        return graph_of(schedule, name)


def _text(name: str) -> object:
    from pyxsim.workload.text_workload import read_text_workload

    return read_text_workload(name)


def _nsight(name: str) -> object:
    from pyxsim.workload.nsight import graph_of

    return graph_of(name, files.GPUS)


def _plan(name: str) -> object:
    from pyxsim.collective.algorithm_files import find

    return find(name, None).function("all-gather", files.GPUS)


@dataclass(frozen=True)
class Format:
    """A format: the name of its file, what writes it and what reads it. `limit`: whether a file has at most 16 MiB."""

    file: str
    write: Callable[[Path, int], int]
    read: Callable[[str], object]
    limit: bool = False

    def sizes(self) -> tuple[int, ...]:
        """Return the nodes of the files that are measured."""
        return SIZES_OF_16_MIB if self.limit else SIZES


FORMATS = {
    "PyTorch": Format("t.0.kineto.json", files.kineto, _kineto),
    "PyTorch, gzip": Format("t.0.kineto.json.gz", files.kineto, _kineto),
    "Chakra .et": Format("t.*.et", files.traces, _chakra),
    "Chakra .json": Format("t.*.json", files.traces, _chakra),
    "Chakra .jsonl": Format("t.*.jsonl", files.traces, _chakra),
    "GOAL, text": Format("t.goal", files.goal, _goal),
    "GOAL, binary": Format("t.bin", files.goal, _goal),
    "Nsight Systems": Format("t.sqlite", files.nsight, _nsight),
    "SimAI": Format("t.txt", files.layers, _text, limit=True),
    "MSCCL": Format("t.xml", files.msccl, _plan, limit=True),
    "MSCCL++": Format("t.json", files.mscclpp, _plan, limit=True),
}


def measure(name: str, file: Path, small: Path) -> dict[str, float]:
    """Read a file in this process: CPU seconds, MB of the peak above what was there before, and of the arrays read."""
    read = FORMATS[name].read
    read(str(small))
    before, begin = peak_mb(), time.process_time()
    found = read(str(file))
    seconds = time.process_time() - begin
    return {"cpu_s": seconds, "peak_mb": peak_mb() - before, "graph_mb": _arrays(found) / 1e6}


def _arrays(found: object) -> int:
    """Bytes of the arrays of a graph."""
    if not hasattr(found, "__dataclass_fields__"):
        return 0
    return sum(getattr(getattr(found, each.name), "nbytes", 0) for each in fields(found))  # type: ignore[arg-type]


def rows(name: str, nodes: int, folder: Path, runs: int) -> dict[str, Any] | None:
    """Write a file and read it in processes of their own; None for a file above the limit of its format."""
    form = FORMATS[name]
    target, small = folder / form.file, folder / "small" / form.file
    small.parent.mkdir(exist_ok=True)
    form.write(small, _SMALL)
    many = form.write(target, nodes)
    written = list(folder.glob(form.file))
    size = sum(file.stat().st_size for file in written)
    if form.limit and size > MAX_FILE:
        return None
    command = [sys.executable, "-m", "benchmarks.readers", "--measure", name, str(target), str(small)]
    told = [
        json.loads(subprocess.run(command, cwd=TREE, check=True, capture_output=True, text=True).stdout)
        for _ in range(runs)
    ]
    for file in written:
        file.unlink()
    least = {key: median(each[key] for each in told) for key in told[0]}
    return {
        "nodes": many,
        "per_cpu_s": many / least["cpu_s"],
        "file_bytes": size / many,
        "peak_bytes": least["peak_mb"] * 1e6 / many,
        "graph_bytes": least["graph_mb"] * 1e6 / many,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readers", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="formats with this in their names")
    parser.add_argument("--nodes", type=int, nargs="+", metavar="N", help="nodes of the files")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each, of which the median counts")
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/performance.md")
    parser.add_argument("--measure", nargs=3, metavar=("FORMAT", "FILE", "SMALL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        name, file, small = given.measure
        print(json.dumps(measure(name, Path(file), Path(small))))
        return
    heads = ("format", "nodes", "nodes per CPU s", "bytes per node: file", "peak memory", "graph")
    line = "| {} | {} | {} | {} | {} | {} |" if given.markdown else "{:16}{:>10}{:>17}{:>22}{:>13}{:>7}"
    print(line.format(*heads))
    if given.markdown:
        print(line.format(*["---"] * len(heads)))
    with tempfile.TemporaryDirectory() as folder:
        for name, form in FORMATS.items():
            for nodes in (given.nodes or form.sizes()) if given.only in name else ():
                if (row := rows(name, nodes, Path(folder), given.runs)) is None:
                    break
                cells = [f"{row[key]:,.0f}" for key in ("nodes", "per_cpu_s", "file_bytes", "peak_bytes")]
                graph = f"{row['graph_bytes']:,.0f}" if row["graph_bytes"] else "-"
                print(line.format(name, *cells, graph), flush=True)


if __name__ == "__main__":
    main()
