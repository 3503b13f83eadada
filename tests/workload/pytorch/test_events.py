"""Traces of PyTorch are read as the slow reader reads them, whole or in pieces; what is no JSON is found out."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.pytorch import graph_of
from pyxsim.workload.pytorch.events import Events, NotJson
from tests.examples import part_of
from tests.workload.pytorch.slow_pytorch import slow_graph_of

NAMES = {
    "cpu_op": ["aten::mm", "", "c10d::allreduce_", "nccl:all_reduce", "wait in aten::mm", "pause"],
    "cuda_runtime": ["cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMemcpy", "cudaMemcpyAsync"],
    "cuda_driver": ["cuLaunchKernel", "c10d::x"],
    "kernel": ["gemm", "ncclDevKernel_AllReduce_Sum", "ncclDevKernel_SendRecv"],
    "gpu_memcpy": ["Memcpy HtoD"],
    "user_annotation": ["gloo:all_reduce", "gloo:barrier", "gloo:send", "Optimizer.step"],
    "python_function": ["step"],
}
SIZES = {"Input Dims": [[4]], "Input type": ["float"]}
NCCL = {"In msg nelems": 4, "Out msg nelems": 4, "dtype": "Float"}
ARGS = [
    {},
    SIZES,
    SIZES | {"Record function id": 3},
    SIZES | {"Record function id": 1, "Concrete Inputs": ["", "", "1", "3"]},
    NCCL | {"Collective name": "allreduce"},
    NCCL | {"Collective name": "send", "Dst Rank": 1},
    NCCL | {"Collective name": "allreduce", "Process Group Ranks": "[0, 1]"},
    None,
    [1],
]
FAULTS = [-1, "x", True, None, [], 1e30, float("nan"), 2**70]


@st.composite
def drawn_events(draw: st.DrawFn) -> dict[str, Any]:
    """An event; of one in many, a number or a key is unusual."""
    kind = draw(st.sampled_from(list(NAMES)))
    args = draw(st.sampled_from(ARGS))
    if isinstance(args, dict) and draw(st.booleans()):
        numbers = st.sampled_from([0, 1, 2, -1, 2**63, 1.0, "1", True, None])
        args = args | {key: draw(numbers) for key in ("correlation", "device", "stream")}
    event = {
        "ph": draw(st.sampled_from("XXXXXXi")),
        "cat": kind,
        "name": draw(st.sampled_from(NAMES[kind])),
        "pid": draw(st.sampled_from([1, 1, 1, "1", 2])),
        "tid": draw(st.sampled_from([1, 2, 3])),
        "ts": draw(st.integers(0, 40)) / draw(st.sampled_from([1, 1, 3, 1000])),
        "dur": draw(st.integers(0, 9)),
        "args": args,
    }
    if draw(st.integers(0, 60)) == 0:
        event[draw(st.sampled_from(["ts", "dur"]))] = draw(st.sampled_from(FAULTS))
    if draw(st.integers(0, 60)) == 0:
        del event[draw(st.sampled_from(list(event)))]
    return event


def told(call: Any) -> TaskGraph | str:
    """What a reader returns, or the line that refuses the file."""
    try:
        graph: TaskGraph = call()
    except InputError as error:
        return str(error)
    return graph


@settings(max_examples=part_of(1000), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_the_graph_of_the_slow_reader(tmp_path: Path, data: st.DataObject) -> None:
    """Each array of the graph, and each refusal, whatever overlaps."""
    ranks, earlier = data.draw(st.integers(1, 2)), []
    for rank in range(ranks):
        events = data.draw(st.lists(drawn_events(), max_size=20))
        if rank and data.draw(st.booleans()):
            events = earlier  # collectives match
        earlier = events
        head = {"rank": rank, "world_size": ranks}
        root = {"distributedInfo": head, "schemaVersion": 1, "traceEvents": [*events, 3, None], "traceName": "x"}
        indent = data.draw(st.sampled_from([None, 1]))
        (tmp_path / f"t.{rank}.kineto.json").write_text(json.dumps(root, indent=indent))
    name = str(tmp_path / "t.*.kineto.json") if ranks > 1 else str(tmp_path / "t.0.kineto.json")
    scales = data.draw(st.sampled_from([(10**9, 1, 1), (10**9 + 7, 3, 2), (10**6, 1, 1)]))
    found, expected = (told(lambda way=way: way(name, 2, *map(Fraction, scales))) for way in (graph_of, slow_graph_of))
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    assert_equal(found, expected)


def assert_equal(found: TaskGraph, expected: TaskGraph) -> None:
    for each in dataclasses.fields(TaskGraph):
        one, other = getattr(found, each.name), getattr(expected, each.name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, each.name
            assert one.tolist() == other.tolist(), each.name
        else:
            assert one == other, each.name


def test_the_sample_of_the_slow_reader(tree: Path) -> None:
    name = str(tree / "inputs" / "pytorch" / "step.*.kineto.json.gz")
    assert_equal(graph_of(name, 2), slow_graph_of(name, 2))


TEXT = """{"a": [1, -2.5e+3, "\\u00e9\\n", {"b": null}], "distributedInfo": {"rank": 0, "world_size": 1},
 "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 12.345, "dur": 0.5, "args": {"x": [[]]}},
  {"ph": "s", "id": 1},
  {"ph": "X", "cat": "kernel", "name": "nccl \\"é\\"", "ts": 13, "dur": 2e0, "args": {"stream": 7, "correlation": 1}}
 ], "z": [true, false, NaN, -Infinity, {}]}
