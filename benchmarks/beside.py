"""Peers: simulators from public registries, run beside pyxsim in one session on the same packets.

Each runs in its own process with a Python that has it: this one, a given one, or the system's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.measure import spread
from benchmarks.peers.torus import MISSING, Traffic
from benchmarks.traffic import FLIT, Open, Packets, simulate
from pyxsim.errors import PyxsimError

FOLDER = Path(__file__).parent / "peers"
SYSTEM = "/usr/bin/python3"  # it has the packages of the distribution
OURS = "pyxsim"
TRAFFIC = Open(8, 0.2, 10_000)


class Peer(NamedTuple):
    """A file in peers/, and a short description of what it simulates."""

    file: str
    models: str


PEERS = {
    OURS: Peer("with_pyxsim.py", "flits, VCs, credits, router stages"),
    "ns-3": Peer("with_ns3.py", "packets, endless queues; C++"),
    "SimGrid": Peer("with_simgrid.py", "flows that share links; C++ from Python"),
    "ns.py": Peer("with_nspy.py", "packets, endless queues; Python"),
}


def traffic(of: Open = TRAFFIC) -> Traffic:
    """Return the packets for all peers, without those of a node to itself, which peers do not route."""
    drawn = of.packets()
    away = drawn.src != drawn.dst
    columns = (column[away].tolist() for column in (drawn.cycle, drawn.src, drawn.dst))
    return Traffic(of.side, _hop(of), FLIT, FLIT * of.flits, *columns)


def _hop(of: Open) -> int:
    """Return the cycles per hop: the latency of a single packet to node 2 minus that to node 1."""

    def alone(dst: int) -> float:
        zero = np.zeros(1, np.int64)
        latency: float = simulate(of, Packets(zero, zero, zero + dst, zero)).facts["packet_latency"]
        return latency

    return round(alone(2) - alone(1))


def beside(repeat: int, pythons: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Run each `repeat` times in turns. "ratio": its CPU time over that of pyxsim in the same turn."""
    tried = [sys.executable, *pythons, SYSTEM]
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in PEERS}
    how: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        file = Path(folder, "traffic.json")
        file.write_text(json.dumps(asdict(traffic())), encoding="ascii")
        for _ in range(repeat):
            for name in [name for name in PEERS if name not in how]:
                outcome = _once(PEERS[name].file, file, tried)
                if isinstance(outcome, str):
                    how[name] = outcome
                else:
                    told[name].append(outcome)
    return [_row(name, told[name], told[OURS], how.get(name)) for name in PEERS]


def _once(script: str, file: Path, pythons: Sequence[str]) -> dict[str, Any] | str:
    """Return the report of a peer, or how to install it if no Python has it."""
    how = ""
    for python in pythons:
        if not Path(python).exists():
            continue
        command = [python, str(FOLDER / script), str(file)]
        environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}  # for benchmarks.traffic
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not done.returncode:
            outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return outcome
        how = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        if done.returncode != MISSING:
            raise PyxsimError(f"{script} does not run with {python}: {how}")
    return how


def _row(name: str, outcomes: list[dict[str, Any]], ours: list[dict[str, Any]], how: str | None) -> dict[str, Any]:
    if how is not None:
        return {"name": name, "install": how}
    ratios = [outcome["cpu_s"] / own["cpu_s"] for outcome, own in zip(outcomes, ours, strict=True)]
    return {
        "name": name,
        **{key: outcomes[0][key] for key in ("version", "packets", "latency", "events")},
        "cpu_s": spread([outcome["cpu_s"] for outcome in outcomes]),
        "ratio": statistics.median(ratios),
        "packets_per_cpu_s": outcomes[0]["packets"] / statistics.median(outcome["cpu_s"] for outcome in outcomes),
    }


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Print the table."""
    of = TRAFFIC
    found = Table(
        title=f"beside others: {of.side}x{of.side} torus, uniform at {of.load:g}, {of.flits}-flit packets",
        box=SIMPLE_HEAD,
    )
    found.add_column("simulator")
    found.add_column("models", overflow="fold")
    for head in ("packets", "latency", "CPU s", "CPU time over ours"):
        found.add_column(head, justify="right")
    for row in rows:
        if "install" in row:
            found.add_row(row["name"], f"not installed ({row['install']})", "", "", "", "", style="dim")
            continue
        seconds = row["cpu_s"]
        times = f"{seconds['median']:.3f} ({seconds['min']:.3f}-{seconds['max']:.3f})"
        name = f"{row['name']} {row['version']}"
        cells = (f"{row['packets']:,}", f"{row['latency']:.1f}", times, f"{row['ratio']:.1f}")
        found.add_row(name, PEERS[row["name"]].models, *cells)
    return found
