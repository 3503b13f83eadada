"""Figures with bounds: what is read, what is written, and sums of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings.cost import Cost, LinkCost, MemoryCost, PartCost
from pyxsim.settings.estimate import (
    DOLLARS,
    DOLLARS_PER_BYTE,
    DOLLARS_PER_JOULE,
    DOLLARS_PER_RATE,
    JOULES_PER_BIT,
    WATTS,
    Estimate,
)

FIELDS = [
    (LinkCost, "energy", JOULES_PER_BIT),
    (LinkCost, "price", DOLLARS_PER_RATE),
    (PartCost, "power", WATTS),
    (PartCost, "price", DOLLARS),
    (MemoryCost, "price", DOLLARS_PER_BYTE),
    (Cost, "electricity", DOLLARS_PER_JOULE),
]
NUMBERS = st.decimals(0, 10**6, places=3, allow_nan=False)


@given(st.sampled_from(FIELDS), st.data())
def test_every_unit_is_read_and_written_exactly(field: Any, data: st.DataObject) -> None:
    table, key, units = field
    unit = data.draw(st.sampled_from(sorted(units)))
    numbers = sorted(data.draw(st.lists(NUMBERS, min_size=3, max_size=3)))
    read = table(**{key: [f"{number} {unit}" for number in numbers]})
    estimate = getattr(read, key)
    assert [estimate.low, estimate.typical, estimate.high] == [Fraction(number) * units[unit] for number in numbers]
    assert table(**read.model_dump(exclude_unset=True)) == read


@given(st.lists(st.lists(st.fractions(0, 10), min_size=3, max_size=3).map(sorted), max_size=5), st.fractions(0, 10))
def test_bounds_stay_bounds(rows: list[list[Fraction]], factor: Fraction) -> None:
    total = Estimate.total(Estimate(*row) for row in rows) * factor
    assert total.low <= total.typical <= total.high
    assert total.typical == factor * sum(row[1] for row in rows)
    assert total.high == factor * sum(row[2] for row in rows)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"links": {"energy": "5 pJ"}}, "'pJ' in '5 pJ' is not a unit of energy per bit"),
        ({"links": {"energy": 5}}, "5 has no unit"),
        ({"links": {"energy": ["5 pJ/bit", "4 pJ/bit", "6 pJ/bit"]}}, "does not increase"),
        ({"links": {"energy": ["5 pJ/bit", "6 pJ/bit"]}}, "has 2 values"),
        ({"links": {"idle": 1.5}}, "1.5 is not a share"),
        ({"npu": {"price": "30 k€"}}, "is not a unit of price"),
        ({"npu": {"power": "-3 W"}}, "is negative"),
        ({"pue": 0.9}, "0.9 is not a factor"),
        ({"electricity": "8 $"}, "is not a unit of price of electricity"),
        ({"used": 0}, "0 is not a fraction"),
        ({"noc": {"wire": "0 mm"}}, "'0 mm' is zero"),
    ],
)
def test_other_values_are_refused_in_one_line(table: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Cost(**table)
    assert said in str(caught.value)
    assert "allowed:" in str(caught.value)
    assert "\n" not in str(caught.value)
