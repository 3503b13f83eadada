"""[system.npu] in an experiment: what uses it, and how it is written back."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings import load_experiment, resolved_toml

NETWORK = {"network": {"topology": "torus", "shape": [2, 2]}}
ARRAY = {"rows": 128, "columns": 128, "clock": "940 MHz", "sram": {"words_per_cycle": 8}}


def experiment(npu: dict[str, Any], **load: dict[str, Any]) -> dict[str, Any]:
    return {**NETWORK, "system": {"npu": npu}, **load}


@pytest.mark.parametrize(
    "npu",
    [
        {"device": "h100", "precision": "fp8", "efficiency": "1/3"},
        {"peak": "1.5 PFLOP/s", "memory_bandwidth": "2 TB/s"},
        {"device": "tpu-v3", "compute": "scalesim", "array": ARRAY},
    ],
)
def test_it_is_written_as_it_was_read(npu: dict[str, Any]) -> None:
    found = load_experiment(experiment(npu, workload={"model": "resnet50"}))
    assert load_experiment(tomllib.loads(resolved_toml(found))) == found


@pytest.mark.parametrize(
    ("npu", "load", "text"),
    [
        ({"device": "h100"}, {"collective": {"kind": "all-reduce", "size": "1 MiB"}}, "allowed: with [workload] model"),
        ({"device": "h100"}, {"workload": {"file": "a"}}, "or with system.npu.roofline = true and traces"),
    ],
)
def test_it_is_refused_where_nothing_computes(npu: dict[str, Any], load: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        load_experiment(experiment(npu, **load))
    assert str(caught.value).startswith("system.npu: has no effect")
    assert text in str(caught.value)


def test_a_roofline_of_traces_beside_a_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"^system\.npu\.roofline: has no effect on a model.*: true with traces"):
        load_experiment(experiment({"device": "h100", "roofline": True}, workload={"model": "resnet50"}))


def test_faults_name_their_keys() -> None:
    npu = {"device": "h100", "compute": "scalsim", "efficiency": 0, "array": {**ARRAY, "dataflow": "ns"}}
    with pytest.raises(InputError) as caught:
        load_experiment(experiment(npu, workload={"model": "resnet50"}))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "system.npu.efficiency",
        "system.npu.compute",
        "system.npu.array.dataflow",
    ]
    assert "did you mean 'scalesim'?" in lines[1]
