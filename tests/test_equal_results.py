"""The comparison of results in tests finds whatever `pyxsim.diff` finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyxsim.results import dataset
from pyxsim.results.diff import diff
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from tests.equal_results import differences, equal
from tests.network.packet.random_experiments import experiment

GIVEN = experiment("torus", [4, 2], system={"all_reduce": "ring"})


@pytest.fixture(scope="module")
def result() -> Result:
    return run(GIVEN)


def test_a_run_and_its_repetition_are_equal(result: Result) -> None:
    again = run({**GIVEN, "run": {"skip": False}})
    assert diff(result, again).equal
    assert equal(result, again)


@pytest.mark.parametrize(
    "changes",
    [
        {"system": {"all_reduce": "direct"}},
        {"collective": {"size": "16 KiB"}},
        {"network": {"latency": "21 ns"}},
        {"output": {"window": "400 ns", "seed": 1}},
        {"output": {"window": "500 ns", "seed": 2}},
    ],
    ids=str,
)
def test_the_same_tables_and_values_differ(result: Result, changes: dict[str, Any]) -> None:
    other = run(experiment("torus", [4, 2], **{"system": {"all_reduce": "ring"}, **changes}))
    found = {each.name.partition("@")[0] for each in diff(result, other).differences}
    assert found
    assert {name.partition("@")[0] for name in differences(result, other)} == found


def test_one_bit_of_any_column_is_found(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each column, another last entry."""
    table_of, checked = dataset.table_of, 0
    for name in dataset.present(result):
        table = table_of(result, name)
        for column, variable in table.variables.items():
            data = variable.data.copy()
            if not data.size:
                continue
            last = data.reshape(-1)[-1:]
            if data.dtype == object:
                last[0] = f"{last[0]}."
            else:
                last.view(np.uint8)[0] ^= 1
            changed = replace(table, variables={**table.variables, column: replace(variable, source=data)})
            tables = iter([table, changed])
            with monkeypatch.context() as patch:
                patch.setattr(
                    dataset, "table_of", lambda _, each, n=name, t=tables: next(t) if each == n else table_of(_, each)
                )
                assert differences(result, result) == [f"/{name}/{column}"]
            checked += 1
    assert checked > 50
