"""Error texts: one line each, with the place, what is allowed and the closest match; all of it survives pickling."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.schedule import ScheduleError
from pyxsim.errors import (
    DeadlockError,
    InputError,
    InputErrors,
    PyxsimError,
    SimulationError,
    UnreachableError,
    closest,
    nearest,
    raise_all,
)


def test_the_line_holds_file_key_problem_and_what_is_allowed() -> None:
    error = InputError("'fast' is no bandwidth", file="exp.toml", key="network.bandwidth", allowed="such as '1 GB/s'")
    assert str(error) == "exp.toml: network.bandwidth: 'fast' is no bandwidth; allowed: such as '1 GB/s'"


def test_parts_that_are_not_known_leave_no_trace() -> None:
    assert str(InputError("is empty")) == "is empty"
    assert str(InputError("is empty", key="a.b")) == "a.b: is empty"


def test_a_list_of_words_brings_the_closest_match() -> None:
    error = InputError("unknown topology 'tours'", allowed=iter(["mesh", "torus"]), given="tours")
    expected = "unknown topology 'tours'; allowed: mesh, torus; did you mean 'torus'?"
    assert str(error) == expected
    assert str(error) == expected  # an iterator is not used up by the first print


def test_a_word_far_from_all_has_no_suggestion() -> None:
    assert str(InputError("x", allowed=["mesh", "torus"], given="quux")) == "x; allowed: mesh, torus"


def test_spelling_habits_do_not_count_as_distance() -> None:
    assert nearest("allReduce", ["all-gather", "all-reduce"]) == "all-reduce"
    assert closest("halving_doubling", ["ring", "halving-doubling"]) == "; did you mean 'halving-doubling'?"
    assert closest("x", []) == ""


def test_at_fills_in_only_what_is_missing() -> None:
    error = InputError("is empty", key="inner", allowed=["a"], given="aa")
    moved = error.at(file="f.toml", key="outer")
    assert str(moved) == "f.toml: inner: is empty; allowed: a; did you mean 'a'?"
    assert (moved.file, moved.key, error.file) == ("f.toml", "inner", None)


def test_a_key_names_a_file_with_a_fault_of_its_own() -> None:
    error = InputErrors([InputError("is empty", file="s.json"), InputError("is missing", file="s.json", key="chunks")])
    named = error.named_by("system.file").at(file="e.toml")
    assert str(named) == "e.toml: system.file: s.json: is empty\ns.json: chunks: is missing"


def test_a_fault_that_moves_stays_what_it_is() -> None:
    error = ScheduleError("ends too early", rank=3).named_by("system.all_reduce").at(file="e.toml")
    assert (type(error), getattr(error, "rank", None)) == (ScheduleError, 3)
    assert str(error) == "e.toml: system.all_reduce: ends too early"


@given(st.text(), st.text())
def test_any_text_becomes_one_printable_line(problem: str, key: str) -> None:
    line = str(InputError(problem, key=key))
    assert len(line.splitlines()) <= 1
    assert line.isprintable()


@given(
    st.text(),
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.text() | st.lists(st.text(), max_size=3),
    st.none() | st.text(),
)
def test_errors_survive_the_way_home_from_a_worker(problem, file, key, allowed, given_word) -> None:  # type: ignore[no-untyped-def]
    error = InputError(problem, file=file, key=key, allowed=allowed, given=given_word)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InputError
    assert str(again) == str(error)
    assert (again.file, again.key) == (file, key)


def test_several_faults_are_several_lines() -> None:
    errors = InputErrors([InputError("one", key="a"), InputError("two\nlines", key="b")])
    assert str(errors) == "a: one\nb: two lines"
    again = pickle.loads(pickle.dumps(errors))
    assert [f.key for f in again.faults] == ["a", "b"]
    assert str(errors.at(file="f")) == "f: a: one\nf: b: two lines"


def test_raise_all_raises_what_there_is() -> None:
    one, two = InputError("one"), InputError("two")
    raise_all([])
    with pytest.raises(InputError) as caught:
        raise_all([one])
    assert caught.value is one
    with pytest.raises(InputErrors) as several:
        raise_all([one, two])
    assert several.value.faults == [one, two]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (PyxsimError, 1),
        (InputError, 2),
        (InputErrors, 2),
        (SimulationError, 3),
        (DeadlockError, 3),
        (UnreachableError, 3),
    ],
)
def test_exit_codes_are_those_of_the_command_line(kind: type[PyxsimError], code: int) -> None:
    assert kind.exit_code == code
    assert issubclass(kind, PyxsimError)


def test_input_errors_are_value_errors_so_that_validators_collect_them() -> None:
    assert issubclass(InputError, ValueError)
    assert not issubclass(SimulationError, ValueError)


def test_a_deadlock_carries_its_cycle_through_pickling() -> None:
    again = pickle.loads(pickle.dumps(DeadlockError("a circle", ["x", "y"])))
    assert (str(again), again.cycle) == ("a circle", ["x", "y"])
