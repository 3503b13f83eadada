"""Sessions are compared with earlier ones that can be compared, and a change is one only where it is clear."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import history
from benchmarks.history import Change
from benchmarks.measure import measure, spread
from pyxsim.errors import InputError, PyxsimError

HERE = {"machine": "2 x one", "build": "release", "python": "3.11.2"}
FAST = "torus4x4x4-all-reduce"


def row(*seconds: float, name: str = "case", cycles: int = 100) -> dict[str, Any]:
    return {"name": name, "cycles": cycles, "cpu_s": spread(seconds)}


def session(*rows: dict[str, Any], **other: str) -> dict[str, Any]:
    return {**HERE, **other, "cases": list(rows)}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "history.jsonl"
    assert history.read(file) == []
    first, second = session(row(1.0)), session(row(2.0), row(3.0, name="other"))
    history.append(file, first)
    history.append(file, second)
    found = history.read(file)
    assert [list(each["cases"].values()) for each in found] == [first["cases"], second["cases"]]


@pytest.mark.parametrize("line", ["no JSON", "[]", "3", '{"cases": [{}]}', "{}"])
def test_another_file_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "history.jsonl"
    history.append(file, session())
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(str(file)) + ": line 2 is no session"):
        history.read(file)


def test_the_last_one_alike_counts(tmp_path: Path) -> None:
    """Not that of another machine, build or Python; and not one without the case."""
    file = tmp_path / "history.jsonl"
    told = [
        session(row(1.0)),
        session(row(2.0)),
        session(row(3.0), machine="another"),
        session(row(4.0), build="debug"),
        session(row(5.0), python="3.12.0"),
        session(row(6.0, name="other")),
    ]
    for each in told:
        history.append(file, each)
    found = history.last_alike(history.read(file), session(), row(9.0))
    assert found == row(2.0)
    assert history.last_alike(history.read(file), session(), row(9.0, name="new")) is None


@pytest.mark.parametrize(
    ("now", "then", "word"),
    [
        ((1.2, 1.3, 1.4), (1.0, 1.05, 1.1), "slower"),
        ((1.05, 1.3, 1.4), (1.0, 1.05, 1.1), "same"),  # one run of then was slower than one of now
        ((0.7, 0.8, 0.9), (1.0, 1.05, 1.1), "faster"),
        ((0.7, 0.8, 1.0), (1.0, 1.05, 1.1), "same"),
        ((1.012, 1.013), (1.0, 1.001), "same"),  # clear, but nothing
        ((0.99, 0.991), (1.0, 1.001), "same"),
    ],
)
def test_a_change_is_more_than_noise(now: tuple[float, ...], then: tuple[float, ...], word: str) -> None:
    found = history.change(row(*now), row(*then))
    assert found is not None
    assert found.word == word
    assert found.ratio == pytest.approx(spread(now)["median"] / spread(then)["median"])


times = st.lists(st.floats(0.1, 10), min_size=1, max_size=7)


@given(times, times)
def test_forwards_and_backwards(now: list[float], then: list[float]) -> None:
    """What is slower one way is faster the other way."""
    there, back = history.change(row(*now), row(*then)), history.change(row(*then), row(*now))
    other = {"slower": "faster", "faster": "slower", "same": "same"}
    assert there is not None
    assert back == Change(pytest.approx(1 / there.ratio), other[there.word])
    if there.word == "slower":
        assert min(now) > max(then)


def test_other_work_is_not_compared() -> None:
    assert history.change(row(1.0), row(1.0, cycles=101)) is None
    assert history.change(row(1.0), None) is None


def test_a_session_says_where_it_was() -> None:
    told = history.session([row(1.0)])
    assert set(HERE) <= set(told)
    assert {"version", "commit", "date", "cases"} <= set(told)
    assert re.match(r"\d+ x \S", told["machine"])


def test_pairs_with_a_tree(tree: Path) -> None:
    """With the same one: the same work, and ratios that are some number."""
    found = measure(FAST, 1, tree)
    assert found["router_visits"] == 1_032_192
    assert found["against"]["min"] > 0


def test_a_case_that_a_tree_has_not_runs_alone(tmp_path: Path) -> None:
    (tmp_path / "pyxsim" / "bench").mkdir(parents=True)
    (tmp_path / "pyxsim" / "__init__.py").touch()
    (tmp_path / "pyxsim" / "bench" / "__init__.py").touch()
    (tmp_path / "pyxsim" / "bench" / "__main__.py").write_text("import sys\n{}[sys.argv[1]]\n", encoding="utf-8")
    found = measure(FAST, 1, tmp_path)
    assert found["router_visits"] == 1_032_192
    assert "against" not in found
    assert found["alone"] == f"the pyxsim in {tmp_path} has no case {FAST}"


def test_a_tree_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyxsim").mkdir()
    (tmp_path / "pyxsim" / "__init__.py").touch()
    with pytest.raises(PyxsimError, match=f"{FAST} does not run with the pyxsim in {tmp_path}"):
        measure(FAST, 1, tmp_path)
