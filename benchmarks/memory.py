"""`python -m benchmarks.memory`: the memory and time that are predicted for runs, and what they take.

Prints one row per run, each in a process of its own: predicted and measured peak memory, their ratio, and the terms and
counts of the estimate, from which the coefficients of pyxsim/runner/memory_estimate.py are measured. `--time` adds the
CPU seconds that `pyxsim check` predicts. `--base` prints the memory of a run of nothing, `--markdown` the table of
docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TREE = Path(__file__).parent.parent
TORUS = 'topology = "torus"\nshape = [{}]'
MIB, KIB = "16 MiB", "64 KiB"
SIZES = ("4, 4, 4", "8, 8, 8", "16, 16, 16", "16, 32, 32")
EXPERIMENT = """[network]
{network}
bandwidth = "100 GB/s"
latency = "100 ns"
flit = "256 B"
packet = "4 KiB"
[network.router]
pipeline = "booksim"
vcs = 4
[system]
chunks = {chunks}
active_chunks = 4
{system}
[collective]
kind = "{kind}"
size = "{size}"
[output]
window = "{window}"
attribution = "{attribution}"
[run]
skip = {skip}
"""


@dataclass(frozen=True)
class Case:
    """One run."""

    backend: str
    network: str
    size: str = MIB
    kind: str = "all-reduce"
    system: str = ""
    chunks: int = 8
    window: str = "10 ms"
    attribution: str = "off"
    skip: bool = True

    def toml(self) -> str:
        """Return the experiment."""
        values = {**vars(self), "skip": str(self.skip).lower()}
        return EXPERIMENT.format(**values)


def torus(shape: str) -> str:
    """Return the settings of a torus."""
    return TORUS.format(shape)


def cases() -> Iterator[tuple[str, Case]]:
    """Yield runs with their names."""
    for backend in ("packet", "analytical", "analytical-congestion", "flow"):
        for shape in SIZES[: 3 if backend == "flow" else 4]:
            yield f"{backend}, {shape.replace(', ', 'x')}", Case(backend, torus(shape))
    for shape in SIZES[:3]:
        yield f"packet, every flit, {shape.replace(', ', 'x')}", Case("packet", torus(shape), KIB, skip=False)
    yield "packet, 64x64", Case("packet", torus("64, 64"))
    yield "packet, 8x8x8x8", Case("packet", torus("8, 8, 8, 8"))
    middle, large = torus(SIZES[1]), torus(SIZES[2])
    yield "packet, every flit, 1 chunk", Case("packet", large, KIB, skip=False, chunks=1)
    yield "packet, many windows", Case("packet", middle, "4 MiB", window="10 ns")
    yield "packet, every flit, many windows", Case("packet", middle, "1 MiB", window="10 ns", skip=False)
    yield "packet, attribution of links", Case("packet", middle, KIB, attribution="links")
    yield "packet, attribution of messages", Case("packet", middle, KIB, attribution="messages")
    direct = 'all_reduce = "direct"'
    yield "packet, direct", Case("packet", middle, "1 MiB", system=direct)
    yield "packet, all-to-all", Case("packet", torus("4, 4, 4"), "1 MiB", "all-to-all", 'all_to_all = "one-direct"')
    yield "packet, mesh 16x16", Case("packet", 'topology = "mesh"\nshape = [16, 16]', KIB)
    yield "analytical, 1 chunk", Case("analytical", large, chunks=1)
    yield "analytical, 32 chunks", Case("analytical", large, chunks=32)
    yield "analytical, halving-doubling", Case("analytical", large, system='all_reduce = "halving-doubling"')
    yield "analytical, many windows", Case("analytical", middle, "4 MiB", window="10 ns")
    yield "flow, direct", Case("flow", middle, system=direct)
    networks = {
        "switch of 512": 'topology = "switch"\nshape = [512]',
        "fat tree of 1024": 'topology = "leaf-spine"\noptions = { npus = 32, leaves = 32, spines = 16 }',
        "k-ary n-tree of 4096": 'topology = "k-ary-n-tree"\noptions = { k = 16, n = 3 }',
        "dragonfly of 1056": 'topology = "dragonfly"\noptions = { p = 4, a = 8, h = 4 }',
    }
    for name, network in networks.items():
        for backend in ("packet", "analytical"):
            yield f"{backend}, {name}", Case(backend, network, KIB, chunks=1)
    yield "ethernet, fat tree of 256", Case("ethernet", networks["fat tree of 1024"].replace("32", "16"), KIB, chunks=1)


def pyxsim(command: str, file: Path, backend: str, timeout: float) -> dict[str, Any] | None:
    """Return the JSON of a command; None if it takes longer than `timeout` seconds. Raises RuntimeError."""
    words = [sys.executable, "-m", "pyxsim", command, str(file), "--backend", backend, "--json"]
    try:
        done = subprocess.run(words, cwd=TREE, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip())
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def predicted(file: Path, backend: str) -> dict[str, Any]:
    """Return what is predicted before the network is built: bytes, terms and counts."""
    from pyxsim import library
    from pyxsim.runner.memory_estimate import foreseen
    from pyxsim.settings import load_experiment

    library.load_all(())
    needed = foreseen(load_experiment(file), backend)
    return {"mb": needed.bytes / 1e6, "terms": needed.terms, "counts": needed.counts}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--timeout", type=float, default=150, metavar="S", help="leave out runs that take longer")
    parser.add_argument("--only", default="", metavar="WORD", help="runs with this in their names")
    parser.add_argument("--time", action="store_true", help="predict the time, too")
    parser.add_argument("--base", action="store_true", help="print the memory of Python with all modules of a run")
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/scale.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.toml"
        if given.base:
            file.write_text(Case("packet", torus("2, 2"), "1 KiB", chunks=1).toml(), encoding="utf-8")
            for backend in ("packet", "analytical", "flow"):
                print(backend, (pyxsim("run", file, backend, given.timeout) or {})["peak_rss_mb"])
            return
        for name, case in cases():
            if given.only in name:
                file.write_text(case.toml(), encoding="utf-8")
                show(name, case, file, given)


def show(name: str, case: Case, file: Path, given: argparse.Namespace) -> None:
    """Print the row of one run."""
    before = predicted(file, case.backend)
    cells = [f"{before['mb']:,.0f}"]
    try:
        ran = pyxsim("run", file, case.backend, given.timeout)
        rss = None if ran is None else ran["peak_rss_mb"]
        cells += ["-", "-"] if rss is None else [f"{rss:,.0f}", f"{before['mb'] / rss:.2f}"]
        if given.time:
            checked = pyxsim("check", file, case.backend, given.timeout)
            run_s = None if checked is None else checked["run_s"]
            took = None if ran is None else ran["total_cpu_s"]
            cells += ["unknown" if run_s is None else f"{run_s:.1f}", "-" if took is None else f"{took:.1f}"]
            cells += ["-" if run_s is None or took is None else f"{run_s / took:.2f}"]
    except RuntimeError as error:
        print(name, error, sep="\t", flush=True)
        return
    if given.markdown:
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        return
    terms = {key: round(value / 1e6, 1) for key, value in before["terms"].items() if value >= 1e5}
    print(name, *cells, terms, before["counts"], sep="\t", flush=True)


if __name__ == "__main__":
    main()
