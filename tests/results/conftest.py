"""Small results made by hand, whose every number can be checked on paper."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pyxsim.network.protocol import BackendTable
from pyxsim.network.windows import Windows
from pyxsim.results.attribution import BLAME, LATENCY, PARTS, STAYS, Attribution
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.links import LinkTable
from pyxsim.results.memory import Memory, used_columns
from pyxsim.results.result import Result
from pyxsim.results.work import Work
from pyxsim.workload.graph import Call, GraphBuilder, Kind, Part, TaskGraph
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.layer_table import layer_table
from pyxsim.workload.serving_record import ServingRecord
from pyxsim.workload.training_step import StageMemory, TrainingStep
from pyxsim.workload.usage import at_work

FLOW_COUNTERS = (
    "resent",
    "delivered",
    "marked",
    "trimmed",
    "dropped",
    "errors",
    "out_of_order",
    "duplicates",
    "timeouts",
)
WINDOW_COLUMNS = ("depth", "marked", "dropped", "trimmed", "errors", "pauses", "paused")
PORT_COLUMNS = ("bytes", "packets", *WINDOW_COLUMNS)
TREE_COLUMNS = ("cause", "root", "caused")
TOML = """\
[network]
topology = "ring"
shape = [2]
bandwidth = "100 GB/s"
[collective]
kind = "all-reduce"
size = "1 KiB"
"""


def make_links() -> LinkTable:
    """A ring of two NPUs, its four links; a flit takes 5/2 cycles on three of them and 1 on the last."""
    return LinkTable(
        name=["d0+:(0)->(1)", "d0-:(0)->(1)", "d0+:(1)->(0)", "d0-:(1)->(0) é"],
        src=np.array([0, 0, 1, 1]),
        dst=np.array([1, 1, 0, 0]),
        dim=np.zeros(4, dtype=np.int32),
        bandwidth=np.full(4, 1e11),
        latency=np.full(4, 500),
        s_num=np.array([5, 5, 5, 1]),
        s_den=np.array([2, 2, 2, 1]),
    )


def make_result(**changes: Any) -> Result:
    """Three windows of 100 cycles, the last one cut at cycle 250; a flit in nearly every window."""
    flits = np.array([[39, 1, 0, 10], [20, 0, 0, 20], [10, 2, 0, 30]], dtype=np.uint64)
    credit = np.array([[0, 7, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]], dtype=np.uint64)
    counts = {"flits": flits, "stall_credit": credit}
    columns = {
        "collective": [0, 0, 0, 0],
        "chunk": [0, 0, 0, 0],
        "phase": [0, 0, 1, 1],
        "rank": [0, 1, 0, 1],
        "dimension": [0, 0, 0, 0],
        "queue": [0, 0, 1, 1],
        "bytes": [1024, 1024, 512, 512],
        "ready": [0, 0, 100, 110],
        "start": [0, 0, 105, 120],
        "end": [100, 110, 250, 240],
        "messages": [1, 1, 1, 1],
        "network": [90, 95, 100, 105],
    }
    values: dict[str, Any] = {
        "time_cycles": 250,
        "clock_hz": Fraction(10**9),
        "complete": True,
        "links": make_links(),
        "windows": Windows(np.array([0, 100, 200]), 100, counts),
        "totals": {name: table.sum(axis=0).astype(np.int64) for name, table in counts.items()},
        "buffer_max": np.array([4, 1, 0, 32]),
        "chunks": {name: np.array(column, dtype=np.int64) for name, column in columns.items()},
        "collectives": [
            {"start": 0, "end": 250, "bytes": 1024, "lower_bound": 200.0, "ratio": 1.25, "kind": "all-reduce"},
        ],
        "point_to_point": [{"name": "hello", "src": 0, "dst": 1, "bytes": 8, "start": 5, "end": 25}],
        "dimensions": {
            "dimension": np.array([0, -1]),
            "bytes": np.array([1536, 0]),
            "occupancy": np.array([0.95, 0.0]),
            "occupancy_npu0": np.array([0.98, 0.0]),
            "queueing": np.array([3.75, np.nan]),
            "network": np.array([97.5, np.nan]),
        },
        "phases": {
            "collective": np.array([0, 0]),
            "phase": np.array([0, 1]),
            "kind": np.array(["reduce-scatter", "all-gather"], dtype=object),
            "dimension": np.array([0, 0]),
            "npus": np.array([2, 2]),
            "chunks": np.array([1, 1]),
            "start": np.array([0, 105]),
            "end": np.array([110, 250]),
            "time": np.array([105.0, 132.5]),
            "queueing": np.array([0.0, 7.5]),
            "network": np.array([92.5, 102.5]),
        },
        "counts": {
            "npus": 2,
            "messages": 4,
            "packets": 8,
            "flits": 132,
            "flit_hops": int(flits.sum()),
            "router_visits": 264,
            "bytes_delivered": 33792,
        },
        "lower_bound_ns": 200,
        "sim_cpu_s": 0.5,
        "total_cpu_s": 0.75,
        "peak_rss_mb": 42.5,
        "seed": 7,
        "experiment_toml": TOML,
        "warnings": ["latency rounded up: 0.5 ns is 1 cycle"],
    }
    return Result(**{**values, **changes})


LANES = ["injection lane of NPU 0", "injection lane of NPU 1", "ejection lane of NPU 0", "ejection lane of NPU 1"]
# message, src, dst, bytes, traffic, sent, arrived, and the parts
MESSAGES = [
    (0, 0, 1, 1024, 0, 0, 100, 5, 30, 50, 0, 10, 5, 0, 0, 0),
    (1, 1, 0, 1024, 0, 0, 80, 0, 30, 50, 0, 0, 0, 0, 0, 0),
    (3, 0, 1, 64, 1, 10, 100, 20, 0, 40, 5, 0, 0, 15, 10, 0),
]
# link, victim, culprit, cause, cycles, packets: each message is a packet
WAITS = [
    (4, 0, 1, 0, 5, 1),
    (4, 1, 0, 0, 20, 1),
    (4, 0, 0, 1, 30, 1),
    (5, 0, 0, 1, 30, 1),
    (0, 0, 0, 2, 50, 1),
    (2, 0, 0, 2, 50, 1),
    (0, 1, 1, 2, 40, 1),
    (0, 1, 0, 3, 5, 1),
    (0, 0, -1, 4, 10, 1),
    (7, 0, 1, 5, 5, 1),
    (0, 1, 0, 6, 15, 1),
    (7, 1, 0, 7, 10, 1),
]


def make_attribution(**changes: Any) -> Attribution:
    """Three messages of two traffics on the ring of `make_links`, of one packet each; message 2 is still under way."""
    latency = dict(zip(LATENCY, np.array(MESSAGES).T, strict=True))
    parts = np.zeros((2, len(PARTS)), np.int64)
    np.add.at(parts, latency["traffic"], np.stack([latency[part] for part in PARTS], axis=1))
    stays = [(row[0], 0, 0, *row[7:]) for row in MESSAGES]
    values: dict[str, Any] = {
        "traffic_names": ["gradients", "hot"],
        "link_names": [*make_links().name, *LANES],
        "messages": np.array([2, 1]),
        "parts": parts,
        "blame": dict(zip(BLAME, np.array(WAITS).T, strict=True)),
        "latency": latency,
        "stays": dict(zip(STAYS, np.array(stays).T, strict=True)),
    }
    return Attribution(**{**values, **changes})


def make_graph() -> tuple[TaskGraph, TaskTimes]:
    """Two NPUs compute layer 0, NPU 1 for longer, and add up its gradients; NPU 1 begins in cycle 20."""
    build = GraphBuilder(2, layers=["embedding é"])
    about: dict[str, Any] = {"layer": 0, "part": Part.WEIGHT_GRADIENT}
    sums = build.call(Call("all-reduce", 1024, name="gradients"))
    computed = build.tasks([0, 1], Kind.COMPUTE, "compute", ticks=[50, 80], resource="compute", **about)
    build.tasks([0, 1], Kind.COLLECTIVE, "gradients", call=sums, resource="communication", **about, before=[computed])
    build.task(0, Kind.MEMORY, "save", ticks=30, before=[2])
    start = np.array([0, 20, 50, 100, 220])
    nobody = np.full(5, -1, np.int32)
    end = np.array([50, 100, 220, 215, 250])
    cause = np.array([-1, -1, 0, 1, 2], np.int32)
    return build.graph(), TaskTimes(start.copy(), start, end, cause, nobody, np.array([-1, -1, 0, 0, -1], np.int32))


def make_work(*, tasks: bool = True) -> Work:
    """What became of `make_graph`."""
    graph, times = make_graph()
    return Work.of(graph, times, times.last, tasks=tasks)


def make_layers() -> dict[str, Any]:
    """Its layers."""
    graph, times = make_graph()
    return layer_table(graph, at_work(graph, times, times.last))


def make_training() -> dict[str, Any]:
    """The memory and throughput of a model's training on two stages."""
    stages = (StageMemory(0, 1, {"weights": 30, "optimizer": 60, "logits": 0}), StageMemory(1, 1, {"weights": 10}))
    step = TrainingStep("small", 2, 1, 4, 8, 6000, Fraction(10**9), stages, 100)
    return {"training": [step.throughput(Fraction(1, 10**3))], "footprint": step.memory_rows()}


