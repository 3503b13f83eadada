"""Two files to the bit: what is changed by hand is found, at its place, and nothing else is."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.diff import APART, Diff, diff
from pyxsim.results.provenance import PROVENANCE, provenance
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.results.sweep import Sweep
from pyxsim.results.sweep_table import save as save_table
from tests.examples import part_of
from tests.results.conftest import make_result

Change = Callable[[h5py.File], object]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diff") / "one.h5"
    make_result().save(path)
    return path


def changed(path: Path, change: Change) -> Diff:
    """Against a copy of the same file in which something was changed."""
    other = path.with_name("other.h5")
    shutil.copy(path, other)
    with h5py.File(other, "r+") as file:
        change(file)
    return diff(path, other)


def count(path: Path) -> tuple[int, int]:
    """Datasets and attributes, counted by h5py's own walk."""
    seen: list[Any] = []
    with h5py.File(path) as file:
        datasets = attributes = 0
        file.visititems(lambda name, thing: seen.append((isinstance(thing, h5py.Dataset), len(thing.attrs))))
        datasets = sum(each for each, _ in seen)
        attributes = len(file.attrs) + sum(each for _, each in seen)
    return datasets, attributes


def test_a_file_and_itself(saved: Path, result: Result) -> None:
    found = diff(saved, saved)
    assert found.equal
    assert (found.differences, found.apart) == ((), ())
    assert (found.datasets, found.attributes) == count(saved)
    assert diff(result, saved).equal
    assert not len(found.table().to_pandas())
    assert repr(found).endswith(f"one.h5: equal in {found.datasets} datasets, {found.attributes} attributes)")


def put(name: str, place: Any, value: Any) -> Change:
    return lambda file: file[name].__setitem__(place, value)


