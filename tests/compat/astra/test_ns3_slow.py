"""More runs of ASTRA-sim 518bd51 with ns-3 8fd3604 through `pyxsim astra`: last finish and median of completion times.

The flows whose median is compared are all, or the first 256 of the record, in order of completion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.cli.app import main
from tests.compat.astra.ns3_inputs import WORDS, flows_in, incast, leaf_spine, star, write_run

pytestmark = pytest.mark.slow

MIB = 2**20
NO_WINDOW = {"HAS_WIN": 0}


def run(
    folder: Path, capsys: pytest.CaptureFixture[str], topology: str, npus: int, *words: str, **options: Any
) -> tuple[int, float]:
    """Return the last finish of an NPU and the median completion time of the first 256 flows (ns)."""
    write_run(folder, topology, npus, **options)
    assert main(["astra", *WORDS, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    finish = max(int(line.split("finished, ")[1].split()[0]) for line in lines if "sys[" in line and "finished" in line)
    return finish, float(np.median([row[2] for row in list(flows_in(folder / "fct.txt").values())[:256]]))


@pytest.mark.parametrize(
    ("topology", "npus", "collective", "algorithm", "nbytes", "mode", "finish", "median"),
    [
        (star(16, "200Gbps"), 16, "all_to_all", "direct", 4 * MIB, 8, 177204, 44100.5),
        (star(64, "200Gbps"), 64, "all_to_all", "direct", MIB, 1, 52728, 12844.5),
        (star(8), 8, "all_to_all", "direct", 16 * MIB, 12, 330944, 82697),
        (star(8), 8, "all_to_all", "ring", MIB, 12, 304792, 2711),
        (star(32, "200Gbps"), 32, "all_reduce", "halvingDoubling", MIB, 12, 168908, 3059.5),
        (star(16, "200Gbps"), 16, "all_reduce", "ring", MIB, 12, 329200, 2718),
        (star(32, "200Gbps"), 32, "all_reduce", "ring", MIB, 12, 595116, 2382),
        (star(64, "200Gbps"), 64, "all_reduce", "ring", MIB, 12, 1122448, 2214),
        (star(64, "200Gbps"), 64, "all_reduce", "ring", 16 * MIB, 12, 2461072, 4813),
        (star(8), 8, "all_reduce", "ring", MIB, 7, 154096, 2711),
        (leaf_spine(4, 4, 2), 16, "all_to_all", "direct", MIB, 1, 180006, 39648.5),
        (leaf_spine(4, 4, 2), 16, "all_to_all", "direct", MIB, 8, 180006, 39648.5),
        (leaf_spine(4, 4, 2), 16, "all_to_all", "direct", 16 * MIB, 12, 2644614, 523559),
    ],
)
def test_collectives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    topology: str,
    npus: int,
    collective: str,
    algorithm: str,
    nbytes: int,
    mode: int,
    finish: int,
    median: float,
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"collective": collective, "algorithm": algorithm, "nbytes": nbytes, "changes": {"CC_MODE": mode}}
    assert run(tmp_path, capsys, topology, npus, **options) == (finish, median)


@pytest.mark.parametrize(
    ("topology", "npus", "nbytes", "changes", "seed", "finish", "median", "exact"),
    [
        (star(16, "100Gbps"), 16, MIB, {"CC_MODE": 1}, 1, 1307586, 1307243, True),
        (star(16, "100Gbps"), 16, MIB, {"CC_MODE": 3}, 1, 1453168, 1355077, False),
        (star(16, "100Gbps"), 16, MIB, {"CC_MODE": 8}, 1, 1307586, 1307243, True),
        (star(32, "200Gbps"), 32, MIB, {"CC_MODE": 1}, 1, 1334797, 1001804, False),
        (star(32, "200Gbps"), 32, MIB, {"CC_MODE": 12}, 1, 1334797, 1334437, True),
        (star(8, "100Gbps"), 8, MIB, {"CC_MODE": 1, **NO_WINDOW}, 1, 2362249, 2334062, True),
        *(
            (star(8), 8, MIB, {"CC_MODE": 1, **NO_WINDOW}, seed, finish, median, True)
            for seed, finish, median in (
                (1, 1064399, 1058945),
                (2, 1079542, 1077133),
                (3, 1079259, 1077816),
                (4, 1100475, 1059481),
                (5, 1082902, 1080094),
            )
        ),
        (star(8), 8, 16 * MIB, {"CC_MODE": 1, **NO_WINDOW}, 1, 5807468, 5560165, False),
        (star(8), 8, 16 * MIB, {"CC_MODE": 8, **NO_WINDOW}, 1, 2578024, 2451208, False),
        (star(8), 8, 4 * MIB, {"BUFFER_SIZE": 2, **NO_WINDOW}, 1, 618590, 615440, True),
        (star(8, delay="0.0001ms"), 8, MIB, {"BUFFER_SIZE": 1, **NO_WINDOW}, 1, 154563, 154170, True),
        (leaf_spine(4, 4, 2), 16, MIB, {"BUFFER_SIZE": 1, **NO_WINDOW}, 1, 1308594, 1295220, True),
    ],
)
def test_incasts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    topology: str,
    npus: int,
    nbytes: int,
    changes: dict[str, Any],
    seed: int,
    finish: int,
    median: float,
    exact: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--set", f"output.seed={seed}")
    made = run(tmp_path, capsys, topology, npus, *words, messages=incast(npus), nbytes=nbytes, changes=changes)
    assert made == pytest.approx((finish, median), rel=0 if exact else 0.05)
