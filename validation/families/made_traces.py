"""Synthesized traces against held-out ones of the same class: their statistics, and the time that they take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pyxsim.analysis.statistics import student_t
from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import Communicator
from pyxsim.runner.lifecycle import run
from pyxsim.study.generate import generate
from pyxsim.workload.export import export
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.making.distance import STATISTICS, distances
from pyxsim.workload.making.expand import expand
from pyxsim.workload.making.learn import learn
from pyxsim.workload.making.sources import CLOCK, Source, read_all, read_one
from pyxsim.workload.making.synthesize import synthesize
from validation.case import Case, Found, Outcome, Picture, Series, must
from validation.reference import TREE

SEEDS = 20  # synthesized traces of a model
NOISE = 0.1  # standard deviation of the logarithm of a compute time, from step to step
SLOWER = 0.03  # that of the factor of a rank
MODEL = """kind = "transformer"
help = "drawn"
source = "drawn"
layers = {layers}
hidden = {hidden}
heads = 16
ffn = {ffn}
vocabulary = 32000
sequence = {sequence}
"""
NETWORK = {"topology": "switch", "bandwidth": "50 GB/s", "latency": "500 ns"}
Split = tuple[list[Source], list[Source]]  # learned, held out


def without_dims(source: Source) -> Source:
    """The same job with lists of ranks instead of dimensions, as synthesized traces have them."""
    calls = [
        call
        if call.dims is None
        else replace(
            call, dims=None, groups=tuple(group.members for group in Communicator.along(call.dims, source.shape))
        )
        for call in source.graph.calls
    ]
    return Source(source.name, replace(source.graph, calls=calls), (source.graph.npus,))


def time_of(graph: TaskGraph) -> float:
    """The simulated nanoseconds of a graph on a switch."""
    with TemporaryDirectory() as folder:
        written = export(graph, Path(folder, "step"), (), CLOCK)
        workload: dict[str, Any] = {"file": str(Path(folder, "step"))}
        if written.groups is not None:
            workload["groups"] = str(written.groups)
        tables = {"network": {**NETWORK, "shape": [graph.npus]}, "workload": workload}
        return float(run(tables, backend="analytical").time_ns)


def generated(tables: dict[str, Any], model: str | None = None) -> Source:
    """The traces of a model that `pyxsim workload generate` writes."""
    with TemporaryDirectory() as folder:
        if model is not None:
            Path(folder, "model.toml").write_text(model, encoding="utf-8")
            tables = {**tables, "workload": {**tables["workload"], "model": str(Path(folder, "model.toml"))}}
        generate(tables, Path(folder, "step.*.et"))
        return without_dims(read_all(str(Path(folder, "step.*.et"))))


def noisy(source: Source, seed: int) -> Source:
    """Another step of a job: each rank is a little slower or faster, and each computation."""
    random = np.random.default_rng(seed)
    graph = source.graph
    factors = np.exp(random.normal(0, SLOWER, graph.npus)[graph.npu] + random.normal(0, NOISE, len(graph)))
    ticks: IntArray = np.where(graph.kind == Kind.COMPUTE, np.round(graph.ticks * factors), graph.ticks).astype(
        np.int64
    )
    return replace(source, graph=replace(graph, ticks=ticks))


def experiment(shape: Sequence[int], parallelism: dict[str, Any], **workload: Any) -> dict[str, Any]:
    """An experiment that trains a model."""
    return {
        "network": {"topology": "torus", "shape": list(shape), "bandwidth": "50 GB/s", "latency": "500 ns"},
        "system": {"npu": {"device": "a100-80gb"}},
        "workload": {**workload, "parallelism": parallelism},
    }


def steps(job: Callable[[], Source]) -> Split:
    """Learn four steps of a job; two others are held out."""
    whole = job()
    made = [noisy(whole, seed) for seed in range(6)]
    return made[:4], made[4:]


def dense() -> Source:
    return generated(experiment((2, 8), {"tensor": 2, "data": 8}, batch=64), drawn_model(Random(1)))


def pipeline() -> Source:
    tables = experiment((2, 2, 4), {"tensor": 2, "data": 2, "pipeline": 4}, batch=64, micro_batch=2)
    return generated(tables, drawn_model(Random(2)))


def experts() -> Source:
    tables = experiment((8, 2), {"data": 16, "expert": 8, "zero": 1}, model="mixtral-8x7b", batch=16)
    return generated({**tables, "run": {"allow_oom": True}})


def recommendation() -> Source:
    return generated(experiment((4, 4), {"data": 16}, model="dlrm", batch=8192))


def drawn_model(random: Random) -> str:
    hidden = random.choice((1024, 1536, 2048))
    sequence = random.choice((1024, 2048))
    return MODEL.format(layers=random.randint(8, 20), hidden=hidden, ffn=4 * hidden, sequence=sequence)


def jobs() -> Split:
    """Learn twelve jobs of drawn sizes, with tensor and data parallelism; eight others are held out."""
    random = Random(3)
    made = []
    for _ in range(20):
        model, batch = drawn_model(random), 8 * random.randint(2, 8)
        made.append(generated(experiment((2, 8), {"tensor": 2, "data": 8}, batch=batch), model))
    return made[:12], made[12:]


def recorded() -> Split:
    """Learn rank 0 of the recorded step of PyTorch, as two ranks; rank 1 is held out."""
    sources = []
    for rank in (0, 1):
        one = read_one(str(TREE / "inputs" / "pytorch" / "step.*.kineto.json.gz"), rank)
        sources.append(Source(f"rank {rank}", expand([one], 2).graph, (2,)))
    return sources[:1], sources[1:]


@dataclass(frozen=True)
class Error:
    """The mean error of the simulated time in percent, half of its 95 % interval, and all errors."""

    mean: float
    half: float
    each: list[float]


def compared(split: Callable[[], Split]) -> Found:
    """Draw traces of a model, and compare them with held-out ones."""
    learned, held_out = split()
    model = learn(learned)
    drawn = [synthesize(model, held_out[0].graph.npus, seed) for seed in range(SEEDS)]
    wanted = [time_of(source.graph) for source in held_out]
    found = [time_of(one.graph) for one in drawn]
    must(all(math.isfinite(time) and time > 0 for time in found), "a synthesized trace takes no time")
    error = _error(found, wanted)
    apart = distances(held_out, [Source("", one.graph, (one.graph.npus,)) for one in drawn])
    cells = {
        "learned": str(len(learned)),
        "held out": str(len(held_out)),
        "time error": f"{error.mean:+.1f} ± {error.half:.1f} %",
        **{name: f"{apart[name]:.3f}" for name in ("mix", *STATISTICS)},
    }
    picture = Picture(
        "trace",
        "simulated ms",
        [
            Series("held out", list(range(len(wanted))), [time / 1e6 for time in sorted(wanted)], "points"),
            Series("synthesized", list(range(len(found))), [time / 1e6 for time in sorted(found)], "line"),
        ],
    )
    return Found(abs(error.mean), picture, cells)


def _error(found: Sequence[float], wanted: Sequence[float]) -> Error:
    mean = sum(wanted) / len(wanted)
    each = [100 * (time / mean - 1) for time in found]
    spread = float(np.std(each, ddof=1))
    return Error(float(np.mean(each)), student_t(len(each) - 1) * spread / math.sqrt(len(each)), each)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The rows of the table in docs/making_traces.md."""
    columns = ("learned", "held out", "time error", "mix", *STATISTICS)
    mine = [outcome for outcome in outcomes if outcome.family == FAMILY[0]]
    return [
        f"| `{outcome.name.partition('/')[2]}` | {' | '.join(outcome.cells[column] for column in columns)} |"
        for outcome in mine
    ]


def cases() -> Iterator[Case]:
    claim = "Synthesized traces take as long as held-out ones of the same class, on average over 20 seeds"
    source = "held-out traces"
    of_steps = f"{claim}: steps of one job with compute times that vary by 10 %"
    for job in (dense, pipeline, experts, recommendation):
        yield Case(f"made-traces/{job.__name__}", of_steps, source, 10, "%", partial(compared, partial(steps, job)), 30)
    yield Case("made-traces/jobs", f"{claim}: jobs of drawn sizes", source, 30, "%", partial(compared, jobs), 60)
    of_ranks = f"{claim}: a recorded step of PyTorch, of another rank"
    yield Case("made-traces/pytorch", of_ranks, source, 10, "%", partial(compared, recorded), 10)


FAMILY = (
    "made-traces",
    "Synthesized traces",
    ("learned", "held out", "time error", "mix", *STATISTICS),
    cases,
)