CHANGES: dict[str, tuple[Change, tuple[Any, ...]]] = {
    "a number": (put("links/flits", (1, 3), 22), ("/links/flits", "values", (3, 4), 1, (1, 3), 20, 22, 2)),
    "a text": (
        put("links/name", 3, "other"),
        ("/links/name", "values", (4,), 1, (3,), "d0-:(1)->(0) é", "other", None),
    ),
    "an attribute": (
        lambda file: file["links"].attrs.modify("window_cycles", 50),
        ("/links@window_cycles", "values", (), 1, (), 100, 50, 50),
    ),
    "a setting": (
        lambda file: file.attrs.modify("experiment", file.attrs["experiment"].replace("1 KiB", "2 KiB")),
        ("/@experiment: collective.size", "values", (), 1, (), "1 KiB", "2 KiB", None),
    ),
    "a dataset is gone": (
        lambda file: file.__delitem__("phases/time"),
        ("/phases/time", "only in the first", (2,), 2, (), None, None, None),
    ),
    "a dataset more": (
        lambda file: file["links"].create_dataset("more", data=[1, 2, 3]),
        ("/links/more", "only in the second", (3,), 3, (), None, None, None),
    ),
    "an attribute more": (
        lambda file: file["links"].attrs.create("note", "new"),
        ("/links@note", "only in the second", (), 1, (), None, "new", None),
    ),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_what_was_changed_is_found(saved: Path, name: str) -> None:
    change, wanted = CHANGES[name]
    found = changed(saved, change)
    told = [
        (e.name, e.what, e.shape, e.places, e.at, e.first, e.second, e.largest)
        for e in found.differences
        if "DIMENSION_LIST" not in e.name and "REFERENCE_LIST" not in e.name
    ]
    assert told == [wanted]
    assert not found.equal
    assert json.loads(json.dumps(found.json(), allow_nan=False))["equal"] is False
    assert wanted[0] in found.to_pandas()["name"].tolist()


def test_types_and_shapes(saved: Path) -> None:
    def another(name: str, data: Any) -> Change:
        def change(file: h5py.File) -> None:
            group, _, key = name.rpartition("/")
            del file[name]
            file[group].create_dataset(key, data=data)

        return change

    kinds = {}
    for data in (np.zeros(2, dtype=np.float32), np.zeros(5), np.zeros(2)):
        found = changed(saved, another("phases/time", data))
        (kind,) = (each.what for each in found.differences if each.name == "/phases/time")
        kinds[data.dtype.name, data.size] = kind
    assert kinds == {("float32", 2): "type", ("float64", 5): "shape", ("float64", 2): "values"}
    found = changed(saved, lambda file: (file.__delitem__("phases"), file.create_dataset("phases", data=1)))
    assert "kind" in {each.what for each in found.differences if each.name == "/phases"}


def test_how_it_ran_is_told_apart(saved: Path) -> None:
    """Change all these fields at once, each to a different value: diff lists each and counts none as a difference."""

    def change(file: h5py.File) -> None:
        for key in ("summary", "record"):
            told = json.loads(file.attrs[key])
            for name in APART:
                for table in (told, told.get("counts", {}), told.get("provenance", {})):
                    if name in table:
                        table[name] = f"another {name}"
                told.setdefault(name, f"another {name}")
            file.attrs[key] = json.dumps(told)
        for name in APART & set(file.attrs):
            file.attrs[name] = f"another {name}"

    found = changed(saved, change)
    assert found.equal, found.differences
    assert {f"another {name}" for name in APART} <= {second for _, _, second in found.apart}


def test_the_table_run_is_told_apart(saved: Path) -> None:
    run = "[run]\nskip = false\n"
    found = changed(saved, lambda file: file.attrs.modify("experiment", file.attrs["experiment"] + run))
    assert found.equal
    assert found.apart == (("run.skip", None, False),)


def test_the_list_knows_all_that_a_result_tells_of_itself() -> None:
    assert set(provenance()) <= set(PROVENANCE)
    assert HOW_IT_RAN | set(PROVENANCE) | {"backend"} == APART


@settings(max_examples=part_of(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12),
    flips=st.dictionaries(st.integers(0, 11), st.integers(0, 2**64 - 1), max_size=3),
)
def test_floats_bit_by_bit(tmp_path: Path, bits: list[int], flips: dict[int, int]) -> None:
    """Against a comparison of the numbers as whole bits, in Python."""
    other = [flips.get(place, each) for place, each in enumerate(bits)]
    for name, values in (("one.h5", bits), ("other.h5", other)):
        with h5py.File(tmp_path / name, "w") as file:
            file.attrs["record"] = "{}"  # of a result
            file["x"] = np.array(values, dtype=np.uint64).view(np.float64)
    floats = [np.array(values, dtype=np.uint64).view(np.float64).tolist() for values in (bits, other)]
    wanted = [
        place
        for place, pair in enumerate(zip(bits, other, strict=True))
        if pair[0] != pair[1] and not all(math.isnan(each[place]) for each in floats)
    ]
    found = diff(tmp_path / "one.h5", tmp_path / "other.h5").differences
    assert [(each.places, each.at) for each in found] == ([(len(wanted), (wanted[0],))] if wanted else [])
    if found:
        apart = [abs(floats[0][place] - floats[1][place]) for place in wanted]
        numbers = [each for each in apart if not math.isnan(each)]
        assert found[0].largest == (max(numbers) if numbers else None)


def test_more_than_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyxsim.results.diff.AT_ONCE", 100)
    table = np.arange(64 * 30).reshape(64, 30)
    for name, values in (("one.h5", table), ("other.h5", np.where(table % 601 == 600, table - 7, table))):
        with h5py.File(tmp_path / name, "w") as file:
            file.attrs["record"] = "{}"  # of a result
            file.create_dataset("x", data=values, chunks=(8, 30))
    (found,) = diff(tmp_path / "one.h5", tmp_path / "other.h5").differences
    assert (found.places, found.at, found.first, found.second, found.largest) == (3, (20, 0), 600, 593, 7)


def test_integers_at_the_ends_of_their_range(tmp_path: Path) -> None:
    for name, value in (("one.h5", -(2**63)), ("other.h5", 2**63 - 1)):
        with h5py.File(tmp_path / name, "w") as file:
            file.attrs["record"] = "{}"  # of a result
            file["x"] = np.array([value])
    (found,) = diff(tmp_path / "one.h5", tmp_path / "other.h5").differences
    assert found.largest == 2**64 - 1


def test_what_is_no_file(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "text").write_text("text")
    for path, says in (("missing.h5", "no such file"), ("text", "not a readable HDF5 file"), (".", "directory")):
        with pytest.raises(InputError, match=says):
            diff(saved, tmp_path / path)


def test_files_of_others_are_refused(tmp_path: Path, saved: Path) -> None:
    """Whichever of the two it is; what any command of ours writes is taken."""
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = [1, 2]
        file.attrs["title"] = "of another program"
    for pair in ((saved, tmp_path / "foreign.h5"), (tmp_path / "foreign.h5", saved)):
        with pytest.raises(InputError, match=r"foreign\.h5: not a file written by pyxsim; allowed: an \.h5 file"):
            diff(*pair)
    curve = Curve("a network", [{"offered_load": 0.1, "saturated": False}])
    comparison = Comparison("two", ["packet"], [], 0.1, 1)
    sweep = Sweep(tmp_path, "swept", {"a": [1]}, [])
    curve.save(tmp_path / "curve.h5")
    comparison.save(tmp_path / "comparison.h5")
    save_table(sweep, tmp_path / "table.h5")
    for name in ("curve.h5", "comparison.h5", "table.h5"):
        assert diff(tmp_path / name, tmp_path / name).equal


def test_two_runs_and_another_one() -> None:
    tables = {"network": {"topology": "ring", "shape": [4]}, "collective": {"kind": "all-reduce", "size": "4 KiB"}}
    one, again = pyxsim.run(tables), pyxsim.run(tables, overrides=["run.threads=2", "run.skip=false"])
    found = pyxsim.diff(one, again)
    assert found.equal, found.differences
    assert {"run.threads", "run.skip"} <= {name for name, *_ in found.apart}
    other = pyxsim.diff(one, pyxsim.run(tables, overrides=["network.router.vcs=2"]))
    assert "/@experiment: network.router.vcs" in {each.name for each in other.differences}
