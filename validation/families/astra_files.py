"""Runs of ASTRA-sim from its own files, as `pyxsim astra` reads them: network, system and workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyxsim.compat.astra.files import read_astra
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series, exact
from validation.reference import TREE, reference

UPDATE = 5  # ns, in the measurements of version 1
EVERY = 3  # of the runs of version 2
LARGE = 256  # NPUs: larger runs are not repeated from files
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
NAMES = {"halving-doubling": "halvingDoubling", "double-binary-tree": "doubleBinaryTree", "one-ring": "oneRing"}
WORDS = {
    "round-robin": "roundRobin",
    "themis": "offlineGreedy",
    "themis-flex": "offlineGreedyFlex",
    "smallest-first": "smallestFirst",
    "fewest-phases-first": "lessRemainingPhaseFirst",
}
# ns of a direct all-reduce of 1 GiB on a switch of 64.
SWITCH_64 = {"analytical": 633_217, "analytical-congestion": 40_008_217}
# Why runs that end with an error in ASTRA-sim are refused.
REASONS = ("halving-doubling does not support all-to-all", "ASTRA-sim 2 stops at an assertion")
Measured = dict[str, Any]
Files = tuple[Path, Path, Path]


def _astra(name: str) -> str:
    """The name of an algorithm in ASTRA-sim's spelling: direct:4 is direct4."""
    return NAMES.get(name, name.replace(":", ""))


def _workload(case: Measured, path: Path, update: int = 0) -> Path:
    """One collective, and the update time of its layer (ns)."""
    kind = case["kind"].replace("-", "").upper()
    path.write_text(f"MICRO\n1\nlayer -1 0 NONE 0 0 NONE 0 0 {kind} {case['bytes']} {update}\n", encoding="utf-8")
    return path


def files_2(case: Measured, folder: Path) -> Files:
    """YAML and JSON of version 2; the workload is a text of version 1, because traces.py covers traces."""
    network, system = folder / "network.yml", folder / "system.json"
    keys = {"topology": "topology", "npus_count": "npus", "bandwidth": "bandwidth", "latency": "latency"}
    network.write_text("".join(f"{key}: {json.dumps(case[own])}\n" for key, own in keys.items()), encoding="utf-8")
    told: dict[str, Any] = {f"{kind}-implementation": [_astra(name) for name in case["algorithms"]] for kind in KINDS}
    told |= {
        "scheduling-policy": case.get("scheduling", "LIFO"),
        "endpoint-delay": case.get("endpoint_delay", 10),
        "active-chunks-per-dimension": case.get("active_chunks", 1),
        "preferred-dataset-splits": case.get("splits", 4),
        "collective-optimization": case.get("optimization", "localBWAware"),
        "local-mem-bw": case.get("memory", 1600),
    }
    system.write_text(json.dumps(told), encoding="utf-8")
    return network, system, _workload(case, folder / "workload.txt")


def files_1(case: Measured, folder: Path) -> Files:
    """JSON and text of version 1. A link of a case stands for all links of an NPU, so each NPU has one link."""
    network, system, dims = folder / "network.json", folder / "system.txt", len(case["npus"])
    memory = case.get("memory", {"latency": 0, "bandwidth": 1, "scale": 0})
    links = [{"Ring": 2, "FullyConnected": npus - 1, "Switch": 1}[block] for block, npus in _blocks(case)]
    told: dict[str, Any] = {
        "topology-name": "Hierarchical",
        "topologies-per-dim": case["topology"],
        "dimension-type": ["P" if block == "Switch" else "N" for block in case["topology"]],
        "dimensions-count": dims,
        "units-count": case["npus"],
        "links-count": links,
        "link-latency": case["latency"],
        "link-bandwidth": [
            rate / (count if block == "Ring" else 1)
            for (block, _), count, rate in zip(_blocks(case), links, case["bandwidth"], strict=True)
        ],
        "nic-latency": [0] * dims,
        "router-latency": [case.get("router_latency", 0)] * dims,
        "hbm-latency": [memory["latency"]] * dims,
        "hbm-bandwidth": [memory["bandwidth"]] * dims,
        "hbm-scale": [memory["scale"]] * dims,
    }
    network.write_text(json.dumps(told), encoding="utf-8")
    names = "_".join(_astra(name) for name in case["algorithms"])
    inter = case.get("inter_dimension", "ascending")
    intra = case.get("intra_dimension", "FIFO")
    pairs = {f"{kind}-implementation": names for kind in KINDS} | {
        "scheduling-policy": "LIFO",
        "endpoint-delay": case["endpoint_delay"],
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": case["chunks"],
        "boost-mode": int(case.get("boost", False)),
        "collective-optimization": "localBWAware",
        "intra-dimension-scheduling": WORDS.get(intra, intra),
        "inter-dimension-scheduling": WORDS.get(inter, inter),
    }
    system.write_text("".join(f"{key}: {value}\n" for key, value in pairs.items()), encoding="utf-8")
    return network, system, _workload(case, folder / "workload.txt", UPDATE)


