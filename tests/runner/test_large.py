"""Large networks: that the work in Python does not grow with them, and a torus of 32 768 routers from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.results.result import Result
from pyxsim.routing import proofs
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from tests.counting import calls

NPUS = 32**3


def experiment(shape: list[int], **tables: Any) -> dict[str, Any]:
    network = {"topology": "torus", "shape": shape, "bandwidth": "64 GB/s", "latency": "2 cycles", "flit": "64 B"}
    return {"network": {**network, "packet": "1 KiB", "router": {"vcs": 4, "buffer": 8}}, **tables}


def all_reduce(shape: list[int], size: str) -> dict[str, Any]:
    system = {"chunks": 1, "optimization": "localBWAware", "all_reduce": "ring"}
    return experiment(shape, system=system, collective={"kind": "all-reduce", "size": size})


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYXSIM_CACHE", "")
    proofs.forget()


def test_preparing_takes_calls_by_groups_and_not_by_routers() -> None:
    """What is left to Python is done for each group of a phase (its members, a task), not for each link or message.

    A torus of 4 x 4 x .. in d dimensions has 2 d - 1 phases, each with a group for every 4 of its NPUs.
    """

    def work(dims: int) -> None:
        prepared = prepare(load_experiment(all_reduce([4] * dims, "64 KiB")))
        assert isinstance(prepared, Prepared)
        assert prepared.router_visits > prepared.topology.links
        assert prepared.lower_bound > 0

    work(2)  # which imports
    found = [calls(lambda dims=dims: work(dims)) for dims in (3, 4, 5)]  # type: ignore[misc]
    groups = [(2 * dims - 1) * 4 ** (dims - 1) for dims in (3, 4, 5)]
    small, large = ((found[i + 1] - found[i]) / (groups[i + 1] - groups[i]) for i in (0, 1))
    assert large < 1.1 * small  # calls for each more of them
    assert large < 40


def test_the_result_of_a_plan_is_written_by_columns(tmp_path: Path) -> None:
    """No text or number of a link is a Python object that is made on its own: the calls do not grow with the links."""
    counts = []
    for k in (4, 8):
        result = run(all_reduce([k, k, k], "16 KiB"))
        counts.append(calls(lambda result=result: result.save(tmp_path / "out.h5")))  # type: ignore[misc]
    assert counts[1] < counts[0] + 200


@pytest.mark.slow
def test_an_all_reduce_on_32_768_npus(tmp_path: Path) -> None:
    every_flit = {**all_reduce([32] * 3, "32 KiB"), "run": {"skip": False}}  # otherwise its engine is that of a group
    prepared = prepare(load_experiment(every_flit))
    assert isinstance(prepared, Prepared)
    assert isinstance(prepared.network, PacketNetwork)
    state = sum(array.nbytes for array in prepared.network.engine.state().values())
    assert state < 20_000 * NPUS  # docs/performance.md
    assert prepared.router_visits == 2 * NPUS * (2 * (31 * 16 + 31 * 1) + 62 * 1)  # flits of a step: 1 KiB, 32 B, 1 B
    del prepared
    result = run(all_reduce([32] * 3, "32 KiB"))
    assert result.complete
    assert result.counts["messages"] == NPUS * 186
    assert result.counts["router_visits"] == 2 * NPUS * (2 * (31 * 16 + 31) + 62)
    assert result.ratio is not None
    assert result.ratio > 1
    # The same in every ring.
    flits = result.totals["flits"].reshape(3, -1)
    assert [np.unique(each[each > 0]).size for each in flits] == [1, 1, 1]
    result.save(tmp_path / "out.h5")
    assert (tmp_path / "out.h5").stat().st_size < 64 << 20
    assert Result.load(tmp_path / "out.h5").links.name == result.links.name


@pytest.mark.slow
def test_uniform_traffic_on_32_768_nodes() -> None:
    result = run(experiment([32] * 3, traffic={"load": 0.02, "packet_flits": 2, "warmup": 300, "measure": 300}))
    assert result.traffic is not None
    summary = result.traffic.summary
    # Drawn by trials: N * 300 of them, each with a hundredth of a packet of two flits.
    assert summary["accepted_load"] == pytest.approx(0.02, rel=0.02)
    # docs/router.md: 7 + 24 * (4 + 2) + 1, and little besides where links are 8 % busy.
    assert 152 < summary["packet_latency"] < 160
