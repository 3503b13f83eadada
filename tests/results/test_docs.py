"""docs/output.md tells every name that is written, and no other file format than the one that is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyxsim.registry import datasets
from pyxsim.results.page import MARK, reference
from pyxsim.results.result import JSON_TRAFFIC, Result
from tests.results.conftest import (
    make_attribution,
    make_backend_tables,
    make_detail,
    make_energy,
    make_jobs,
    make_layers,
    make_memory,
    make_serving,
    make_training,
    make_work,
)


@pytest.fixture
def page(tree: Path) -> str:
    return (tree / "docs" / "output.md").read_text(encoding="utf-8")


def test_the_reference_is_up_to_date(page: str) -> None:
    _, _, listed = page.partition(MARK)
    assert listed.strip() == reference().strip(), (
        "docs/output.md is out of date: python -m pyxsim.results.page docs/output.md"
    )


def words(page: str) -> set[str]:
    """What the page sets as code."""
    return set(re.findall(r"`([^`\n]+)`", page))


def test_every_variable_is_told(page: str, build: Callable[..., Result]) -> None:
    result = build(
        layers=make_layers(),
        attribution=make_attribution(),
        work=make_work(),
        chunk_delays=make_detail(),
        memory=make_memory(),
        backend_tables=make_backend_tables(),
        serving=make_serving(),
        jobs=make_jobs(),
        **make_energy(),
        **make_training(),
    )
    for group in datasets:
        if group == "traffic":
            continue
        assert f"/{group}" in words(page)
        assert set(datasets.get(group).table(result).variables) <= words(page), group


def test_every_key_is_told(page: str, build: Callable[..., Result]) -> None:
    summary = build(attribution=make_attribution(), work=make_work(), memory=make_memory(), **make_training()).json()
    known = {
        *summary,
        *JSON_TRAFFIC,
        *summary["attribution"],
        *summary["idle_ns"],
        *summary["critical_path"],
        *summary["memory"],
    }
    known |= {key for rows in ("totals", "longest") for key in summary["critical_path"][rows][0]}
    assert known <= words(page)


def test_every_attribute_is_told(page: str, result: Result, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    result.save(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert set(file.attrs) - {"Conventions", "title"} <= words(page)


def test_examples_run(page: str, build: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xarray")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    result = build()
    result.links.name[0] = "d0+:(0,0,0)->(1,0,0)"
    (tmp_path / "results").mkdir()
    result.save("results/torus_all_reduce.h5")
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    build(attribution=make_attribution()).save("results/waits.h5")
    build(work=make_work()).save("results/workload.h5")
    assert len(examples) == 6
    del examples[3:5]  # they simulate experiments of inputs/; tests/test_docs.py runs them
    for example in examples:
        names: dict[str, object] = {}
        exec(compile(example, "docs/output.md", "exec"), names)
        for dataset in (names.get(name) for name in ("links", "tree", "path", "npus")):
            if dataset is not None:
                dataset.close()  # type: ignore[attr-defined]
    matplotlib.pyplot.close("all")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert np.asarray(names["ax"].images[0].get_array()).shape[1] == 3  # type: ignore[attr-defined]
