"""Rings of ASTRA-sim 1 over Garnet by the formula of its measured runs, and many that were not measured."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyxsim.compat.astra.files import astra_experiment
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series, exact, not_too_fast
from validation.machines import simulated
from validation.reference import reference

RUNS = 80
PACKET = 4096  # bytes; a part of a packet is sent as a whole one
PACKET_CYCLES = 16 * 8  # flits, and the cycles of a flit on a link
FIRST = {"local": 404, "package": 514}  # cycles of one packet to the neighbour
REDUCTION = 30
AROUND = 13 + 5  # before the first message, and the update of the layer


class Ring(NamedTuple):
    """One collective in one chunk on one ring."""

    kind: str
    link: str
    npus: int
    size: int
    endpoint: int
    router: int

    @classmethod
    def draw(cls, rng: random.Random) -> Ring:
        kind = rng.choice(["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
        npus = rng.randint(2, 8)
        size = npus * rng.choice([1, 100, 4096, 8192, rng.randint(1, 60000)])
        return cls(kind, rng.choice(list(FIRST)), npus, size, rng.choice([1, 10, 100]), rng.choice([1, 1, 2, 4]))

    @property
    def formula(self) -> int:
        """One message after the other to the neighbor; a reduced one costs a reduction."""
        message = self.size if self.kind == "all-gather" else self.size // self.npus
        packets = -(-message // PACKET)
        hop = FIRST[self.link] + 2 * (self.router - 1) + (packets - 1) * PACKET_CYCLES + self.endpoint
        steps = {"all-reduce": 2 * (self.npus - 1), "all-to-all": self.npus * (self.npus - 1) // 2}
        added = self.npus - 1 if self.kind in ("all-reduce", "reduce-scatter") else 0
        return self.endpoint + steps.get(self.kind, self.npus - 1) * hop + added * REDUCTION + AROUND

    def files(self, folder: Path) -> tuple[Path, Path, Path]:
        """The settings of a measured run, with other numbers."""
        base = next(case for case in reference("garnet")["cases"] if case["case"] == "cal_rs_local4")
        packages = 1 if self.link == "local" else self.npus
        network = {"num-npus": self.npus, "num-packages": packages, "router-latency": self.router}
        texts = {
            "network": _with(base["network"], network),
            "system": _with(base["system"], {"endpoint-delay": self.endpoint}),
            "workload": re.sub(
                r"REDUCESCATTER \d+", f"{self.kind.replace('-', '').upper()} {self.size}", base["workload"]
            ),
        }
        for table, text in texts.items():
            (folder / f"{table}.txt").write_text(text, encoding="utf-8")
        network_file, system_file, workload_file = (folder / f"{table}.txt" for table in texts)
        return network_file, system_file, workload_file


def _with(text: str, values: dict[str, int]) -> str:
    for key, value in values.items():
        text = re.sub(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
    return text


def by_formula() -> Found:
    rng = random.Random(5)
    pairs: list[tuple[float, float]] = []
    for _ in range(RUNS):
        ring = Ring.draw(rng)
        with TemporaryDirectory() as folder:
            result = run(astra_experiment(*ring.files(Path(folder))))
        not_too_fast(result)
        pairs.append((ring.formula, result.time_cycles))
    worst, picture = exact(pairs, "cycles")
    return Found(worst, picture, {"network": "one ring of 2 to 8", "what": f"{RUNS} runs, all kinds"})


def direct_ends() -> Found:
    """Runs that stop in the original with few VCs end here with datelines, which are proved before the run."""
    faults = 0
    sizes: list[float] = []
    times: list[float] = []
    for npus in (4, 8):
        for vcs in (2, 4):
            for kind, bytes_each in (("reduce-scatter", 1), ("all-to-all", 1), ("all-reduce", 2)):
                result = simulated(
                    {
                        "network": {
                            "topology": "ring",
                            "shape": [npus],
                            "flit": "256 B",
                            "packet": "512 B",
                            "router": {"pipeline": "garnet", "vcs": vcs, "buffer": 4},
                        },
                        "system": {kind.replace("-", "_"): "direct"},
                        "collective": {"kind": kind, "size": f"{npus * 8192} B"},
                    }
                )
                faults += result.counts["bytes_delivered"] != bytes_each * npus * (npus - 1) * 8192
                sizes.append(result.counts["bytes_delivered"])
                times.append(float(result.time_ns))
    picture = Picture("bytes delivered", "ns", [Series("runs", sizes, times, "points")])
    return Found(faults, picture, {"network": "ring of 4, of 8", "what": "direct, 2 and 4 VCs of 4 flits"})


def cases() -> Iterator[Case]:
    claim = "One chunk on one ring takes the cycles of the formula that fits the measured runs"
    source = (
        "inputs/reference/garnet.json: 404 or 514 cycles for one packet to the neighbor, 128 for each further packet"
    )
    yield Case("garnet/rings-by-formula", claim, source, 0, "cycles", by_formula, 3)
    claim = (
        "The direct algorithm on rings with few VCs never ends over Garnet; with datelines in pyxsim, it ends and "
        "delivers all its bytes"
    )
    yield Case("garnet/direct-with-datelines", claim, "docs/routing.md", 0, "wrong runs", direct_ends, 2)
