"""Models of traces: what is learned, written, read and drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.workload.export import export
from pyxsim.workload.graph import Call, GraphBuilder, Kind, check
from pyxsim.workload.making.chain import Balance
from pyxsim.workload.making.distance import distances, kolmogorov_smirnov
from pyxsim.workload.making.layout import Layout, Span
from pyxsim.workload.making.learn import learn, observe
from pyxsim.workload.making.model import KINDS, LANES, STAGES, Family, Model, read_model, write_model
from pyxsim.workload.making.sources import CLOCK, Source, read_all
from pyxsim.workload.making.synthesize import Synthesized, synthesize
from tests.examples import part_of
from tests.workload.making.symmetric_jobs import Step, job, layouts, pipeline, step_lists
from tests.workload.making.test_expand import STEP, faults, plain
from validation.fuzz.formats import mutated


def source_of(graph: Any) -> Source:
    return Source("", graph, (graph.npus,))


def written(drawn: Synthesized, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    export(drawn.graph, folder / "s", (), CLOCK)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def pipelined(tmp_path_factory: pytest.TempPathFactory) -> Source:
    whole = pipeline(tmp_path_factory.mktemp("pipeline"))
    return Source("p", replace(whole.graph, calls=plain(whole)), (whole.graph.npus,))


@given(layouts(), step_lists(), st.integers(0, 3), st.integers(0, 9), st.sampled_from((1, 2)))
@settings(max_examples=part_of(200), deadline=None)
def test_what_is_drawn_can_be_carried_out(layout: Layout, steps: list[Step], order: int, seed: int, more: int) -> None:
    """No circles, no missing partners, no faults that `pyxsim workload check` finds; and it comes to an end."""
    source = source_of(job(layout, steps))
    drawn = synthesize(learn([source], order), more * layout.ranks, seed)
    check(drawn.graph)
    assert drawn.graph.npus == more * layout.ranks
    with TemporaryDirectory() as folder:
        target = str(Path(folder, "s"))
        export(drawn.graph, target, (), CLOCK)
        assert faults(target) == []
        groups = {"groups": f"{target}.groups.json"} if Path(f"{target}.groups.json").exists() else {}
        network = {"topology": "switch", "shape": [drawn.graph.npus]}
        result = run({"network": network, "workload": {"file": target, **groups}}, backend="analytical")
        assert result.complete


@given(layouts(), step_lists(), st.integers(0, 4))
@settings(max_examples=part_of(200), deadline=None)
def test_a_model_is_read_as_it_was_written(layout: Layout, steps: list[Step], order: int) -> None:
    model = learn([source_of(job(layout, steps))], order)
    with TemporaryDirectory() as folder:
        write_model(model, f"{folder}/m.json")
        assert read_model(f"{folder}/m.json") == model


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_writes_the_same_bytes(tmp_path: Path, pipelined: Source, seed: int) -> None:
    model = learn([pipelined, pipelined])
    first = written(synthesize(model, 24, seed), tmp_path / "a")
    assert written(synthesize(model, 24, seed), tmp_path / "b") == first
    assert written(synthesize(model, 24, seed + 1), tmp_path / "c") != first


def test_one_job_in_full_order_comes_back(pipelined: Source) -> None:
    """With long contexts, all statistics of a single job are kept."""
    drawn = synthesize(learn([pipelined], 8), None, 3)
    assert drawn.layout == observe(pipelined).layout
    found = distances([pipelined], [source_of(drawn.graph)])
    assert found.keys() == {"mix", "times", "bytes", "waits", "reach", "runs"}
    assert max(found.values()) <= 0.05, found
    busy = [np.where(graph.kind == Kind.COMPUTE, graph.ticks, 0).sum() for graph in (pipelined.graph, drawn.graph)]
    # The mean of a task is that of the job; the number of tasks may differ by those of a few receives.
    assert abs(busy[1] / busy[0] - 1) < 0.03


def test_the_recorded_step_comes_back() -> None:
    source = read_all(STEP)
    drawn = [source_of(synthesize(learn([source]), None, seed).graph) for seed in range(4)]
    found = distances([source], drawn)
    assert found.pop("bytes") <= 1 / 8  # of eight collectives, one may have the size of the other
    assert max(found.values()) <= 0.05, found


def test_imbalance_is_kept() -> None:
    """A rank that takes twice the time of the other three."""
    builder, ranks = GraphBuilder(4), np.arange(4)
    last: list[Any] = []
    for _ in range(40):
        last = [builder.tasks(ranks, Kind.COMPUTE, ticks=np.where(ranks == 2, 2000, 1000), before=last)]
        call = builder.call(Call("all-reduce", 1000))
        last = [builder.tasks(ranks, Kind.COLLECTIVE, call=call, before=last)]
    graph = builder.graph()
    drawn = synthesize(learn([source_of(graph)]), 4, 1).graph
    busy = sorted(np.bincount(drawn.npu, weights=drawn.ticks).tolist())
    assert busy[3] / busy[0] == pytest.approx(2, rel=0.01)
    assert sum(busy) == pytest.approx(40 * 5000, rel=0.01)


def test_no_name_is_in_a_model(tmp_path: Path, pipelined: Source) -> None:
    """Every word of the file is one of a fixed list."""
    named = replace(pipelined.graph, names=[f"secret {name}" for name in pipelined.graph.names], layers=[])
    named.layer = np.full(len(named), -1, np.int32)
    resources = tuple((f"hidden {name}", room) for name, room in named.resources)
    source = replace(pipelined, graph=replace(named, resources=resources))
    write_model(learn([source]), str(tmp_path / "m.json"))
    data = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    words = set(re.findall(r'"([^"]*)"', json.dumps([data["traces"], data["families"], data["symbols"]])))
    fields = {*vars(learn([source]).traces[0]), *vars(Family("mark")), "family", "values", "waits"}
    kinds = {"all-reduce", *KINDS, *LANES, *STAGES, *(f"lane {number}" for number in range(3)), ""}
    assert words <= fields | kinds
    drawn = synthesize(read_model(str(tmp_path / "m.json"))).graph
    assert not any("secret" in name for name in drawn.names)


def of_kind(data: dict[str, Any], kind: str) -> dict[str, Any]:
    """The first family of a kind."""
    return next(family for family in data["families"] if family["kind"] == kind)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data.update(format="x"), "format: is not a model of traces"),
        (lambda data: data.update(version=2), "version: is version 2; allowed: 1"),
        (lambda data: data.pop("symbols"), "model.symbols: is missing"),
        (lambda data: data.update(symbol=1), "model.symbol: is unknown"),
        (lambda data: data.update(order=9), "order: is 9; allowed: a whole number from 0 to 8"),
        (lambda data: data["traces"][0].update(stages=0), "traces[0].stages: is 0; allowed: a whole number from 1 to"),
        (
            lambda data: data["traces"][0].update(time=-1.0),
            "traces[0].time: is -1.0; allowed: a number from 0 to 1e+18",
        ),
        (lambda data: data["traces"][0].update(tasks=[]), "traces[0].tasks: is []; allowed: a list of 3 to 3 values"),
        (lambda data: data["families"][0].update(kind="computer"), "did you mean 'compute'?"),
        (
            lambda data: of_kind(data, "collective").update(where=[7, 7, "own"]),
            "].where[0]: is 7; allowed: a whole number from 0 to 2",
        ),
        (
            lambda data: of_kind(data, "collective").update(where=[1, 2, "own"]),
            "].where[1]: is 2; allowed: a whole number from 0 to 1",
        ),
        (
            lambda data: of_kind(data, "send").update(where=[2, 1]),
            "].where[0]: is 2; allowed: a whole number from -1 to 1",
        ),
        (
            lambda data: of_kind(data, "send").update(where=[-1, 3]),
            "].where[1]: is 3; allowed: a whole number from -2 to 2",
        ),
        (lambda data: data["symbols"][0].update(family=99), "symbols[0].family: is 99; allowed: a whole number from 0"),
        (
            lambda data: data["symbols"][0].update(values=[2, 1]),
            "symbols[0].values: is [2, 1]; allowed: numbers in asc",
        ),
        (lambda data: data["transitions"][0][6].append([0, 0]), "][1]: is 0; allowed: a whole number from 1 to"),
        (lambda data: data["transitions"].append([]), "]: is []; allowed: a list of 7 to 7 values"),
    ],
)
def test_faults_of_a_model(
    tmp_path: Path, pipelined: Source, change: Callable[[dict[str, Any]], object], text: str
) -> None:
    file = tmp_path / "m.json"
    write_model(learn([pipelined]), str(file))
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_model(str(file))
    lines = str(error.value).splitlines()
    assert lines[0].startswith(f"{file}: ")
    assert text in lines[0]


@pytest.mark.parametrize("start", range(0, part_of(600), 60))
def test_damaged_models(tmp_path: Path, start: int) -> None:
    """A damaged model is refused, or still is a model from which traces can be drawn."""
    steps = [
        Step("compute", 5, Span(0, 1), ()),
        Step("ring", 9, Span(0, 1), (0,)),
        Step("all-reduce", 64, Span(1, 2), (1,)),
        Step("broadcast", 64, Span(0, 2), (0, 2)),
    ]
    file = tmp_path / "m.json"
    write_model(learn([source_of(job(Layout((2, 2)), steps))], 2), str(file))
    source = file.read_bytes()
    for number in range(start, start + 60):
        file.write_bytes(mutated(Random(number), file.name, source))
        with suppress(InputError):
            model = read_model(str(file))
            if max(max(each.tasks) for each in model.traces) < 1000:
                check(synthesize(model, None, 1).graph)


def test_ranks_that_fit_no_layout(pipelined: Source) -> None:
    with pytest.raises(InputError) as error:
        synthesize(learn([pipelined]), 10)
    assert str(error.value).startswith("npus: 10 ranks divide into no layout of a learned job; allowed: multiples of 6")


def test_irregular_messages_are_refused() -> None:
    """To ranks 1 and 2: apart by 1, but 3 ranks are no pipeline in which a rank sends to the stage after the next."""
    builder = GraphBuilder(6)
    for src, dst in ((0, 3), (3, 0), (0, 1), (1, 0)):
        builder.task(src, Kind.SEND, size=1, peer=dst)
        builder.task(dst, Kind.RECEIVE, size=1, peer=src)
    with pytest.raises(InputError, match="has a rank without tasks"):
        learn([Source("x", builder.graph(), (6,))])
    with pytest.raises(InputError, match="messages go to ranks 2 apart, which divide 5 ranks into no stages"):
        learn([Source("x", replace(messages(2).graph, npus=5), (5,))])


def messages(apart: int) -> Source:
    builder = GraphBuilder(apart + 1)
    builder.task(0, Kind.SEND, size=1, peer=apart)
    builder.task(apart, Kind.RECEIVE, size=1, peer=0)
    return source_of(builder.graph())


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 2], [3, 4], 1),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),  # at 2: 2 of 4 and none
        ([], [1], 1),
        ([], [], 0),
        ([1, 1, 1, 5], [1, 5], 0.25),
    ],
)
def test_kolmogorov_smirnov(one: list[float], other: list[float], distance: float) -> None:
    assert kolmogorov_smirnov(one, other) == distance


def test_micro_batches_in_flight() -> None:
    """What a stage exchanges with later stages counts; of the last one, with earlier stages."""
    ends = [("send", 1), ("receive", -1), ("receive", 1), ("send", -1)]
    for stage, wanted in ((0, [1, 0, 0, 0]), (1, [0, 0, 1, 0])):
        balance = Balance(stage, 2, forward=1)
        found = []
        for kind, by in ends:
            balance.add(Family(kind, "", (-1, by)))
            found.append(balance.count)
        assert found == wanted


def test_a_model_says_what_it_keeps(tmp_path: Path, pipelined: Source) -> None:
    write_model(learn([pipelined]), str(tmp_path / "m.json"))
    keeps = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["keeps"]
    assert any("times of computations" in text for text in keeps)
    assert isinstance(read_model(str(tmp_path / "m.json")), Model)
