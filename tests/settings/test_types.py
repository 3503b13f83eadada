"""The types of settings where the experiments of test_load do not reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pyxsim.settings import Experiment, RouterSettings, load_experiment, per_dimension
from pyxsim.settings.describe import models_in
from pyxsim.settings.types import shown

EXPERIMENT = {"network": {"topology": "ring"}, "collective": {"kind": "all-reduce", "size": "1 B"}}


def test_numpy_integers_are_whole_numbers() -> None:
    router = RouterSettings.model_validate({"vcs": np.int64(8)})
    assert router.vcs == 8
    assert type(router.vcs) is int
    with pytest.raises(ValueError, match="not a whole number"):
        RouterSettings.model_validate({"vcs": np.bool_(True)})


@given(st.integers(), st.integers(0, 5))
def test_one_value_or_the_list_itself(value: int, n: int) -> None:
    assert per_dimension(value, n) == (value,) * n
    each: tuple[int, ...] = (value, value + 1)
    same: tuple[int, ...] = per_dimension(each, n)
    assert same == each


def test_long_values_are_not_shown_in_full() -> None:
    assert shown("x" * 1000) == "'" + "x" * 55 + "..."
    assert shown(True) == "true"
    assert shown([1]) == "[1]"


def test_every_setting_has_a_description() -> None:
    seen = set()

    def check(model: type[BaseModel]) -> None:
        seen.add(model.__name__)
        for key, info in model.model_fields.items():
            assert info.description, f"{model.__name__}.{key}"
            assert info.description.endswith("."), f"{model.__name__}.{key}"
            for inner in models_in(info.annotation):
                check(inner)

    check(Experiment)
    assert {"Network", "RouterSettings", "PipelineTable", "Dimension", "System", "Collective", "Output"} <= seen


def test_what_is_dumped_is_accepted_again() -> None:
    experiment = load_experiment(EXPERIMENT)
    assert Experiment.model_validate(experiment.model_dump()) == experiment


def test_tables_and_lists_inside_options_are_copies() -> None:
    inner = [1, {"a": 2}]
    options = {"list": inner}
    experiment = load_experiment({**EXPERIMENT, "network": {"topology": "x", "options": options}})
    inner.append(3)
    assert experiment.network.options == {"list": [1, {"a": 2}]}
