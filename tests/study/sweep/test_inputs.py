"""Every file under inputs/sweeps/ runs; here in a smaller network, and measured for a shorter time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim.settings.points import plan_of
from pyxsim.study.sweep import sweep

SWEEPS = Path(__file__).resolve().parents[3] / "inputs" / "sweeps"
QUICK = ("traffic.warmup=100", "traffic.measure=300", "network.shape=[2, 2]")
LESS = {
    "load_latency": ("traffic.load=0.1",),
    "saturation": ("network.router.routing=dimension-order",),
    "smallest_buffer": ("network.latency=1 cycle",),
}


def test_every_file_is_named() -> None:
    assert {path.stem for path in SWEEPS.glob("*.toml")} == set(LESS)
    assert len(plan_of(SWEEPS / "load_latency.toml").points) == 200


@pytest.mark.parametrize("name", LESS)
def test_it_runs(name: str, tmp_path: Path) -> None:
    found = sweep(SWEEPS / f"{name}.toml", tmp_path / "s", workers=1, overrides=(*QUICK, *LESS[name]))
    assert found.complete
    assert all(row["state"] == "found" for row in found.answers)
    assert len(found) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", LESS)
def test_it_runs_as_it_is(name: str, tmp_path: Path) -> None:
    assert sweep(SWEEPS / f"{name}.toml", tmp_path / "s").complete
