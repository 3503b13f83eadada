"""Workloads through the whole program: what is told of their tasks, also of runs that do not come to their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim.errors import StuckError
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result
from pyxsim.results.work import TIMES
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.workload.export import export
from pyxsim.workload.graph import Call, GraphBuilder, Kind, Part

LOOP = """HYBRID_DATA_MODEL
2
a -1 500 ALLGATHER 4096 700 NONE 0 900 ALLREDUCE 65536 10
b -1 500 ALLREDUCE 8192 700 ALLREDUCE 4096 900 ALLREDUCE 65536 10
"""
NETWORK = {"topology": "torus", "shape": [2, 2], "bandwidth": "50 GB/s", "latency": "500 ns"}


def run(folder: Path, file: str, *, backend: str = "analytical", **output: Any) -> Result:
    workload = {"file": str(folder / file)}
    if (groups := folder / f"{file}.groups.json").exists():
        workload["groups"] = str(groups)
    settings = {"network": NETWORK, "workload": workload, "output": output}
    return pyxsim.run(settings, backend=backend)


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion", "packet"])
def test_a_loop(tmp_path: Path, backend: str) -> None:
    (tmp_path / "loop.txt").write_text(LOOP, encoding="utf-8")
    result = run(tmp_path, "loop.txt", backend=backend, tasks=True)
    assert (result.npus["busy"] + result.npus["idle"] == result.time_cycles).all()
    assert result.npus["compute"].tolist() == [2 * (500 + 700 + 900)] * 4
    path = result.critical_path
    assert int((path["end"] - path["begin"]).sum()) == path["end"][-1] == result.time_cycles
    assert result.layers["name"].tolist() == ["a", "b"]
    computed = sum(result.layers[f"{part}_compute"].sum() for part in ("fwd", "wg", "ig"))
    assert computed == result.npus["compute"][0]
    assert result.work is not None
    assert result.work.layers == ["a", "b"]
    assert {"all-reduce", "all-gather", "compute"} <= {result.work.kinds[kind] for kind in result.tasks["kind"]}
    summary = result.json()["critical_path"]
    assert sum(summary["by_kind"].values()) == result.time_ns
    assert "its longest steps" in text(result)


def pipeline(folder: Path, *, stuck: bool) -> None:
    """Traces of four NPUs: two stages, and gradients. `stuck`: two NPUs of one group wait for each other's messages."""
    b = GraphBuilder(4, layers=["first", "second"])
    front = b.tasks([0, 1], Kind.COMPUTE, "forward", ticks=2000, resource="compute", layer=0, part=Part.FORWARD)
    b.tasks([0, 1], Kind.SEND, "activations", size=4096, peer=[2, 3], resource="communication", before=[front])
    came = b.tasks([2, 3], Kind.RECEIVE, "activations", size=4096, peer=[0, 1])
    back = b.tasks([2, 3], Kind.COMPUTE, "forward", ticks=3000, layer=1, part=Part.FORWARD, before=[came])
    for layer, (members, before) in enumerate((((0, 1), front), ((2, 3), back))):
        call = b.call(Call("all-reduce", 1 << 16, members=members, name="gradients"))
        about = {"layer": layer, "part": Part.WEIGHT_GRADIENT}
        b.tasks(members, Kind.COLLECTIVE, "gradients", call=call, before=[before], **about)
    if stuck:
        waits = b.tasks([2, 3], Kind.RECEIVE, "never", size=8, peer=[3, 2])
        b.tasks([2, 3], Kind.SEND, "never", size=8, peer=[3, 2], before=[waits])
    export(b.graph(), folder / "trace", (2, 2))


def test_stages(tmp_path: Path) -> None:
    """Each layer is on two NPUs; the second stage waits for the first."""
    pipeline(tmp_path, stuck=False)
    result = run(tmp_path, "trace")
    assert result.npus["compute"].tolist() == [2000, 2000, 3000, 3000]
    assert result.layers["name"].tolist()[:2] == ["first", "second"]
    assert result.layers["npus"].tolist()[:2] == [2, 2]
    assert result.layers["fwd_compute"].tolist()[:2] == [2000, 3000]
    exposed = sum(result.layers[f"{part}_exposed"] for part in ("fwd", "wg", "ig", "update", "other"))
    assert np.isclose((exposed * result.layers["npus"]).sum(), result.npus["exposed"].sum())
    assert result.npus["like"].tolist() == [0, 0, 2, 2]
    assert result.lower_bound_ns is None
    assert result.chunk_delays is not None
    assert result.chunk_delays.layer_names == ["first", "second"]
    assert [len(each) for each in result.chunk_delays.queueing] == [2, 0], "NPU 0 is on one of them"
    assert result.tasks == {}