def make_detail() -> ChunkDelays:
    """Its collective in two phases, on one dimension of two."""
    waits, network = [[0.0, 5.0, 2.5]], [[20.0, 30.0]]
    busy = np.array([[100, 0], [50, 0]])
    return ChunkDelays(["embedding é"], waits, network, [75.0, float("nan")], 100, busy, Fraction(10**9))


def make_memory() -> Memory:
    """A pool, and endpoints that share their memory."""
    columns = ("loaded", "stored", "read", "written", "compute", "engine", "busy")
    npus = {name: np.array([100 * number, 50]) for number, name in enumerate(columns)} | {"busy": np.array([200, 50])}
    used = used_columns(["pool", "link"], [Fraction(2), Fraction(0)], [500, 300], [200, 150], Fraction(10**9))
    return Memory(npus, used)


def make_backend_tables() -> dict[str, BackendTable]:
    """Two flows of the Ethernet backend, one of which did not end; the first link pauses in the second window."""
    rows = {name: np.array([1, 0]) for name in FLOW_COUNTERS} | {
        "message": np.arange(2),
        "traffic_class": np.ones(2, int),
        "victim_of": np.array([-1, 2]),
        "victim_time": np.array([0, 4]),
    }
    flows = {**rows, "src": [0, 1], "dst": [1, 0], "bytes": [4096, 9], "packets": [1, 1], "sent": [2, 1]}
    flows |= {"start": [1000, 2000], "end": [601_000, -1], "ideal": [200_000, 90_000]}
    links = {name: np.array([5, 0, 0, 0]) for name in PORT_COLUMNS}
    links |= {"cause": np.array([2, -1, -1, -1]), "root": np.array([2, -1, -1, -1]), "caused": np.array([0, 0, 5, 0])}
    windows = {name: np.array([[0] * 4, [5, 0, 0, 0], [0] * 4]) for name in WINDOW_COLUMNS}
    frames = {"time": [120_000, 150_000], "link": [0, 0], "pause": [1, 0]}
    samples = {"time": [100, 200, 200], "flow": [0, 0, 1], "window": [9000, 4500, 9000], "flight": [4096, 4096, 9]}
    samples |= {"rate": [4e10, 2e10, 4e10], "rtt": [0, 130_000, 0]}
    times = {"sending": [3, 2], "resending": [1, 0], "port": [5, 0], "pause": [0, 7], "window": [9, 0], "rate": [0, 0]}
    return {
        "flow_times": BackendTable({name: np.array(column) for name, column in times.items()}),
        "flow_windows": BackendTable(
            {name: np.array(column) for name, column in samples.items()}, {"window_cycles": 100}
        ),
        "flows": BackendTable({name: np.array(column) for name, column in flows.items()}, {"left_out": 0}),
        "ports": BackendTable(links),
        "port_windows": BackendTable({"time": np.array([0, 100, 200]), **windows}, {"window_cycles": 100}),
        "link_faults": BackendTable(
            {
                "errors": np.array([3, 0, 1, 0]),
                "flits_lost": np.array([0, 2, 0, 0]),
                "resent": np.array([40, 2, 9, 0]),
                "timeouts": np.array([1, 0, 0, 0]),
                "stall_replay": np.array([7, 0, 0, 0]),
                "replay_max": np.array([16, 16, 12, 0]),
                "replay_mean": np.array([4.5, 1.25, 1.0, 0.0]),
            }
        ),
        "link_fault_windows": BackendTable(
            {
                "time": np.array([0, 100, 200]),
                "errors": np.array([[3, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]),
                "flits_lost": np.array([[0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0]]),
                "resent": np.array([[40, 0, 0, 0], [0, 2, 9, 0], [0, 0, 0, 0]]),
                "timeouts": np.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
                "stall_replay": np.array([[7, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
                "replay_mean": np.array([[9.0, 1.5, 0.0, 0.0], [3.0, 1.0, 2.0, 0.0], [1.5, 1.25, 1.0, 0.0]]),
            },
            {"window_cycles": 100},
        ),
        "link_credits": BackendTable(
            {
                "messages": np.array([30, 0, 10, 0]),
                "riding": np.array([0, 5, 2, 0]),
                "resent": np.array([0, 1, 0, 0]),
                "returned": np.array([30, 10, 24, 0]),
                "lost": np.array([3, 0, 0, 0]),
                "restored": np.array([2, 0, 0, 0]),
                "credits_per_message": np.array([1.0, 2.0, 2.0, 0.0]),
                "share": np.array([0.0, 0.25, 0.0, 0.125]),
            }
        ),
        "link_credit_windows": BackendTable(
            {
                "time": np.array([0, 100, 200]),
                "messages": np.array([[10, 0, 10, 0], [10, 0, 0, 0], [10, 0, 0, 0]]),
                "riding": np.array([[0, 5, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
                "returned": np.array([[10, 10, 24, 0], [10, 0, 0, 0], [10, 0, 0, 0]]),
                "lost": np.array([[3, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
                "share": np.array([[0.0, 0.25, 0.0, 0.125], [0.0, 0.25, 0.0, 0.125], [0.0, 0.25, 0.0, 0.125]]),
            },
            {"window_cycles": 100},
        ),
        "vc_credits": BackendTable(
            {
                "vc": np.array([0, 1]),
                "messages": np.array([[20, 10], [5, 0], [6, 6], [0, 0]]),
                "returned": np.array([[20, 10], [10, 0], [12, 12], [0, 0]]),
                "lost": np.array([[3, 0], [0, 0], [0, 0], [0, 0]]),
                "restored": np.array([[2, 0], [0, 0], [0, 0], [0, 0]]),
                "without_credits": np.array([[40, 0], [0, 0], [7, 9], [0, 0]]),
            }
        ),
        "pfc_frames": BackendTable({name: np.array(column) for name, column in frames.items()}),
        **make_transactions(),
        "route_epochs": BackendTable(
            {
                "changed": np.array([0, 100]),
                "used": np.array([0, 150]),
                "links_down": np.array([0, 2]),
                "routing": np.array(["dimension-order", "up*/down*"], dtype=object),
                "transition": np.array(["start", "after draining"], dtype=object),
                "packets_rerouted": np.array([0, 3]),
                "packets_lost": np.array([0, 1]),
                "unreachable_pairs": np.array([0, 2]),
            }
        ),
        "route_weights": BackendTable(
            {
                "epoch": np.array([1, 1]),
                "link": np.array([0, 2]),
                "destination": np.array([3, 3]),
                "weight": np.array([0.25, 0.75]),
            }
        ),
    }


def make_transactions() -> dict[str, BackendTable]:
    """Two kinds of memory transactions."""
    rows: dict[str, Any] = {
        "kind": np.array(["load", "store to all"], dtype=object),
        "transactions": np.array([4, 2]),
        "ended": np.array([4, 1]),
        "data_bytes": np.array([512, 256]),
        "carried_bytes": np.array([512, 768]),
        "request_bytes": np.array([64, 816]),
        "response_bytes": np.array([576, 48]),
        "request_flits": np.array([4, 51]),
        "response_flits": np.array([36, 3]),
        "latency_mean": np.array([731.5, 800.0]),
        "outstanding_mean": np.array([0.5, 0.25]),
    }
    rows |= {f"latency_{name}": np.array([700, 800]) for name in ("min", "p50", "p95", "p99", "max")}
    packets: dict[str, Any] = {
        "type": np.array(["request", "response"], dtype=object),
        "sent": np.array([4, 4]),
        "arrived": np.array([4, 3]),
    }
    switch = {name: np.array([9]) for name in ("entries_max", "stalls", "stall_cycles", "waiting_max")}
    switch |= {"entries_mean": np.array([1.5]), "adder_busy": np.array([0.25])}
    return {
        "transactions": BackendTable(rows, {"outstanding_max": 4, "flit_bytes": 16}),
        "transaction_packets": BackendTable(packets),
        "switch_reduction": BackendTable(switch),
    }


def make_serving() -> ServingRecord:
    """Two requests that arrive in cycles 0 and 10; the second one finds no room in any cache."""
    unknown = float("nan")
    requests: dict[str, list[Any]] = {
        "arrival": [0, 10],
        "scheduled": [20, -1],
        "first_token": [120, -1],
        "last_token": [220, -1],
        "prompt": [16, 4096],
        "output": [2, 8],
        "generated": [2, 0],
        "instance": [0, -1],
        "decoder": [1, -1],
        "kv_sent": [120, -1],
        "kv_received": [150, -1],
        "preemptions": [0, 0],
        "ttft": [120e-9, unknown],
        "tpot": [100e-9, unknown],
        "end_to_end": [220e-9, unknown],
        "queueing": [20e-9, unknown],
        "kv_transfer": [30e-9, unknown],
        "longest_gap": [100e-9, unknown],
        "good": [1, 0],
    }
    iterations = {
        "instance": [0, 1],
        "begin": [20, 150],
        "end": [120, 220],
        "requests": [1, 1],
        "prompt_tokens": [16, 0],
        "outputs": [0, 1],
        "waiting": [0, 0],
        "kv_tokens": [16, 0],
    }
    summary: dict[str, Any] = {"requests": 2, "finished": 1, "rejected": 1, "good": 1, "generated": 2, "preemptions": 0}
    summary |= {"seconds": 250e-9, "requests_per_s": 4e6, "tokens_per_s": 8e6, "prompt_tokens_per_s": 64e6}
    summary |= {"goodput": 4e6}
    for name in ("ttft", "tpot", "end_to_end", "queueing", "kv_transfer"):
        summary |= {f"{name}_{statistic}": requests[name][0] for statistic in ("mean", "p50", "p90", "p99")}
    columns = {name: np.array(column) for name, column in requests.items()}
    columns["state"] = np.array(["finished", "rejected"], dtype=object)
    return ServingRecord(columns, {name: np.array(column) for name, column in iterations.items()}, summary)


def make_restarts() -> list[dict[str, Any]]:
    """The account of a job that has failed once."""
    done = {"iterations": 10, "done": 8, "written": 2, "failures": 1}
    return [{"job": "a", **done, "work": 800, "checkpoints": 20, "lost": 30, "down": 150, "goodput": 0.8}]


def make_failures() -> list[dict[str, Any]]:
    """A failure of the job."""
    return [
        {"job": "a", "at": 450, "cause": "NPU stopped", "npu": 1, "iterations": 0, "lost": 30, "down": 150, "spare": -1}
    ]


def make_jobs() -> list[dict[str, Any]]:
    """A job that ended and was compared, and one that did not end."""
    first = {"at": 0, "start": 5, "end": 90, "time": 90, "alone": 60, "slowdown": 1.5}
    second = {"at": 40, "start": -1, "end": -1, "time": -1, "alone": -1, "slowdown": float("nan")}
    names = {"first": ("packed 0,1", first), "second": ("list 3,2", second)}
    return [{"name": name, "npus": 2, "placement": where, **times} for name, (where, times) in names.items()]


def make_energy() -> dict[str, Any]:
    """The energy of `make_result`: 1 pJ per bit of a link, 2 pJ in a router, and NPUs of 10 W that do no work."""
    flits = np.array([69, 3, 0, 60])
    bits, passed = flits * 256 * 8, np.array([60, 72])

    def joules(dynamic: Any, idle: Any) -> dict[str, Any]:
        return {"dynamic": dynamic, "idle": idle, "low": idle, "energy": dynamic + idle, "high": 2 * dynamic + idle}

    links = {"link": np.arange(4), "bits": bits, **joules(bits * 1e-12, np.zeros(4))}
    routers = {"router": np.arange(2), "flits": passed, **joules(passed * 256 * 8 * 2e-12, np.zeros(2))}
    npus = {"npu": np.arange(2), "compute": np.zeros(2, np.int64), **joules(np.zeros(2), np.full(2, 10 * 250e-9))}
    tables = {"links": links, "routers": routers, "npus": npus}
    parts = [
        {"part": name, "count": len(table["energy"])}
        | {title: float(table[title].sum()) for title in ("dynamic", "idle", "low", "energy", "high")}
        for name, table in tables.items()
    ]
    return {"energy": parts, **{f"energy_{name}": table for name, table in tables.items()}}


def make_empty() -> Result:
    """One NPU: no links, no time, nothing to tell."""
    return Result(0, Fraction(10**9), True, LinkTable.empty(), Windows(np.zeros(0, dtype=np.int64), 1, {}), {})


@pytest.fixture
def result() -> Result:
    return make_result()


@pytest.fixture
def build() -> Callable[..., Result]:
    """make_result with some fields changed."""
    return make_result


@pytest.fixture
def empty() -> Result:
    return make_empty()
