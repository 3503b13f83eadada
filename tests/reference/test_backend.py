"""The backend `reference` gives what the packet backend gives, to the bit, apart from its name and from how it ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.diff import diff

INPUTS = Path(__file__).resolve().parents[2] / "inputs"
TEN = (
    ("bruck", ()),
    ("groups", ()),
    ("system_file", ()),
    ("in_switch", ()),
    ("straggler", ()),
    ("double_binary_tree", ()),
    ("hierarchy", ()),
    ("torus_all_reduce", ("collective.size=32 KiB",)),
    ("themis", ("collective.size=32 KiB",)),
    ("endpoint", ("collective.size=32 KiB",)),
)
RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4], "bandwidth": "40 GB/s", "latency": "20 ns"},
    "system": {"chunks": 2},
    "collective": {"kind": "all-reduce", "size": "8 KiB"},
    "output": {"window": "50 ns"},
}
SMALL: tuple[dict[str, Any], ...] = (
    RING,
    RING | {"network": {"topology": "mesh", "shape": [3, 3], "router": {"routing": "minimal-adaptive", "vcs": 4}}},
    RING
    | {
        "network": {
            "topology": "torus",
            "shape": [3, 3],
            "latency": "30 ns",
            "router": {"sa_allocator": "islip", "va_allocator": "wavefront", "flow_control": "virtual-cut-through"},
        },
        "system": {"chunks": 3, "start_skew": "40 ns"},
    },
)


def same(tmp_path: Path, source: Any, overrides: tuple[str, ...] = ()) -> None:
    """Run an experiment on both backends and compare the files."""
    files = [tmp_path / f"{backend}.h5" for backend in ("packet", "reference")]
    for file in files:
        pyxsim.run(source, backend=file.stem, overrides=overrides).save(file)
    compared = diff(*files)
    assert compared.equal, compared.differences
    assert ("backend", "packet", "reference") in compared.apart


@pytest.mark.parametrize("experiment", SMALL, ids=["ring", "adaptive mesh", "allocators on a torus"])
def test_small_experiments_are_equal(tmp_path: Path, experiment: dict[str, Any]) -> None:
    same(tmp_path, experiment)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "overrides"), TEN, ids=[name for name, _ in TEN])
def test_ten_inputs_are_equal(tmp_path: Path, name: str, overrides: tuple[str, ...]) -> None:
    same(tmp_path, INPUTS / f"{name}.toml", overrides)


def test_what_it_does_not_model() -> None:
    with pytest.raises(InputError, match="attribution: the reference router does not record this; allowed: off"):
        pyxsim.run(RING | {"output": {"attribution": "links"}}, backend="reference")
    with pytest.raises(InputError, match="backend 'reference' does not support open traffic; allowed: packet"):
        pyxsim.run({"network": RING["network"], "traffic": {"load": 0.1}}, backend="reference")
