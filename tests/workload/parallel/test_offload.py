"""Model states in remote memory: bytes against closed forms, ends by hand, what is refused, what the numbers tell."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.models import Kind, Layer, Model
from pyxsim.runner.lifecycle import run as run_experiment
from pyxsim.settings.load import load_experiment
from pyxsim.workload.graph import Access, Part, TaskGraph
from pyxsim.workload.graph import Kind as Task
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.statistics import accesses, stages
from pyxsim.workload.parallel.text import astra_text
from tests.examples import part_of
from tests.system.test_memory import memory
from tests.workload.parallel.drawn import Rows, built, equal_blocks, planned, transformer
from tests.workload.services import FixedHands

LATENCY, CHUNK = 5, 4
LONE = {"kind": "per-npu", "latency": LATENCY, "bandwidth": Fraction(1)}
SWITCHES = {
    "kind": "hierarchical",
    "latency": LATENCY,
    "bandwidth": Fraction(4),
    "npus_per_node": 2,
    "groups": 1,
    "switches": 1,
    "memory_link": Fraction(4),
    "node_link": Fraction(4),
    "npu_link": Fraction(2),
    "chunk": CHUNK,
    "in_switch": True,
}


def carried_out(plan: Plan, table: dict[str, Any], collective: int = 0, **others: Any) -> GraphJob:
    """A collective takes so many cycles, a message none."""
    job = GraphJob(built(plan))
    options = memory(table, len(plan.grid))
    hands = FixedHands(plan.shape, lambda size: collective, lambda size: 0, remote_memory=options, **others)
    job.begin(hands)
    hands.run()
    assert job.left == 0
    return job


def moved(graph: TaskGraph, *kinds: Access) -> list[int]:
    """Bytes of each NPU."""
    own = (graph.kind == Task.MEMORY) & np.isin(graph.match, kinds)
    return [int(each) for each in np.bincount(graph.npu[own], graph.size[own], graph.npus)]


# -- bytes -------------------------------------------------------------------------------------------------------------


@settings(max_examples=part_of(40))
@given(data=st.data())
def test_bytes_of_replicas(data: st.DataObject) -> None:
    """The closed forms of docs/memory.md, for each NPU of 4; parameters divide evenly here."""
    what = data.draw(st.sampled_from(("optimizer", "parameters")))
    in_switch = data.draw(st.booleans())
    zero = 3 if what == "parameters" else data.draw(st.integers(in_switch, 3))
    micro_batches, e, g = (
        data.draw(st.integers(1, 3)),
        data.draw(st.sampled_from((1, 2, 4))),
        data.draw(st.sampled_from((2, 4))),
    )
    plan = planned(
        transformer(3),
        (4,),
        in_switch=in_switch,
        batch=4 * micro_batches,
        micro_batch=1,
        element=f"{e} B",
        gradient=f"{g} B",
        comm_scale=data.draw(st.sampled_from((1, 0.5))),
        offload=what,
        parallelism={"zero": zero},
    )
    graph = built(plan)
    whole, n, m = plan.model.parameters, 4, micro_batches if zero >= 2 else 1
    own = whole // n if zero else whole
    state = 12 if e < 4 else 8  # Adam in mixed precision, or all of it in 4 bytes
    loaded = m * own * g + own * state
    stored = m * (whole if in_switch else own) * g + own * state
    if what == "parameters":
        loaded += 2 * micro_batches * (whole if in_switch else own) * e + (own * e if e == 4 else 0)
        stored += own * e
    elif in_switch and zero < 3:
        loaded += whole * e
        stored += own * e
    assert moved(graph, Access.LOAD, Access.GATHER) == [loaded] * n
    assert moved(graph, Access.STORE, Access.REDUCE) == [stored] * n
    # What the switches do, the network need not.
    kinds = {call.kind for call in graph.calls}
    summed = {"reduce-scatter" if zero else "all-reduce"}
    gathered = {"all-gather"} if zero and (not in_switch or (zero == 3 and what == "optimizer")) else set()
    assert kinds == (gathered if in_switch else summed | gathered)
    (row,) = stages(plan)
    copies = e if what == "parameters" or (in_switch and zero in (1, 2)) else 0
    assert row.remote == own * (m * g + state + copies)
    assert sum(each.bytes for each in accesses(graph)) == n * (loaded + stored)


def test_one_replica_has_all_of_it() -> None:
    """Nothing is divided, and nothing gathered."""
    plan = planned(transformer(2), (1,), batch=3, micro_batch=1, element="2 B", offload="parameters")
    graph, whole = built(plan), plan.model.parameters
    assert moved(graph, Access.LOAD) == [(2 * 3 * 2 + 2 + 12) * whole]
    assert moved(graph, Access.STORE) == [(2 + 12 + 2) * whole]
    assert not graph.calls


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_what_stages_share_is_stored_when_it_is_summed(zero: int) -> None:
    """Embedding and head of a pipeline: their gradients are stored once, behind the sum of both stages."""
    own = {"tensor": 2, "pipeline": 2, "zero": zero}
    plan = planned(transformer(2, tied=True), (8,), batch=6, micro_batch=1, offload="optimizer", parallelism=own)
    graph = built(plan)
    (tied,) = {
        int(graph.call[task]) for task in graph.of_kind(Task.COLLECTIVE) if "tied" in graph.names[graph.name[task]]
    }
    stores = [task for task in graph.of_kind(Task.MEMORY) if "tied" in graph.names[graph.name[task]]]
    assert sorted(graph.npu[stores].tolist()) == list(range(8))
    for task in stores:
        assert (graph.size[task], graph.match[task]) == (16 * 8 // 2 // 2, Access.STORE)
        before = graph.before[graph.before_start[task] : graph.before_start[task + 1]]
        assert graph.call[before].tolist() == [tied]
    layer = graph.layers.index("embedding")
    of_layer = (graph.layer == layer) & (graph.kind == Task.MEMORY) & (graph.part != Part.UPDATE)
    assert np.count_nonzero(of_layer) == 4


def test_experts_are_divided_by_those_who_have_them() -> None:
    """Each of 8 NPUs has one of 4 experts with one other; all else with all."""
    own = {"data": 8, "expert": 4, "zero": 3}
    plan = planned(transformer(2, experts=4), (8,), batch=8, element="2 B", offload="parameters", parallelism=own)
    experts = 2 * 8 * 8  # of two layers, at an NPU
    others = plan.model.parameters - 4 * experts
    assert moved(built(plan), Access.LOAD) == [(2 * 2 + 2 + 12) * (others // 8 + experts // 2)] * 8


# -- ends by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [0, 10])
def test_a_block_whose_optimizer_is_offloaded(time: int) -> None:
    """60 parameters on two NPUs: 30 bytes of gradients and 360 of state each. The sum, its store, the load, 3 ns of
    updating; then the state is stored while the network gathers the parameters."""
    plan = planned(equal_blocks(1), (2,), Rows(10), batch=2, offload="optimizer", parallelism={"zero": 1})
    job = carried_out(plan, LONE, time)
    stored, loaded, written = LATENCY + 30, LATENCY + 30 + 360, LATENCY + 360
    assert job.end == 7 + 14 + time + stored + loaded + 3 + max(written, time)


@pytest.mark.parametrize("time", [0, 10])
def test_a_block_whose_parameters_are_offloaded(time: int) -> None:
    """Forward and backward need them; those for backward are fetched while forward is computed, which takes 7."""
    plan = planned(equal_blocks(1), (2,), Rows(10), batch=2, offload="parameters", parallelism={"zero": 3})
    fetched = LATENCY + 30 + time
    step = LATENCY + 30 + 360 + 3 + LATENCY + 360 + 30
    assert carried_out(plan, LONE, time).end == 2 * fetched + 14 + time + LATENCY + 30 + step


def test_a_block_with_collectives_in_the_switches() -> None:
    """What all do takes a quarter of a ns for a byte but at the NPU, half; what each does for itself half everywhere.
    The law of docs/memory.md."""

    def together(size: int) -> int:
        return LATENCY + 1 + 1 + 1 + 2 + ceil((size - CHUNK) / 2)

    def alone(size: int) -> int:
        return LATENCY + 2 + 2 + 2 + 2 + ceil((size - CHUNK) / 2)

    keys: dict[str, Any] = {"in_switch": True, "batch": 2}
    plan = planned(equal_blocks(1), (2,), Rows(10), offload="parameters", parallelism={"zero": 3}, **keys)
    step = alone(30 + 360) + 3 + alone(360 + 30)
    assert carried_out(plan, SWITCHES).end == 2 * together(60) + 14 + together(60) + step
    plan = planned(equal_blocks(1), (2,), Rows(10), offload="optimizer", parallelism={"zero": 2}, **keys)
    assert carried_out(plan, SWITCHES).end == 7 + 14 + together(60) + step + together(60)


@pytest.mark.parametrize(("time", "seen"), [(7, 0), (8, 3)])
def test_parameters_are_fetched_one_block_ahead(time: int, seen: int) -> None:
    """A block of 7 ns hides a load of 7; of 8, one ns is seen at each of three blocks behind the first."""
    plan = planned(equal_blocks(4), (2,), batch=2, offload="parameters", parallelism={"zero": 3})
    job = carried_out(plan, {**LONE, "latency": 0, "bandwidth": Fraction(30, time)})
    graph, times = job.graph, job.times()
    forward = (graph.kind == Task.COMPUTE) & (graph.part == Part.FORWARD)
    assert times.end[forward].max() == time + 4 * 7 + seen
    if not seen:  # backward 14 hide a load and a store of 7
        assert times.end[graph.kind == Task.COMPUTE].max() == 7 + 4 * 7 + 4 * 14


@pytest.mark.parametrize(
    ("rate", "wanted"),
    [
        # Updating takes 6: something is always on its way, 2 ns of it the gradients that were computed last.
        (5, 4 * (26 + 24) + 2),
        # Updating takes 30: a load, an update; while others update the first store and the third load, the second
        # store and the fourth load; the last update, and its store.
        (1, 26 + 30 + (24 + 26) + (24 + 26) + 30 + 24),
    ],
)
def test_states_are_loaded_one_layer_ahead(rate: int, wanted: int) -> None:
    """15 bytes a ns: of each of four layers 390 are loaded and 360 stored."""
    plan = planned(equal_blocks(4), (2,), Rows(rate), batch=2, offload="optimizer", parallelism={"zero": 2})
    job = carried_out(plan, {**LONE, "latency": 0, "bandwidth": Fraction(15)})
    graph, times = job.graph, job.times()
    loads = (graph.part == Part.UPDATE) & (graph.kind == Task.MEMORY) & (graph.match == Access.LOAD)
    assert job.end - times.start[loads].min() == wanted


@settings(max_examples=part_of(25))
@given(data=st.data())
def test_all_kinds_come_to_an_end(data: st.DataObject) -> None:
    """Late and slow NPUs never deadlock, although an NPU makes one memory access at a time."""
    in_switch = data.draw(st.booleans())
    what = data.draw(st.sampled_from(("optimizer", "parameters")))
    zero = 3 if what == "parameters" else data.draw(st.integers(in_switch, 3))
    apart = 1 if in_switch else data.draw(st.sampled_from((1, 2)))
    pipeline = 1 if in_switch else data.draw(st.sampled_from((1, 2)))
    plan = planned(
        transformer(4, tied=data.draw(st.booleans()), experts=data.draw(st.sampled_from((0, 2)))),
        (2, 2 * apart * pipeline),
        Rows(10),
        in_switch=in_switch,
        batch=data.draw(st.integers(1, 2)) * 4,
        micro_batch=1,
        offload=what,
        recompute=data.draw(st.sampled_from(("none", "full"))),
        parallelism={"tensor": apart, "pipeline": pipeline, "zero": zero},
    )
    table = SWITCHES if in_switch else data.draw(st.sampled_from((LONE, {**LONE, "kind": "pool"}, SWITCHES)))
    npus = len(plan.grid)
    skew = [data.draw(st.integers(0, 50)) for _ in range(npus)]
    slow = [data.draw(st.sampled_from((Fraction(1), Fraction(3)))) for _ in range(npus)]
    job = carried_out(plan, table, data.draw(st.integers(0, 30)), start_skew=skew, slowdown=slow)
    graph, times = job.graph, job.times()
    for npu in range(npus):  # one after the other
        own = np.flatnonzero((graph.npu == npu) & (graph.kind == Task.MEMORY))
        own = own[np.argsort(times.start[own])]
        assert (times.start[own][1:] >= times.end[own][:-1]).all()


# -- what is refused, and told -----------------------------------------------------------------------------------------

NETWORK = {"topology": "ring", "shape": [4], "bandwidth": "1 GB/s", "latency": "1 ns"}
POOL = {"kind": "pool", "bandwidth": "1 GB/s"}
P = "workload.parallelism"


@pytest.mark.parametrize(
    ("keys", "own", "in_switch", "told"),
    [
        ("parameters", {}, False, f"{P}.zero: each NPU has all its parameters; allowed: 3 with offload"),
        ("parameters", {"zero": 2}, False, f"{P}.zero: ZeRO-2 keeps whole parameters on each NPU; allowed: 3"),
        (
            "optimizer",
            {"tensor": 2, "zero": 1},
            True,
            "system.remote_memory.in_switch: switches reduce the data of all 4",
        ),
        ("optimizer", {"pipeline": 2, "zero": 1}, True, "system.remote_memory.in_switch: switches reduce the data of"),
        ("optimizer", {}, True, f"{P}.zero: in_switch: the switches store one sum, and each replica"),
        (
            "optimizer",
            {"expert": 2, "zero": 1},
            True,
            f"{P}.expert: in_switch: switches reduce the data of all NPUs, but",
        ),
    ],
)
def test_what_makes_no_sense(keys: str, own: dict[str, Any], told: str, *, in_switch: bool) -> None:
    with pytest.raises(InputError) as caught:
        planned(transformer(2, experts=2), (4,), in_switch=in_switch, batch=8, offload=keys, parallelism=own)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(told)
    assert "; allowed: " in line


def test_tables_have_no_states() -> None:
    model = Model("lookup", (Layer("tables", Kind.TABLES, 3, 6, expert_parameters=1000, dispatched=6),), "a sample")
    with pytest.raises(InputError, match=r"workload\.offload: lookup has no parameters for an optimizer"):
        planned(model, (2,), batch=2, offload="optimizer")


@pytest.mark.parametrize(
    ("work", "system", "told"),
    [
        ({"model": "dlrm", "offload": "optimizer"}, {}, "workload.offload: requires remote memory; allowed: "),
        ({"model": "dlrm"}, {"remote_memory": POOL}, "system.remote_memory: has no effect; allowed: "),
        ({"model": "dlrm", "offload": "none"}, {"remote_memory": POOL}, "system.remote_memory: has no effect"),
        ({"file": "a.*.et", "offload": "optimizer"}, {"remote_memory": POOL}, "workload.offload: requires a model"),
        (
            {"model": "dlrm", "offload": "optimiser"},
            {"remote_memory": POOL},
            "workload.offload: unknown value 'optimiser'",
        ),
    ],
)
def test_what_the_settings_refuse(work: dict[str, Any], system: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        load_experiment({"network": NETWORK, "system": {"npu": {"device": "h100"}, **system}, "workload": work})
    assert told in str(caught.value)


def test_texts_cannot_say_it() -> None:
    with pytest.raises(InputError, match=r"workload\.offload: a workload text of ASTRA-sim 1 cannot express it"):
        astra_text(planned(equal_blocks(2), (2,), batch=2, offload="optimizer"))


def test_what_stays_in_the_npu() -> None:
    """Four blocks of 60 parameters (the first with the embedding's none) on two NPUs, an element of two bytes."""
    keys: dict[str, Any] = {"batch": 4, "micro_batch": 1, "element": "2 B", "offload": "parameters"}
    (row,) = stages(planned(equal_blocks(4), (2,), parallelism={"zero": 3}, **keys))
    assert (row.weights, row.gradients) == (2 * 60 * 2, 60 * 2)  # two blocks, and the gradients of one
    assert row.optimizer == 2 * 30 * (2 * 2 + 12)  # of two layers, with gradients of two micro-batches
    assert row.remote == 4 * 30 * (2 * 2 + 12 + 2)
    (row,) = stages(planned(equal_blocks(4), (2,), parallelism={"zero": 1}, **{**keys, "offload": "optimizer"}))
    assert (row.weights, row.gradients) == (4 * 60 * 2, 4 * 60 * 2)  # whole until the last micro-batch
    assert row.optimizer == 2 * 30 * (2 + 12)
    assert row.remote == 4 * 30 * (2 + 12)


def test_a_run_with_several_steps() -> None:
    """End to end: twice the steps are twice the bytes, and twice the time where nobody waits for others at a memory."""
    data: dict[str, Any] = {
        "network": NETWORK,
        "system": {"npu": {"device": "h100"}, "remote_memory": {**POOL, "kind": "per-npu"}},
        "workload": {"model": "resnet50", "batch": 4, "offload": "parameters", "parallelism": {"zero": 3}},
    }
    once = run_experiment(load_experiment(data), backend="analytical")
    twice = run_experiment(load_experiment(data, ["workload.passes=2"]), backend="analytical")
    assert once.memory is not None
    assert twice.memory is not None
    assert twice.memory.npus["loaded"].tolist() == (2 * once.memory.npus["loaded"]).tolist()
    assert twice.memory.npus["stored"].tolist() == (2 * once.memory.npus["stored"]).tolist()
    assert 2 * once.time_ns == twice.time_ns
