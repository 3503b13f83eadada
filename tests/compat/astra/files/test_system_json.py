"""ASTRA-sim 2's system JSON as settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.compat.astra.files import read_system, system_tables
from pyxsim.errors import InputError
from tests.compat.astra.files.files import SYSTEM_2, WriteJson


def test_a_system(write_object: WriteJson) -> None:
    assert read_system(write_object(SYSTEM_2), 3) == (
        {
            "compat": "astra-sim-2",
            "scheduling": "FIFO",
            "endpoint_delay": "7 ns",
            "active_chunks": 2,
            "chunks": 5,
            "optimization": "localBWAware",
            "local_memory_bandwidth": "3201/2 GB/s",
            "all_reduce": ["ring", "direct:4", "halving-doubling"],
            "all_gather": "one-ring",
        },
        [],
    )


def test_the_defaults(write_object: WriteJson) -> None:
    path = write_object({"preferred-dataset-splits": 1, "collective-optimization": "baseline"})
    assert system_tables(path) == {
        "compat": "astra-sim-2",
        "scheduling": "LIFO",
        "endpoint_delay": "10 ns",
        "active_chunks": 1,
        "chunks": 1,
        "optimization": "baseline",
    }


def test_the_shared_bus_stands_for_the_delays(write_object: WriteJson) -> None:
    bus = {"model-shared-bus": 1, "L": 500, "o": 1, "g": 2, "G": 0.0038, "local-reduction-delay": 3}
    table = system_tables(write_object(SYSTEM_2 | bus), 3)
    assert table["shared_bus"] == {
        "L": "500 ns",
        "o": "1 ns",
        "g": "2 ns",
        "G": "19/5000 ns",
        "reduction_delay": "3 ns",
    }
    assert "endpoint_delay" not in table
    assert table["local_memory_bandwidth"]  # what a reduction takes besides


def test_traces_as_an_algorithm(write_object: WriteJson) -> None:
    table = system_tables(write_object(SYSTEM_2 | {"all-reduce-implementation-custom": ["traces/ring"]}), 3)
    assert table["all_reduce"] == "traces/ring.*.et"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scheduling-policy", None),
        ("scheduling-policy", "EXPLICIT"),
        ("endpoint-delay", 0),
        ("endpoint-delay", 10.0),
        ("local-mem-bw", None),
        ("roofline-enabled", 0),
        ("peak-perf", 900),
        ("replay-only", 0),
        ("track-local-mem", 0),
        ("local-mem-trace-filename", "trace"),
        ("model-shared-bus", 0),
        ("L", 500),
        ("G", 0.0038),
        ("local-reduction-delay", 1),
        ("trace-enabled", 0),
        ("boost-mode", 0),
    ],
)
def test_what_is_taken(write_object: WriteJson, key: str, value: Any) -> None:
    assert read_system(write_object(SYSTEM_2 | {key: value}), 3)[1] == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("endpoint-delay", 7.9, "7.9 is cut to 7, as in ASTRA-sim"),
        ("active-chunks-per-dimension", 2.9, "2.9 is cut to 2, as in ASTRA-sim"),
        ("preferred-dataset-splits", 5.5, "5.5 is cut to 5, as in ASTRA-sim"),
        ("model-shared-bus", 2, "2 turns it off in ASTRA-sim 2, and here"),
        ("replay-only", False, "false turns it on in ASTRA-sim 2, and here; 0 turns it off"),
        ("boost-mode", 1, "version 2 does not read it; all NPUs are simulated"),
        ("replay-only", 1, "belongs to the workload"),
        ("track-local-mem", 1, "tensors in memory are not tracked"),
        ("trace-enabled", 1, "no debug lines are written"),
        ("intra-dimension-scheduling", "SCF", "version 2 has not read it since January 2023"),
        ("inter-dimension-scheduling", "themis", "version 2 has not read it since January 2023"),
    ],
)
def test_what_is_taken_with_a_warning(write_object: WriteJson, key: str, value: Any, told: str) -> None:
    path = write_object(SYSTEM_2 | {key: value})
    table, warnings = read_system(path, 3)
    line = [*(SYSTEM_2 | {key: value})].index(key) + 2
    assert warnings[0].startswith(f"{path}:{line}: {key}: {told}")
    assert len(warnings) == 1 + (key == "replay-only" and value is False)
    assert table == system_tables(write_object(SYSTEM_2), 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"preferred-dataset-splits": None}, "file.json: preferred-dataset-splits: is missing"),
        (
            {"collective-optimization": "none"},
            r"file.json:8: collective-optimization: 'none' is not in .*; allowed: base",
        ),
        (
            {"scheduling-policy": "RANDOM"},
            "file.json:2: scheduling-policy: 'RANDOM' is not in .*; allowed: LIFO, FIFO, EX",
        ),
        ({"preferred-dataset-splits": 0}, "preferred-dataset-splits: '0' is not allowed; .* from 1"),
        ({"preferred-dataset-splits": "4"}, "preferred-dataset-splits: '4' is not allowed"),
        ({"endpoint-delay": -0.5}, "file.json:3: endpoint-delay: '-0.5' is not allowed; allowed: a whole number"),
        ({"endpoint-delay": -1}, "endpoint-delay: '-1' is not allowed"),
        ({"local-mem-bw": True}, "local-mem-bw: 'true' is not allowed; allowed: a number from 0"),
        ({"local-mem-bw": [1, 2]}, r"local-mem-bw: '\[1, 2\]' is not allowed"),
        ({"all-reduce-implementation": "ring"}, "all-reduce-implementation: 'ring' is not a list"),
        ({"all-reduce-implementation": []}, "all-reduce-implementation: the list has 0 entries; allowed: an entry for"),
        ({"all-reduce-implementation": ["ring", 1, "ring"]}, "all-reduce-implementation: is not a list of names"),
        (
            {"all-reduce-implementation": ["ring", "ring"]},
            "2 algorithms for 3 dimensions; allowed: one name, or 3 names",
        ),
        (
            {"all-reduce-implementation": ["ring"]},
            "1 algorithm for 3 dimensions: the others would take no part in all-r",
        ),
        (
            {"all-reduce-implementation": ["ring", "direct0", "ring"]},
            "all-reduce-implementation: invalid number in 'direct0'",
        ),
        ({"roofline-enabled": 1}, "peak-perf: is 0, but roofline-enabled needs it; allowed: a number above 0"),
        ({"roofline-enabled": "no"}, "roofline-enabled: 'no' is not allowed; allowed: 0, 1"),
        ({"model-shared-bus": "1"}, "model-shared-bus: '1' is not allowed; allowed: 0, 1"),
        ({"peak-perf": "900"}, "peak-perf: '900' is not allowed"),
        ({"all-reduce-implementation-custom": ["a", "b"]}, "2 prefixes; allowed: a list with one"),
        ({"num-queues": 2}, "num-queues: unknown key; allowed: "),
    ],
)
def test_faults(write_object: WriteJson, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        system_tables(write_object(SYSTEM_2 | changes), 3)
    assert all("file.json" in line for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "file.json:1: is no JSON: expecting value; allowed: a JSON object"),
        ('{"a": 1,\n "b" 2}', "file.json:2: is no JSON: expecting ':' delimiter"),
        ("[1, 2]", "file.json: is no JSON object"),
        ("7", "file.json: is no JSON object"),
        ('{"a": NaN}', "file.json: is no JSON that makes sense: NaN is no number"),
        ('{"a": 1e999999}', "is no JSON that makes sense: the number 1e999999"),
        ("[" * 100_000, "file.json: is no JSON that makes sense"),
        ('{"endpoint-delay": 1,\n "endpoint-delay": 2}', "file.json:2: endpoint-delay: is given twice"),
        ('{"local-mem-bw": {"a": 1}}', "file.json:1: local-mem-bw: .* is not allowed"),
    ],
)
def test_what_is_no_json(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=told):
        system_tables(path)


def test_algorithms_have_to_exist_where_they_are_used(write_object: WriteJson) -> None:
    path = write_object(SYSTEM_2 | {"all-to-all-implementation": ["rinng", "ring", "ring"]})
    assert system_tables(path, 3, {"all-reduce"})["all_to_all"]
    told = r"file.json:10: all-to-all-implementation: .*rinng'; allowed: ring, direct, halvingDoubling, .* mean 'ring'"
    with pytest.raises(InputError, match=told):
        system_tables(path, 3, {"all-to-all"})


@pytest.mark.parametrize("value", ["ring", []])
def test_what_is_no_list_is_told_once(write_object: WriteJson, value: object) -> None:
    with pytest.raises(InputError) as caught:
        system_tables(write_object(SYSTEM_2 | {"all-reduce-implementation": value}), 3)
    assert str(caught.value).count("\n") == 0
