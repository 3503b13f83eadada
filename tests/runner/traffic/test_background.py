"""Background traffic beside collectives, messages and workloads: against theory, open traffic and the reference."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import complete_run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.traffic.observe import Grid, Observer
from pyxsim.settings import load_experiment
from tests.equal_results import differences
from tests.examples import part_of

# 256 GB/s at 1 GHz: a flit of 256 B per cycle.
LINK = {"bandwidth": "256 GB/s", "latency": "4 cycles", "clock": "1 GHz", "flit": "256 B", "packet": "256 B"}
LINE = {**LINK, "topology": "mesh", "shape": [2]}
TORUS = {**LINK, "topology": "torus", "shape": [4, 4], "packet": "4 KiB"}
ALL_REDUCE = {"kind": "all-reduce", "size": "64 KiB"}
UNIFORM = {"load": 0.1, "packet_flits": 4}


def run(backend: str = "packet", **tables: Any) -> Result:
    return pyxsim.run({"network": TORUS, **tables}, backend=backend)


def measured(result: Result) -> dict[str, Any]:
    assert result.traffic is not None
    return result.traffic.summary


@pytest.mark.parametrize("share", [0.125, 0.25, 0.375])
def test_a_message_takes_its_time_over_the_rest_of_the_link(share: float) -> None:
    # NPU 0 offers `share` flits per cycle to NPU 1 beside a message of 8192 flits. Classes take turns at the lane, so
    # that a share below one half passes whole, and the message has the remaining 1 - share: takes 8192 / (1 - share)
    # cycles. The number of background packets in that time has a standard deviation below sqrt(8192 share / (1 -
    # share)), less than 0.9 % of the time; 3 % are more than three of them. NPU 1 sends in the other direction only.
    message = [{"src": 0, "dst": 1, "size": "2 MiB"}]
    traffic = {"pattern": "permutation", "pattern_options": {"destinations": [1, 0]}, "load": share}
    alone = run(network=LINE, message=message)
    beside = run(network=LINE, message=message, traffic=traffic)
    assert alone.time_cycles == pytest.approx(8192, rel=0.01)
    assert beside.time_cycles / alone.time_cycles == pytest.approx(1 / (1 - share), rel=0.03)
    assert measured(beside)["accepted_load"] == pytest.approx(share, rel=0.06)
    assert measured(beside)["saturated"] is False


def test_a_share_above_one_half_is_cut_to_one_half() -> None:
    traffic = {"pattern": "permutation", "pattern_options": {"destinations": [1, 0]}, "load": 0.9}
    beside = run(network=LINE, message=[{"src": 0, "dst": 1, "size": "2 MiB"}], traffic=traffic)
    assert beside.time_cycles == pytest.approx(2 * 8192, rel=0.02)


def test_a_wait_as_in_theory() -> None:
    # Karol, Hluchyj and Morgan 1987: n sources with Bernoulli trials share a link that carries a flit per cycle; the
    # mean wait is (n - 1) / n load / (2 (1 - load)). Eight NPUs send to NPU 0 over a switch; a message at the end of
    # the run does not meet them.
    load, n, cycles = 0.8, 8, 100_000
    traffic = {
        "pattern": "hotspot", "pattern_options": {"nodes": [0]}, "load": load / n, "warmup": 1000,
    }  # fmt: skip
    network = {**LINK, "topology": "switch", "shape": [n], "lanes": 1}
    result = run(
        network=network, message=[{"src": 1, "dst": 2, "size": "1 B", "at": f"{cycles} cycles"}], traffic=traffic
    )
    found = measured(result)
    wait = found["packet_latency"] - found["zero_load_latency"]
    assert wait == pytest.approx((n - 1) / n * load / (2 * (1 - load)), abs=3 * found["packet_latency_interval"])
    assert found["accepted_load"] == pytest.approx(load / n, rel=0.02)


def test_without_work_in_between_it_is_open_traffic() -> None:
    # A message after 20,000 cycles: until then only the background runs. Its packets are those of open traffic.
    network = {**TORUS, "lanes": 1}
    message = [{"src": 0, "dst": 1, "size": "1 B", "at": "20000 cycles"}]
    beside = run(network=network, message=message, traffic=UNIFORM)
    alone = run(network=network, traffic={**UNIFORM, "warmup": 0, "measure": 15_000})
    assert beside.traffic is not None
    assert alone.traffic is not None
    for result, batches in ((beside, 150), (alone, 60)):
        assert result.traffic is not None
        assert result.traffic.batches["start"][batches - 1] + 15_000 // batches == 15_000
    ours, theirs = (
        [np.asarray(result.traffic.batches[name][:batches]) for name in ("packets", "latency")]  # type: ignore[union-attr]
        for result, batches in ((beside, 150), (alone, 60))
    )
    assert ours[0].sum() == theirs[0].sum() == measured(alone)["measured_packets"]
    assert round(ours[0] @ ours[1]) == round(theirs[0] @ theirs[1])  # cycles of all packets together


@settings(max_examples=part_of(10), deadline=None)
@given(
    seed=st.integers(0, 1000),
    load=st.sampled_from([0.01, 0.2, 0.6]),
    flits=st.sampled_from([1, 5]),
    kind=st.sampled_from(["all-reduce", "all-to-all"]),
    routing=st.sampled_from([None, "minimal-adaptive"]),
)
def test_the_reference_agrees_to_the_bit(seed: int, load: float, flits: int, kind: str, routing: str | None) -> None:
    tables = {
        "network": {
            **TORUS,
            "shape": [3, 2],
            "packet": "1 KiB",
            "router": {"routing": routing, "vc_reuse": "drained"} if routing else {},
        },
        "collective": {"kind": kind, "size": "8 KiB", "at": "300 ns"},
        "traffic": {"load": load, "packet_flits": flits},
        "output": {"seed": seed},
    }
    packet, reference = (pyxsim.run(tables, backend=backend) for backend in ("packet", "reference"))
    assert differences(packet, reference) == []


def test_a_silent_background_changes_nothing() -> None:
    # So rare that no packet is created: the run is that without background, cycle by cycle.
    alone, beside = run(collective=ALL_REDUCE), run(collective=ALL_REDUCE, traffic={"load": 1e-7})
    assert beside.time_cycles == alone.time_cycles
    assert beside.totals["flits"].tolist() == alone.totals["flits"].tolist()
    assert measured(beside)["measured_packets"] == 0


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    runs = [run(collective=ALL_REDUCE, traffic=UNIFORM, output={"seed": seed}) for seed in (1, 1, 2)]
    assert differences(runs[0], runs[1]) == []
    assert runs[0].time_cycles != runs[2].time_cycles


def test_bytes_and_time_are_those_of_the_collective() -> None:
    alone, beside = run(collective=ALL_REDUCE), run(collective=ALL_REDUCE, traffic=UNIFORM)
    assert beside.counts["bytes_delivered"] == alone.counts["bytes_delivered"]
    assert beside.lower_bound_ns == alone.lower_bound_ns
    assert beside.time_cycles > alone.time_cycles
    assert beside.totals["flits"].sum() > alone.totals["flits"].sum()
    assert beside.counts["not_skipped"] == "background traffic does not repeat"


def test_attribution_names_the_background() -> None:
    result = run(collective=ALL_REDUCE, traffic=UNIFORM, output={"attribution": "messages"})
    assert result.attribution is not None
    assert result.attribution.traffic_names == ["all-reduce", "background"]
    messages = dict(zip(result.attribution.traffic_names, result.attribution.messages.tolist(), strict=True))
    assert messages["background"] >= measured(result)["measured_packets"] > 0
    table = result.latency
    parts = sum(
        table[part] for part in ("source", "serialisation", "hops", "vc", "credit", "link", "arbitration", "queue")
    )
    assert (parts == table["arrived"] - table["sent"]).all()


def test_a_workload_has_it_until_its_end() -> None:
    tables = {"workload": {"model": "resnet50", "parallelism": {"data": 4}}, "system": {"npu": {"device": "a100-80gb"}}}
    small = {
        "network": {**LINK, "topology": "ring", "shape": [4]},
        **tables,
        "traffic": {"load": 0.01, "packet_flits": 16},
    }
    result = pyxsim.run(small, overrides=["workload.batch=4"])
    assert result.work is not None
    last = int(result.traffic.batches["start"][-1]) if result.traffic is not None else 0
    assert 0.9 * result.time_cycles < last <= result.time_cycles


def test_a_checkpoint_continues_with_the_same_background() -> None:
    experiment = load_experiment({"network": TORUS, "collective": ALL_REDUCE, "traffic": UNIFORM})
    whole = complete_run(prepare(experiment), CheckpointContext()).result

    copies: list[bytes] = []
    prepared = prepare(experiment)
    hooks = ProgressHooks()

    def pause() -> None:
        if len(copies) < 1 and prepared.network.now > 300:
            copies.append(pickle.dumps(prepared))

    prepared.network.pause = pause
    complete_run(prepared, CheckpointContext(), hooks)
    again = complete_run(pickle.loads(copies[0]), CheckpointContext()).result
    assert differences(whole, again) == []


def test_coarser_batches_keep_their_sums() -> None:
    rng = np.random.default_rng(3)
    at = np.sort(rng.integers(0, 10_000, 500))
    last = at + rng.integers(5, 300, 500)
    fine, coarse = (Observer(Grid(0, length), 4, 2) for length in (100, 200))
    for observer in (fine, coarse):
        klass, dst, one = np.arange(500) % 2, np.arange(500) % 4, np.ones(500, np.int64)
        observer.create(klass, at, one)
        observer.arrive(klass, at, at + 2, last, one, one, one, dst)
    fine.coarsen()
    assert fine.grid == coarse.grid
    for name, columns in vars(coarse).items():
        if hasattr(columns, "upto"):
            assert np.array_equal(getattr(fine, name).upto(60), columns.upto(60)), name
    for ours, theirs in zip(fine.tally.of(3, 40, 2), coarse.tally.of(3, 40, 2), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"traffic": {"batch": {"size": 4}}}, "traffic.batch: is not supported beside collectives or a workload"),
        ({"traffic": {"load": 0.1, "replies": {"virtual_network": 0}}}, "traffic.replies: are not supported beside"),
        ({"traffic": {"load": 0.1, "precision": 0.1}}, "traffic.precision: has no effect beside"),
        ({"traffic": {"load": 0.1, "max_cycles": 5000}}, "traffic.max_cycles: has no effect beside"),
        ({"traffic": UNIFORM, "system": {"compat": "astra-sim-2"}}, "astra-sim-2 has no background traffic"),
        ({"traffic": UNIFORM, "workload": {"file": "x.txt"}}, "workload: cannot be combined with"),
    ],
)
def test_faults(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_experiment({"network": TORUS, "collective": ALL_REDUCE, **tables})


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion", "flow"])
def test_backends_without_packets_refuse_it_in_one_line(backend: str) -> None:
    with pytest.raises(InputError) as caught:
        run(backend, collective=ALL_REDUCE, traffic=UNIFORM)
    words = (
        f"backend '{backend}' does not support [traffic] beside collectives or a workload; allowed: packet, reference"
    )
    assert str(caught.value).endswith(words)


def test_a_curve_needs_open_traffic_alone() -> None:
    with pytest.raises(InputError, match="is background traffic, which has no load-latency curve"):
        pyxsim.curve({"network": TORUS, "collective": ALL_REDUCE, "traffic": UNIFORM}, [0.1])
