"""Dataset specs: built-in ones are complete, and a user adds one by one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import pyxsim
from pyxsim import registry
from pyxsim.errors import InputError
from pyxsim.results import Result
from pyxsim.results.dataset import Column, compute, dataset, every

RUN = {
    "network": {"topology": "ring", "shape": [4], "bandwidth": "100 GB/s", "latency": "500 ns"},
    "collective": {"kind": "all-reduce", "size": "4 KiB"},
}


@pytest.fixture
def forget() -> Iterator[None]:
    """Remove what a test registers."""
    yield
    registry.datasets.discard(__name__)


@pytest.mark.usefixtures("forget")
def test_a_dataset_of_a_user_is_everywhere(tmp_path: Path) -> None:
    @dataset("ends", Column("end", "cycles", "end of the last phase"), Column("label", dtype="text"), rows="npu")
    def ends(result: Result, prepared: Any) -> Any:
        """When NPUs end.

        More about it.
        """
        npus = range(prepared.topology.npus)
        last = [int(result.chunks["end"][result.chunks["rank"] == npu].max()) for npu in npus]
        return {"end": last, "label": [None, "a", "b", "c"], "odd": [npu % 2 == 1 for npu in npus]}

    result = pyxsim.run(RUN)
    assert result.frames["ends"].name == "ends"
    assert result.tables()["ends"][0] == {"end": result.time_cycles, "label": "", "odd": 0}
    result.save(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert dict(file["ends/end"].attrs)["units"] == "cycles"
        assert file["ends/odd"].dtype == np.uint8
    registry.datasets.discard(__name__)
    read = pyxsim.load(tmp_path / "out.h5")
    assert isinstance(read, Result)
    assert read.ends.to_pandas()["label"].tolist() == ["", "a", "b", "c"]  # type: ignore[attr-defined]
    assert "ends" in read.frames
    assert "ends" in dir(read)


@pytest.mark.usefixtures("forget")
def test_a_dataset_that_fails_keeps_the_result(result: Result) -> None:
    @dataset("broken")
    def broken(result: Result, prepared: Any) -> Any:
        raise KeyError("gone")

    @dataset("uneven")
    def uneven(result: Result, prepared: Any) -> Any:
        return {"a": [1, 2], "b": [1]}

    @dataset("absent")
    def absent(result: Result, prepared: Any) -> None:
        return None

    compute(result, None)
    first, second = result.warnings[-2:]
    assert first.startswith("dataset 'broken' is missing: KeyError: 'gone'")
    assert __file__ in first
    assert "column 'b' has shape (1,); expected (2,)" in second
    assert not result.extra


def test_names_of_built_in_datasets_are_taken() -> None:
    with pytest.raises(InputError, match="the dataset 'links' of module"):
        dataset("links")(lambda result, prepared: None)


def test_every_column_is_described() -> None:
    for spec in every():
        assert spec.text.endswith("."), spec.name
        for column in spec.columns:
            assert column.text, f"{spec.name}.{column.name}"
            assert column.units or column.dtype == "text", f"{spec.name}.{column.name}"


def test_old_names_are_explained(result: Result) -> None:
    with pytest.raises(AttributeError, match="'by_dimension' has been renamed to 'dimensions'"):
        _ = result.by_dimension  # type: ignore[attr-defined]


def test_files_with_old_names_load(build: Callable[..., Result], tmp_path: Path) -> None:
    result = build()
    result.save(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5", "r+") as file:
        file.move("point_to_point", "messages")
    assert Result.load(tmp_path / "out.h5").point_to_point == result.point_to_point
