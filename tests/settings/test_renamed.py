"""Keys of earlier versions: accepted, with one line that names the new key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import load_experiment
from pyxsim.errors import InputError
from pyxsim.runner.prepare import prepare
from pyxsim.settings import renamed

FORMER = {
    "network.vc_count": "network.router.vcs",
    "network.dims.kind": "network.dims.block",
    "system.pieces": "system.chunks",
}
TEXT = """
[network]
dims = [{ kind = "ring", npus = 4 }, { block = "mesh", npus = 2 }]
vc_count = 5

[collective]
kind = "all-reduce"
size = "1 KiB"
"""


@pytest.fixture(autouse=True)
def former_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "RENAMED", FORMER)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "old.toml"
    file.write_text(TEXT)
    return file


def test_old_keys_of_a_file_are_read_with_a_line_each(path: Path) -> None:
    experiment = load_experiment(path)
    assert experiment.network.router.vcs == 5
    assert experiment.network.dims is not None
    assert [dim.block for dim in experiment.network.dims] == ["ring", "mesh"]
    assert experiment.notes == (
        "network.vc_count is now called network.router.vcs; the old key will be removed",
        "network.dims[0].kind is now called network.dims[0].block; the old key will be removed",
    )


def test_the_lines_are_warnings_of_the_run(path: Path) -> None:
    assert prepare(load_experiment(path), backend="analytical").warnings[:2] == list(load_experiment(path).notes)


@pytest.mark.parametrize("key", ["network.router.vcs", "network.vc_count"])
def test_overrides_replace_old_keys(path: Path, key: str) -> None:
    experiment = load_experiment(path, [f"{key}=6", "network.dims[1].kind=ring", "system.pieces=2"])
    assert (experiment.network.router.vcs, experiment.system.chunks) == (6, 2)
    assert experiment.network.dims is not None
    assert experiment.network.dims[1].block == "ring"
    assert "system.pieces is now called system.chunks; the old key will be removed" in experiment.notes
    assert "network.dims[1].kind is now called network.dims[1].block; the old key will be removed" in experiment.notes


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TEXT.replace("vc_count = 5", "vc_count = 0"), "network.vc_count: 0 is too small"),
        (TEXT.replace("vc_count = 5", "vc_count = 5\nrouter = { vcs = 3 }"), "network.vc_count: same setting as `netw"),
        (TEXT.replace("vc_count = 5", "vc_count = 5\nrouter = 3"), "network.vc_count: same setting as `network.ro"),
    ],
)
def test_faults_name_the_old_key(path: Path, text: str, line: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_experiment(path)
    assert f"{path}: {line}" in str(caught.value)


def test_a_file_without_old_keys_has_no_notes(path: Path) -> None:
    data: dict[str, Any] = {"network": {"topology": "ring", "shape": [4]}, "collective": {"kind": "barrier"}}
    assert load_experiment(data).notes == ()
    assert load_experiment(path).model_copy().notes