"""


def columns(events: Events) -> list[Any]:
    return [*(each.tolist() for each in events.columns()), events.names, events.args, events.head, events.listed]


def fed(raw: bytes, cuts: list[int]) -> list[Any]:
    events, held = Events("t"), b""
    for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        text = held + raw[begin:end]
        held = text[events.feed(text, False) :]
    assert not held[events.feed(held, True) :]
    return columns(events)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_pieces(size: int) -> None:
    """It does not matter where a file is cut."""
    raw = TEXT.encode()
    whole = fed(raw, [])
    assert whole[0] == [12345, 13000]
    assert whole[1] == [12845, 15000]
    assert whole[6] == ["aten::mm", 'nccl "é"']
    assert fed(raw, list(range(size, len(raw), size))) == whole


PARTS = [*'{}[],:"-.e0 ', "\\", "\\u12", "E+", "tru", "true", "NaN", "Infinity", "\x00", "\n", "\x1f", "9"]


@settings(max_examples=part_of(5000), deadline=None)
@given(st.data())
def test_what_is_json(data: st.DataObject) -> None:
    """It accepts the texts that Python's json accepts, and no others, whole and in pieces."""
    text = TEXT
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.sampled_from([0, 0, 1, 1, 2, 9]))
        text = text[:at] + data.draw(st.sampled_from(["", *PARTS])) + text[at + gone :]
    raw = text.encode()
    try:
        json.loads(raw)
        good = True
    except ValueError:
        good = False
    for cuts in ([], sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=3)))):
        # A fault of the trace may be reported before one of the text behind it.
        assert is_json(raw, cuts) in (good, None)


def is_json(raw: bytes, cuts: list[int]) -> bool | None:
    """Whether a text is taken for JSON; None if it is refused for something else."""
    try:
        fed(raw, cuts)
    except NotJson:
        return False
    except InputError as error:
        return False if "is not JSON" in str(error) else None
    return True


def test_where_it_is_no_json(tmp_path: Path) -> None:
    """The place is that of Python's json."""
    file = tmp_path / "t.0.kineto.json"
    for text in ('{"traceEvents": [\n{"ts": 01}]}', '{\n\n"a": [1 2]}', '{"traceEvents": []} x', "x", '{"a": "\n"}'):
        file.write_text(text)
        with pytest.raises(json.JSONDecodeError) as known:
            json.loads(text)
        with pytest.raises(InputError) as caught:
            graph_of(str(file), 1)
        assert f"is not JSON: {known.value}" in str(caught.value)


def test_what_is_too_deep_or_too_large(tmp_path: Path) -> None:
    file = tmp_path / "t.0.kineto.json"
    file.write_text('{"traceEvents": [{"args": ' + "[" * 501)
    with pytest.raises(InputError, match="is not JSON: nested too deeply"):
        graph_of(str(file), 1)
    file.write_text('{"traceEvents": [{"name": "' + "x" * (1 << 25) + '"}]}')
    with pytest.raises(InputError, match="has an event that is too large; allowed: at most 16777216 bytes"):
        graph_of(str(file), 1)
