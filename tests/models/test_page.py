"""The tables of docs/models.md say what is computed."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from pyxsim.models import devices, load_model, model_files
from pyxsim.models.table import read_table
from pyxsim.settings.npu import PRECISIONS, Npu
from pyxsim.units import format_bandwidth, format_bytes


@pytest.fixture(scope="module")
def page(tree: Path) -> str:
    return (tree / "docs" / "models.md").read_text(encoding="utf-8")


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """A table by its first column."""
    lines = page[page.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def blocks(page: str, language: str) -> list[str]:
    return [block.split("```")[0] for block in page.split(f"```{language}\n")[1:]]


def test_models(page: str) -> None:
    found = rows(page, "model")
    assert set(found) == set(model_files())
    for name, (parameters, flops, sample) in found.items():
        model = load_model(name)
        assert (int(parameters.replace(" ", "")), int(flops.replace(" ", ""))) == (model.parameters, model.flops)
        assert sample == model.sample


def test_devices(page: str) -> None:
    found = rows(page, "device")
    assert list(found) == list(devices())
    for name, (memory, bandwidth, *peaks, source) in found.items():
        device = devices()[name]
        assert (memory, bandwidth, source) == (
            format_bytes(device.memory),
            format_bandwidth(device.bandwidth),
            device.source,
        )
        told = {each: Fraction(peak) * 10**12 for each, peak in zip(PRECISIONS, peaks, strict=True) if peak}
        assert told == device.peaks


def test_files(page: str, tmp_path: Path) -> None:
    """The examples of files are read."""
    plain = [block for block in blocks(page, "") if block.startswith("Layer")]
    assert len(plain) == 2
    for block in plain:
        file = tmp_path / "table.csv"
        file.write_text(block, encoding="utf-8")
        assert read_table(file).layers
    described = 0
    for block in blocks(page, "toml"):
        if "[system.npu]" in block:
            Npu.model_validate(tomllib.loads(block)["system"]["npu"])
        else:
            file = tmp_path / "model.toml"
            file.write_text(block, encoding="utf-8")
            assert load_model(str(file)).parameters > 10**7
            described += 1
    assert described == 1
