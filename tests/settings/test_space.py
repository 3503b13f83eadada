"""The space of a search: its axes, shapes and budgets, and faults in a line."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings.space import factorizations, read_space
from pyxsim.units import parse_bandwidth

RING: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4]},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
}


def space(search: dict[str, Any], *overrides: str) -> Any:
    return read_space({**RING, "search": search}, overrides)


@given(st.integers(2, 200), st.integers(1, 4))
def test_factorizations(number: int, factors: int) -> None:
    found = list(factorizations(number, factors))
    assert len(set(found)) == len(found)
    assert all(len(each) == factors and math.prod(each) == number and min(each) > 1 for each in found)
    if factors == 2:
        assert len(found) == sum(number % divisor == 0 for divisor in range(2, number))


def test_axes() -> None:
    found = space({"axes": {"collective.size": ["1 MiB", "2 MiB"]}, "shapes": {"network.shape": 64}, "dimensions": 2})
    assert len(found) == 2 * 5
    assert found.names == ["collective.size", "network.shape"]
    point = found.point((1, 2))
    assert point.experiment.network.shape == (8, 8)
    assert found.values((1, 2)) == {"collective.size": "2 MiB", "network.shape": [8, 8]}
    fixed = space(
        {"axes": {"collective.size": ["1 MiB", "2 MiB"], "network.shape": [[2, 8], [4, 4]]}}, "network.shape=[16, 1]"
    )
    assert fixed.names == ["collective.size"]


@given(st.integers(2, 8), st.integers(1, 5))
def test_a_budget_is_spent(parts: int, price: int) -> None:
    dims = [{"block": "switch", "npus": 4}, {"block": "switch", "npus": 4}]
    axes = ["network.dims[0].bandwidth", "network.dims[1].bandwidth"]
    split = {"axes": axes, "budget": "960 GB/s", "prices": [1, price], "parts": parts}
    found = read_space({**RING, "network": {"dims": dims}, "search": {"split": split}})
    assert len(found) == parts - 1
    for place in found.places():
        one, other = (dim.bandwidth for dim in found.point(place).experiment.network.dims)
        assert float(one + price * other) == pytest.approx(float(parse_bandwidth("960 GB/s")), rel=1e-8)


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ({"axes": {"network.shap": [1, 2]}}, r'search.axes."network.shap": .*did you mean'),
        ({"axes": {}}, "search.axes: has no axes"),
        ({"axes": {"output": {"seed": [1, 2]}}}, r'search.axes.output.seed: .*in quotes: "output.seed"'),
        ({"axes": {"collective.size": []}}, "search.axes"),
        ({"axes": {"output.seed": [1, 1]}}, "duplicate value"),
        ({"axes": {"output.seed": {"from": 0, "to": 5, "step": 1}}, "seeds": 1}, "search.seeds: .*did you mean 'seed'"),
        ({"axes": {"output.seed": [1]}, "constraint": [{"product": ["seed"]}]}, "compares nothing"),
        ({"axes": {"output.seed": [1]}, "method": "best"}, "search.method"),
        (
            {"split": {"axes": ["network.bandwidth"], "budget": 5}},
            "search.split: 5 has no unit",
        ),
    ],
)
def test_faults(search: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        space(search)


def test_other_commands_refuse_it() -> None:
    import pyxsim

    source = {**RING, "search": {"axes": {"output.seed": [1, 2]}}}
    with pytest.raises(InputError, match=r"search: .*allowed: `pyxsim search`"):
        pyxsim.run(source)
    with pytest.raises(InputError, match="defines no search"):
        read_space(RING)


def test_a_quoted_axis_can_be_set() -> None:
    data = {
        "network": {"topology": "ring", "shape": [8]},
        "collective": {"kind": "all-reduce", "size": "1 MiB"},
        "search": {"objective": "time", "axes": {"system.chunks": [1, 2]}},
    }
    space = read_space(data, ['search.axes."system.chunks"=[4, 8, 16]'])
    assert len(space) == 3
