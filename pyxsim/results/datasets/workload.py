"""Tasks, layers and NPUs of a workload."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.dataset import Column, Dataset, add, add_rows, has_rows, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result
from pyxsim.results.work import ACTIVITIES, LAYER_PARTS, NAMES, NPUS, PATH, REASONS, TASKS, TIMELINE, Work

WITH_GRAPH = "with a workload other than a MICRO text"
WITH_WORKLOAD = "with a workload"
PARTS = {
    "fwd": "forward pass",
    "wg": "weight gradient",
    "ig": "input gradient",
    "update": "parameter update",
    "other": "rest",
}
TIMES = {"compute": "computation of the", "comm": "communication of the", "exposed": "exposed communication of the"}

add(
    Dataset(
        "layers",
        "One row per layer.",
        (
            Column("name", "", "name of the layer", "text"),
            Column("npus", "1", "number of NPUs that have tasks of the layer", optional=True),
            *(
                Column(f"{part}_{time}", "cycles", f"{words} {what}", "number", optional=True)
                for time, words in TIMES.items()
                for part, what in PARTS.items()
            ),
            Column("memory", "cycles", "total time of memory accesses", "float64", optional=True),
            Column(
                "exposed_most",
                "cycles",
                "longest exposed communication of an NPU, summed over all parts",
                optional=True,
            ),
            Column("exposed_npu", "1", "NPU with the longest exposed communication; -1: none", optional=True),
            Column(
                "finished", "cycles", "end of the layer; in a text of ASTRA-sim 1, of the whole workload", optional=True
            ),
        ),
        lambda result: result.layers,
        ("layer",),
        when=WITH_WORKLOAD,
        present=lambda result: has_rows(result.layers),
        restored="columns",
        json=True,
    )
)

WITH_MODEL = "with `[workload] model`"

add_rows(
    "training",
    "One row: the throughput of training a model. Times of a step are means over all passes.",
    (
        Column("model", "", "name of the model", "text"),
        Column("steps", "1", "number of training steps in the run"),
        Column("step", "seconds", "time of a training step", "float64"),
        Column("samples", "1", "samples per step, over all replicas"),
        Column("tokens", "1", "tokens per step; 0 for a model without tokens"),
        Column("model_flops", "1", "floating-point operations of the model per step, without recomputation", "float64"),
        Column("peak_flops", "1/second", "peak speed of an NPU", "float64"),
        Column("mfu", "1", "model FLOPs utilization: model_flops / (step x peak_flops x NPUs)", "float64"),
        Column("samples_per_s", "1/second", "samples per second of all NPUs", "float64"),
        Column("tokens_per_s", "1/second", "tokens per second of all NPUs", "float64"),
        Column("tokens_per_s_npu", "1/second", "tokens per second and NPU", "float64"),
        Column("memory", "bytes", "memory that an NPU of the stage with the largest footprint needs"),
        Column("capacity", "bytes", "memory capacity of an NPU; -1: unknown"),
    ),
    when=f"{WITH_MODEL}, in a complete run",
    coordinates=("model",),
)
add_rows(
    "footprint",
    "One row per pipeline stage and term of the memory footprint of its NPUs.",
    (
        Column("stage", "1", "pipeline stage"),
        Column("npus", "1", "number of NPUs of the stage"),
        Column("term", "", "term, as defined in docs/training.md", "text"),
        Column("bytes", "bytes", "bytes on each NPU of the stage"),
    ),
    when=WITH_MODEL,
    coordinates=("stage", "term"),
)

TASK = {
    column.name: column
    for column in (
        Column("npu", "1", "NPU", "int32"),
        Column("name", "1", "number of the name of the task, in task_name; -1: none", "int32", labels="task_name"),
        Column("kind", "1", "number of the kind of the task, in kind_name", "int16", labels="kind_name"),
        Column("layer", "1", "number of its layer, in layer_name; -1: none", "int32", labels="layer_name"),
        Column("part", "1", "number of the part of the layer, in part_name", "int8", labels="part_name"),
    )
}


def _labels(work: Work) -> dict[str, Sequence[str]]:
    """The texts of the codes in the rows of tasks."""
    return {**{name: getattr(work, of) for of, name in NAMES.items()}, "part_name": list(LAYER_PARTS.values())}


def _path(result: Result) -> dict[str, Any] | None:
    return None if result.work is None else {**result.work.path, **_labels(result.work), "why_name": REASONS}


def _path_attrs(result: Result) -> dict[str, Any]:
    record = {key: getattr(result.work, key) for key in ("totals", "by_kind", "steps", "left_out")}
    return {"record": json.dumps(record)}


add(
    Dataset(
        "npus",
        "One row per NPU: how it spent its time.",
        (
            Column("compute", "cycles", "it computes"),
            Column("memory", "cycles", "cycles in which the NPU accesses memory"),
            Column("communication", "cycles", "it communicates"),
            Column("exposed", "cycles", "cycles in which the NPU communicates and does not compute"),
            Column("busy", "cycles", "cycles in which a task of the NPU is active"),
            Column("idle", "cycles", "cycles in which no task of the NPU is active"),
            Column("finished", "cycles", "cycle in which the last task of the NPU ends"),
            Column("like", "1", "first NPU with the same activity at the same times"),
        ),
        lambda result: result.work and result.work.npus,
        ("npu",),
        when=WITH_GRAPH,
        present=lambda result: result.work,
    )
)
add(
    Dataset(
        "critical_path",
        "The steps of the critical path, without gaps from cycle 0 to the end.",
        (
            Column("task", "1", "number of the task; -1: time before the NPU starts"),
            *(TASK[name] for name in ("npu", "name", "layer", "part", "kind")),
            Column(
                "why",
                "1",
                "number of the reason why the step starts when the previous step ends, in why_name",
                "int8",
                labels="why_name",
            ),
            Column("begin", "cycles", "cycle in which the step begins"),
            Column("end", "cycles", "cycle in which the step ends"),
        ),
        _path,
        ("step",),
        when=WITH_GRAPH,
        present=lambda result: result.work,
        attributes={"record": "sums over all steps, as JSON"},
        attrs=_path_attrs,
    )
)
add(
    Dataset(
        "tasks",
        "One row per task.",
        (
            *TASK.values(),
            Column(
                "ready", "cycles", "cycle in which the last dependency of the task ends; -1: did not happen in this run"
            ),
            Column(
                "start",
                "cycles",
                "cycle in which the task obtains its resource and starts; -1: did not happen in this run",
            ),
            Column("end", "cycles", "cycle in which the task ends; -1: did not happen in this run"),
            Column("bytes", "bytes", "bytes of the message, collective or memory access"),
            Column("cause", "1", "task whose end made this task start; -1: none", "int32"),
            Column("critical", "1", "1 for a task on the critical path, else 0", "int8"),
        ),
        lambda result: result.work and {**result.work.tasks, **_labels(result.work)},
        ("task",),
        when="with a workload and `[output] tasks = true`",
        present=lambda result: result.work and has_rows(result.work.tasks),
        attributes={"left_out": "number of tasks beyond the first 2^20"},
        attrs=lambda result: {"left_out": result.work.left_out.get("tasks", 0)},
    )
)
add(
    Dataset(
        "timeline",
        "Intervals of activity of up to 32 NPUs, for plots.",
        (
            Column("npu", "1", "NPU", "int32"),
            Column("doing", "1", "number of the activity, in doing_name", "int8", labels="doing_name"),
            Column("begin", "cycles", "it begins"),
            Column("end", "cycles", "it ends"),
        ),
        lambda result: result.work and {**result.work.timeline, "doing_name": ACTIVITIES},
        when=WITH_GRAPH,
        present=lambda result: result.work,
    )
)
add(
    Dataset(
        "layer_phases",
        "Delays of the chunks of NPU 0: one row per layer and phase.",
        (
            Column("layer", "1", "number of the layer"),
            Column("name", "", "name of the layer", "text"),
            Column("phase", "1", "phase of the plan, counted from 1; 0: before the first phase"),
            Column("queueing", "cycles", "mean wait of a chunk", "float64"),
            Column(
                "network",
                "cycles",
                "mean time that the chunk waited for a message; NaN: before the first phase",
                "float64",
            ),
        ),
        lambda result: result.chunk_delays and result.chunk_delays.rows(),
        when=WITH_WORKLOAD,
        present=lambda result: result.chunk_delays,
        attributes={"layer_names": "names of all layers, as JSON"},
        attrs=lambda result: {"layer_names": json.dumps(result.chunk_delays.layer_names)},
    )
)


def _occupancy(result: Result) -> dict[str, Any] | None:
    delays = result.chunk_delays
    if delays is None:
        return None
    time = np.arange(len(delays.busy)) * delays.window
    return {"time": time, "busy": delays.busy, "chunk_time": delays.chunk_time}


add(
    Dataset(
        "occupancy",
        "How long chunks of NPU 0 occupied each dimension of the system layer, per time window.",
        (
            Column("time", "cycles", "start of the time window", dims=("time",)),
            Column("dimension", "1", "dimension of the system layer", "int32", ("dimension",)),
            Column("busy", "cycles", "cycles in which the dimension had a chunk"),
            Column("chunk_time", "cycles", "mean time of a chunk in the dimension", "float64", ("dimension",)),
        ),
        _occupancy,
        ("time", "dimension"),
        when=WITH_WORKLOAD,
        present=lambda result: result.chunk_delays,
        attributes={"window_cycles": "length of a window"},
        attrs=lambda result: {"window_cycles": result.chunk_delays.window},
    )
)


@restores
def restore_work(tables: StoredTables) -> dict[str, Any]:
    """The tasks of a workload."""
    if "npus" not in tables:
        return {}
    path = tables["critical_path"]
    work = Work(
        npus=tables["npus"].columns(NPUS),
        path=path.columns(PATH),
        tasks=tables["tasks"].columns(TASKS) if "tasks" in tables else {},
        timeline=tables["timeline"].columns(TIMELINE),
        **{of: path[name].tolist() for of, name in NAMES.items()},
        **json.loads(path.attrs["record"]),
    )
    return {"work": work}


@restores
def restore_delays(tables: StoredTables) -> dict[str, Any]:
    """The delays of the chunks of NPU 0."""
    if "occupancy" not in tables:
        return {}
    rows, occupancy = tables["layer_phases"], tables["occupancy"]
    delays = ChunkDelays.of_rows(
        json.loads(rows.attrs["layer_names"]),
        rows.columns(("layer", "queueing", "network")),
        occupancy["chunk_time"].tolist(),
        int(occupancy.attrs["window_cycles"]),
        occupancy["busy"],
        tables.clock_hz,
    )
    return {"chunk_delays": delays}