def test_stuck(tmp_path: Path) -> None:
    """What was done until nothing moved any more is told, and who waits."""
    pytest.importorskip("h5py")
    pipeline(tmp_path, stuck=True)
    with pytest.raises(StuckError, match="nothing moves") as caught:
        run(tmp_path, "trace", tasks=True)
    assert any("NPU 2, 'never'" in line for line in (str(caught.value), *caught.value.waits))
    result: Result = caught.value.result  # type: ignore[attr-defined]
    assert not result.complete
    assert result.failure
    assert (result.npus["busy"] + result.npus["idle"] == result.time_cycles).all()
    assert result.npus["compute"].tolist() == [2000, 2000, 3000, 3000]
    assert (result.tasks["end"] < 0).sum() == 4
    assert result.critical_path["end"][-1] == result.tasks["end"].max()
    result.save(tmp_path / "stuck.h5")
    assert Result.load(tmp_path / "stuck.h5").npus["idle"].tolist() == result.npus["idle"].tolist()
    assert "failed" in text(result)


@pytest.mark.parametrize("after", [1, 3, 6])
def test_interrupted(tmp_path: Path, after: int) -> None:
    """What each NPU did, and the layers, as far as they came."""
    (tmp_path / "loop.txt").write_text(LOOP, encoding="utf-8")
    settings = {"network": NETWORK, "workload": {"file": str(tmp_path / "loop.txt")}}
    whole = pyxsim.run(settings, backend="packet")
    ticks = iter(range(after))

    def tick() -> None:
        if next(ticks, None) is None:
            raise KeyboardInterrupt

    prepared = prepare(load_experiment(settings), backend="packet")
    prepared.network.tick = tick
    assert isinstance(prepared, Prepared)
    result = simulate(prepared, backend="packet")
    assert not result.complete
    assert result.time_cycles < whole.time_cycles
    assert (result.npus["busy"] + result.npus["idle"] == result.time_cycles).all()
    assert all((result.npus[name] <= whole.npus[name]).all() for name in TIMES if name != "idle")
    assert result.layers["name"].tolist()[:2] == ["a", "b"]
    assert "interrupted" in text(result)


def test_a_trace_without_layers(tmp_path: Path) -> None:
    """It is one layer."""
    b = GraphBuilder(4)
    b.tasks(range(4), Kind.COLLECTIVE, "sum", call=b.call(Call("all-reduce", 1 << 16)), resource="communication")
    export(b.graph(), tmp_path / "trace", (2, 2))
    result = run(tmp_path, "trace")
    assert result.layers["name"].tolist() == ["all"]
    assert result.layers["other_exposed"].tolist() == [result.time_cycles]
    assert result.chunk_delays is not None
    assert result.chunk_delays.layer_names == ["all"]
    assert len(result.chunk_delays.queueing[0]) == 1 + len(result.phases["phase"])


def test_custom_collectives_of_astra_sim_2(tmp_path: Path) -> None:
    """They stand in no queue, and are told of as all others are."""
    b = GraphBuilder(4)
    for kind in ("reduce", "all-reduce"):
        call = b.call(Call(kind, 1 << 16, root=0 if kind == "reduce" else None))
        b.tasks(range(4), Kind.COLLECTIVE, kind, call=call, resource="communication")
    export(b.graph(), tmp_path / "trace", (2, 2))
    system = {"compat": "astra-sim-2", "endpoint_delay": "10 ns"}
    workload = {"file": str(tmp_path / "trace")}
    result = pyxsim.run({"network": NETWORK, "system": system, "workload": workload}, backend="analytical")
    assert result.chunk_delays is not None
    assert (result.npus["busy"] + result.npus["idle"] == result.time_cycles).all()
    own = result.chunks["rank"] == 0
    times = (result.chunks["end"] - result.chunks["start"])[own & (result.chunks["dimension"] == -1)]
    assert len(times) > 0
    assert result.chunk_delays.chunk_time[0] >= times.min()


def test_a_clock_too_slow_for_its_links(tmp_path: Path) -> None:
    """A flit takes next to no time: the statistics of links do not divide by it."""
    (tmp_path / "loop.txt").write_text(LOOP, encoding="utf-8")
    network = {**NETWORK, "clock": "1 Hz"}
    workload = {"file": str(tmp_path / "loop.txt")}
    result = pyxsim.run({"network": network, "workload": workload}, backend="analytical")
    assert np.isfinite(result.links.bandwidth).all()


def test_a_slow_npu_computes_slowly_without_delays(tmp_path: Path) -> None:
    """A layer of two computations of 1000 ns: 2000 cycles of each NPU, three times as long on NPU 1."""
    (tmp_path / "one.txt").write_text("DATA\n1\nlayer -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 65536 10\n")
    tables: dict[str, Any] = {
        "network": {"topology": "ring", "shape": [4]},
        "workload": {"file": f"{tmp_path / 'one.txt'}"},
    }
    usual = pyxsim.run(tables, backend="analytical")
    slow = pyxsim.run({**tables, "system": {"stragglers": [{"npus": [1], "slow": 3}]}}, backend="analytical")
    assert usual.npus["compute"].tolist() == [2000] * 4
    assert slow.npus["compute"].tolist() == [2000, 6000, 2000, 2000]
    assert slow.time_cycles == usual.time_cycles + 4000  # the all-reduce needs the gradients of all
