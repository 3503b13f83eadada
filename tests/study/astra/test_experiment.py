"""Whole experiments from ASTRA-sim's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.study import run
from pyxsim.study.astra import astra_experiment, network_tables, system_tables
from tests.study.astra.files import SWITCH, SYSTEM, TORUS, Write

FILES = Path(__file__).resolve().parents[3] / "inputs" / "astra"


@pytest.mark.parametrize("network", ["torus", "switch"])
@pytest.mark.parametrize("workload", ["all_reduce", "all_to_all"])
def test_the_files_of_the_tree_run(network: str, workload: str) -> None:
    files = [FILES / f"{network}_network.txt", FILES / f"{network}_system.txt", FILES / f"micro_{workload}.txt"]
    result = run(astra_experiment(*files))
    assert result.complete
    assert result.warnings == []
    assert result.bound_ns is not None
    assert result.bound_ns < result.time_ns
    again = run(astra_experiment(*files, passes=2))
    assert again.counts["bytes_delivered"] == 2 * result.counts["bytes_delivered"]
    assert len(again.collectives) == 2
    assert again.time_ns > result.time_ns


def test_scales_and_overrides() -> None:
    files = [FILES / "torus_network.txt", FILES / "torus_system.txt", FILES / "micro_all_reduce.txt"]
    settings: dict[str, Any] = {"comm_scale": "0.3", "compute_scale": 2, "overrides": ("network.router.vcs=8",)}
    experiment = astra_experiment(*files, **settings)
    assert experiment.network.router.vcs == 8
    assert experiment.workload is not None
    assert experiment.workload.compute_scale == 2
    # 0.3 is exactly three tenths, and bytes are cut off as in the original.
    assert run(experiment).collectives[0]["bytes"] == 786432 * 3 // 10


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_has_every_key(write: Write) -> None:
    """What is known to the readers stands in docs/formats.md: the fault of an unknown key tells all that are."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
    for pairs, read in ((TORUS, network_tables), (SWITCH, network_tables), (SYSTEM, system_tables)):
        with pytest.raises(InputError) as caught:
            read(write(pairs | {"nonsense": "1"}), *([3] if read is system_tables else []))
        assert caught.value.allowed
        missing = [key for key in caught.value.allowed if f"`{key}`" not in page]
        assert missing == []