def _blocks(case: Measured) -> list[tuple[str, int]]:
    return list(zip(case["topology"], case["npus"], strict=True))


def from_files(case: Measured, write: Callable[[Measured, Path], Files]) -> int:
    """Return the end of a run, ns."""
    backend = "analytical-congestion" if case.get("model") == "congestion" else None
    with TemporaryDirectory() as folder:
        files = write(case, Path(folder))
        told = read_astra(*files, passes=case.get("passes", 1), queues=case.get("queues"), backend=backend)
        return run(told.experiment, backend=told.backend).time_cycles


def version_2() -> Found:
    ends = [case for case in reference("astra2")["cases"] if case["ends"] is not None]
    cases = [case for case in ends if prod(case["npus"]) < LARGE][::EVERY]
    return _found(cases, [(max(case["ends"]), from_files(case, files_2)) for case in cases])


def version_1() -> Found:
    pairs: list[tuple[float, float]] = []
    cases = reference("astra1")["cases"]
    for case in cases:
        end = from_files(case, files_1)
        known = "finished" in case
        pairs.append((case["finished"] if known else case["finished_us"] * 1000, end if known else round(end, -2)))
    return _found(cases, pairs)


def switch_64() -> Found:
    """The published pair of times that tells the two backends of version 2 apart, from files in inputs/astra."""
    folder = TREE / "inputs" / "astra"
    files = folder / "switch_network.yml", folder / "switch_system.json", folder / "micro_all_reduce_large.txt"
    pairs: list[tuple[float, float]] = []
    for backend, shown in SWITCH_64.items():
        told = read_astra(*files, backend=backend)
        pairs.append((shown, run(told.experiment, backend=told.backend).time_cycles))
    worst, picture = exact(pairs, "ns")
    return Found(worst, picture, {"runs": "2", "NPUs": "64"})


def _found(cases: list[Measured], pairs: list[tuple[float, float]]) -> Found:
    worst, picture = exact(pairs, "ns")
    npus = [prod(case["npus"]) for case in cases]
    return Found(worst, picture, {"runs": str(len(cases)), "NPUs": f"{min(npus)} to {max(npus)}"})


def stopped() -> Found:
    """Count the runs that end with an error in ASTRA-sim and are not refused here, or for another reason."""
    cases = [case for case in reference("astra2")["cases"] if case["ends"] is None]
    faults = 0
    for case in cases:
        try:
            from_files(case, files_2)
        except InputError as error:
            faults += not any(reason in str(error) for reason in REASONS)
        else:
            faults += 1
    picture = Picture("", "refused", [Series("runs", [0], [len(cases) - faults], "points")])
    return Found(faults, picture, {"runs": str(len(cases)), "NPUs": "8"})


def cases() -> Iterator[Case]:
    claim = "Each run from files in ASTRA-sim's own formats ends in the same nanosecond"
    for version, told in ((2, version_2), (1, version_1)):
        source = f"measurements in inputs/reference/astra{version}.json"
        yield Case(f"astra/{version}-files", f"{claim} as in ASTRA-sim {version}", source, 0, "ns", told, 5)
    claim = "A direct all-reduce of 1 GiB on a switch of 64 NPUs takes the published 633.217 us and 40 008.217 us"
    shown = "the ASTRA-sim 2 tutorial at ASPLOS 2023, congestion-unaware and congestion-aware"
    yield Case("astra/2-switch-64", claim, shown, 0, "ns", switch_64, 1)
    claim = "pyxsim rejects inputs on which ASTRA-sim 2 stops with an error, with the reason"
    yield Case("astra/2-stops", claim, "measurements in inputs/reference/astra2.json", 0, "faults", stopped, 1)
