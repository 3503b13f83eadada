"""The graph of a training step against closed forms: times of pipelines, bytes of every parallelism."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.models import Elements, Gemm, Kind, Layer, Model
from pyxsim.workload.graph import Kind as Task
from pyxsim.workload.graph import Part, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from tests.examples import part_of
from tests.workload.parallel.drawn import Rows, built, end, equal_blocks, planned, transformer
from tests.workload.services import FixedHands

SENT = {  # of a collective of so many bytes among n, what each sends at least
    "all-reduce": lambda size, n: Fraction(2 * size * (n - 1), n),
    "reduce-scatter": lambda size, n: Fraction(size * (n - 1), n),
    "all-gather": lambda size, n: Fraction(size * (n - 1)),
    "all-to-all": lambda size, n: Fraction(size * (n - 1), n),
}


def sent(graph: TaskGraph, npu: int, *kinds: str) -> Fraction:
    """Bytes that an NPU sends in collectives, of some kinds or all."""
    total = Fraction(0)
    for number in graph.call[(graph.kind == Task.COLLECTIVE) & (graph.npu == npu)].tolist():
        call = graph.calls[number]
        if not kinds or call.kind in kinds:
            groups = call.groups or ()
            n = len(groups[0]) if groups else graph.npus
            total += SENT[call.kind](call.size, n)
    return total


# -- pipelines ---------------------------------------------------------------------------------------------------------


@settings(max_examples=part_of(20))
@given(stages=st.integers(2, 6), micro_batches=st.integers(1, 9), blocks=st.integers(1, 3), rows=st.integers(1, 50))
def test_the_bubble_of_equal_stages(stages: int, micro_batches: int, blocks: int, rows: int) -> None:
    """(p - 1) / (m + p - 1) of the time, for 1F1B and GPipe; a stage's work is 3 * rows * blocks."""
    for schedule in ("1f1b", "gpipe"):
        plan = planned(
            equal_blocks(stages * blocks, rows),
            (stages,),
            batch=micro_batches,
            parallelism={"pipeline": stages, "schedule": schedule},
        )
        whole = end(plan)
        work = 3 * rows * blocks * micro_batches
        assert Fraction(whole - work, whole) == Fraction(stages - 1, micro_batches + stages - 1)


@settings(max_examples=part_of(20))
@given(stages=st.integers(2, 5), rounds=st.integers(1, 3), chunks=st.integers(2, 4), rows=st.integers(1, 50))
def test_the_bubble_of_chunks(stages: int, rounds: int, chunks: int, rows: int) -> None:
    """Interleaved: v times less beside the work, (p - 1) / (v m + p - 1) of the time."""
    plan = planned(
        equal_blocks(stages * chunks, rows),
        (stages,),
        batch=rounds * stages,
        parallelism={"pipeline": stages, "schedule": "interleaved", "chunks": chunks},
    )
    whole = end(plan)
    work = 3 * rows * chunks * rounds * stages
    assert Fraction(whole - work, whole) == Fraction(stages - 1, chunks * rounds * stages + stages - 1)


@settings(max_examples=part_of(20))
@given(stages=st.integers(2, 6), micro_batches=st.integers(1, 9), message=st.integers(0, 40))
def test_gpipe_with_messages(stages: int, micro_batches: int, message: int) -> None:
    """Messages go beside computing: only on the way there and back each border costs one."""
    plan = planned(
        equal_blocks(stages), (stages,), batch=micro_batches, parallelism={"pipeline": stages, "schedule": "gpipe"}
    )
    assert end(plan, message=message) == (micro_batches + stages - 1) * 21 + 2 * (stages - 1) * message


def test_the_step_of_the_optimizer_comes_behind() -> None:
    """60 parameters in each block; a stage of two needs 120 ns, when its last micro-batch is through."""
    plan = planned(equal_blocks(4), (2,), Rows(1), batch=3, parallelism={"pipeline": 2})
    assert end(plan) == (3 + 1) * 2 * 21 + 120  # the first stage is the last to end, and updates then


def test_recomputing_is_a_forward_pass_more() -> None:
    plan = planned(equal_blocks(2), (1,), batch=3, micro_batch=1, recompute="full")
    assert end(plan) == 3 * 2 * (7 + 7 + 14)


# -- bytes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zero", "times"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_bytes_of_replicas(zero: int, times: int) -> None:
    """Rajbhandari et al. 2020, section 7: ZeRO-1 and 2 move what data parallelism does, ZeRO-3 half as much again."""
    plan = planned(transformer(3), (4,), batch=4, parallelism={"zero": zero})
    graph = built(plan)
    parameters = plan.model.parameters
    for npu in range(4):
        assert sent(graph, npu) == times * Fraction(parameters * 3, 4)


def test_tied_parameters_are_fetched_where_they_are_used() -> None:
    """ZeRO-3: for the head as well, forward and backward; their gradients are one."""
    plan = planned(transformer(3, tied=True), (4,), batch=4, parallelism={"zero": 3})
    assert sent(built(plan), 0) == Fraction(3, 4) * (3 * plan.model.parameters + 2 * 16 * 8)


def test_zero_2_adds_up_every_micro_batch() -> None:
    """It keeps no whole gradients in between."""
    plan = planned(transformer(3), (4,), batch=12, micro_batch=1, parallelism={"zero": 2})
    assert sent(built(plan), 0, "reduce-scatter") == 3 * Fraction(plan.model.parameters * 3, 4)


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("sequence", [False, True])
def test_bytes_of_tensor_parallelism(recompute: str, *, sequence: bool) -> None:
    """Megatron-LM: two all-reduces forward and two backward in each block, one each for embedding and head.

    With sequence parallelism reduce-scatter and all-gather, which move as much; backward one all-gather more for each
    layer whose inputs are kept divided (Korthikanti et al. 2022, section 4.2.2).
    """
    blocks, samples, size, n = 3, 2, 4 * 8, 4
    plan = planned(
        transformer(blocks),
        (4,),
        batch=samples,
        recompute=recompute,
        parallelism={"tensor": 4, "sequence": sequence},
    )
    sums = blocks * 2 * (3 if recompute == "full" else 2) + 2
    extra = blocks * 2 + 1 if sequence else 0
    wanted = sums * SENT["all-reduce"](samples * size, n) + extra * SENT["all-gather"](samples * size // n, n)
    assert sent(built(plan), 1) == wanted


def test_bytes_of_experts() -> None:
    """Each layer of experts, and micro-batch: to them and back, forward and backward."""
    plan = planned(transformer(2, experts=4), (8,), batch=16, micro_batch=1, parallelism={"data": 8, "expert": 4})
    graph = built(plan)
    size, micro_batches, layers = 4 * 8, 2, 2
    assert sent(graph, 3, "all-to-all") == 4 * micro_batches * layers * SENT["all-to-all"](2 * size, 4)
    # Its own expert, of four, is on one of the other seven, too; everything else on all.
    experts = 4 * 8 * 8 * layers
    others = plan.model.parameters - experts
    assert sent(graph, 3, "all-reduce") == SENT["all-reduce"](others, 8) + SENT["all-reduce"](experts // 4, 2)


@settings(max_examples=part_of(25))
@given(
    tensor=st.sampled_from((2, 4)),
    expert=st.sampled_from((1, 2, 4)),
    alike=st.integers(1, 2),
    micro_batches=st.integers(1, 2),
    samples=st.integers(1, 3),
    recompute=st.booleans(),
)
def test_bytes_of_experts_with_sequence_parallelism(
    tensor: int, expert: int, alike: int, micro_batches: int, samples: int, *, recompute: bool
) -> None:
    """Each NPU dispatches its own tokens, and those with the same experts gather and scatter them; nothing twice."""
    blocks, data = 2, expert * alike
    plan = planned(
        transformer(blocks, experts=4),
        (tensor * data,),
        batch=data * micro_batches * samples,
        micro_batch=samples,
        recompute="full" if recompute else "none",
        parallelism={"tensor": tensor, "expert": expert, "sequence": True},
    )
    tokens = 4 * 8 * samples
    forward = 2 if recompute else 1
    if expert > 1:  # each token goes to two experts; who has them keeps them
        gathered, summed = (forward + 1) * 2 * tokens, (forward + 1) * 2 * tokens
    else:  # as an MLP does it: no token goes twice, and they are gathered again for the gradients of the weights
        gathered, summed = (forward + 2) * tokens, (forward + 1) * tokens
    # Attention, and once the embedding and the head.
    gathered = blocks * (gathered + (forward + 2) * tokens) + 3 * tokens
    summed = blocks * (summed + (forward + 1) * tokens) + 2 * tokens
    sharing, graph = Fraction(tensor - 1, tensor), built(plan)
    exchanged = blocks * 2 * (forward + 1) * Fraction(2 * tokens, tensor) * Fraction(expert - 1, expert)
    for npu in range(len(plan.grid)):
        assert sent(graph, npu, "all-gather") == micro_batches * sharing * gathered
        assert sent(graph, npu, "reduce-scatter") == micro_batches * sharing * summed
        assert sent(graph, npu, "all-to-all") == micro_batches * exchanged


def test_bytes_of_experts_without_sequence_parallelism() -> None:
    """Each tensor-parallel NPU has all tokens and dispatches all; behind the way back one sum for each token."""
    plan = planned(transformer(2, experts=4), (8,), batch=4, parallelism={"tensor": 2, "expert": 4})
    graph, size = built(plan), 4 * 8
    assert sent(graph, 5, "all-to-all") == 2 * 4 * SENT["all-to-all"](2 * size, 4)
    assert sent(graph, 5, "all-gather") == sent(graph, 5, "reduce-scatter") == 0
    sums = {call.size for call in graph.calls if call.name.startswith("block 0: experts, sum")}
    assert sums == {size}


@pytest.mark.parametrize("sequence", [False, True])
def test_the_way_of_tokens_to_experts(*, sequence: bool) -> None:
    """What an NPU does of a layer of experts, in the order of time; the weights' gradient while the others travel."""
    own = {"tensor": 2, "expert": 2, "sequence": sequence}
    job = GraphJob(built(planned(transformer(1, experts=2), (4,), batch=2, parallelism=own)))
    hands = FixedHands((4,), lambda size: 1000, lambda size: 0)
    job.begin(hands)
    hands.run()
    graph, times = job.graph, job.times()
    mine = np.flatnonzero((graph.npu == 3) & (graph.layer == graph.layers.index("block 0: experts")))
    told = [
        graph.calls[graph.call[task]].kind if graph.kind[task] == Task.COLLECTIVE else Part(graph.part[task]).name
        for task in sorted(mine.tolist(), key=lambda task: (times.start[task], graph.kind[task]))
    ]
    there, back = ["all-to-all"], ["all-to-all", "all-reduce"]
    if sequence:
        there, back = ["all-to-all", "all-gather"], ["reduce-scatter", "all-to-all"]
    assert told == [*there, "FORWARD", *back, *there, "INPUT_GRADIENT", "WEIGHT_GRADIENT", *back]


def test_bytes_of_a_pipeline() -> None:
    """Activations one way and their gradients the other, whole for each tensor-parallel NPU or its part of them."""
    for sequence, part in ((False, 1), (True, 2)):
        own = {"tensor": 2, "pipeline": 3, "sequence": sequence}
        graph = built(planned(transformer(4), (6,), batch=5, parallelism=own))
        sends = graph.of_kind(Task.SEND)
        assert set(graph.size[sends].tolist()) == {4 * 8 // part}
        count = np.bincount(graph.npu[sends], minlength=6)
        assert count.tolist() == [5, 5, 10, 10, 5, 5]
        # To the same place in the next stage, or in the one before.
        assert set((graph.peer[sends] - graph.npu[sends]).tolist()) == {2, -2}


@pytest.mark.parametrize("zero", [0, 1])
def test_tied_embeddings(zero: int) -> None:
    """First and last stage add up the gradients of what both have; in one stage there is nothing to add."""
    model = transformer(2, tied=True)
    apart = built(planned(model, (8,), batch=4, parallelism={"tensor": 2, "pipeline": 2, "zero": zero}))
    tied = [call for call in apart.calls if "tied" in call.name]
    assert [(call.kind, call.size) for call in tied] == [("all-reduce", 16 * 8 // 2 // (2 if zero else 1))]
    assert sorted(tied[0].groups or ()) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    together = planned(model, (4,), batch=4)
    assert not any("tied" in call.name for call in built(together).calls)
    assert sum(sum(together.held(layer, 0)) for layer in model.layers) == model.parameters


def test_scales() -> None:
    plan = planned(equal_blocks(2), (2,), batch=2, comm_scale=0.5, compute_scale=3)
    assert {call.size for call in built(plan).calls} == {30}
    assert end(plan) == 3 * 2 * 21


# -- what goes on at the same time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("time", "last"), [(10, 4 * 6), (30, 30 + 6)])
def test_gradients_travel_while_other_layers_compute(time: int, last: int) -> None:
    """Four blocks of 21 ns; the optimizer takes 6 for each. Of 10 ns for gradients nothing is seen behind the other
    three steps; of 30 all of the last one's."""
    plan = planned(equal_blocks(4), (2,), Rows(10), batch=2)
    assert end(plan, collective=time) == 4 * 21 + last


@pytest.mark.parametrize(("time", "seen"), [(7, 0), (8, 4 * 1)])
def test_parameters_are_fetched_one_block_ahead(time: int, seen: int) -> None:
    """ZeRO-3: a block of 7 ns forward hides a gather of 7; of 8, one ns is seen at three blocks, and at the last one
    again when it turns round. Backward 14 hide all. The first gather and the last gradients are waited for."""
    plan = planned(equal_blocks(4), (2,), batch=2, parallelism={"zero": 3})
    assert end(plan, collective=time) == time + 4 * 7 + seen + 4 * 14 + time


@pytest.mark.parametrize("time", [6, 20])
def test_input_gradients_travel_while_weight_gradients_are_computed(time: int) -> None:
    """Two layers, each with 4 + 4 rows forward and for the inputs' gradients, 8 + 8/2 for those of the weights."""
    model = Model("one", transformer(1).layers[1:3], "a sample", 4)
    plan = planned(model, (2,), batch=1, parallelism={"tensor": 2})
    forward = 2 * (8 + time)
    # Of the first layer's inputs nobody needs a gradient.
    assert end(plan, collective=time) == forward + 8 + max(12, time) + 12


def test_tables_of_a_recommendation_model() -> None:
    """Vectors travel while the bottom layer computes, their gradients likewise; the interaction needs them."""
    size = 6
    bottom = Layer("bottom", Kind.LINEAR, 1, size, (Gemm("bottom", 5, 1, 1),), Elements(whole=8))
    tables = Layer("tables", Kind.TABLES, 3, size, expert_parameters=1000, dispatched=size)
    mixed = Layer("interaction", Kind.INTERACTION, size, 1, (Gemm("pairs", 3, 1, 1),))
    top = Layer("top", Kind.LINEAR, 1, 1, (Gemm("top", 2, 1, 1),), Elements(whole=8))
    plan = planned(Model("small", (bottom, tables, mixed, top), "a sample"), (2,), batch=2)
    graph = built(plan)
    exchanged = [(call.size, call.dims) for call in graph.calls if call.kind == "all-to-all"]
    assert exchanged == [(size, (0,)), (size, (0,))]
    # Forward the 5 of the bottom hide behind 9. Backward inputs and weights are 2 + 1 of the top, 3 + 1 of the
    # interaction, 1 of the bottom; its gradients are the last.
    assert end(plan, collective=9) == 9 + 3 + 2 + (2 + 1) + (3 + 1) + 1 + 9


# -- the graph itself --------------------------------------------------------------------------------------------------


@settings(max_examples=part_of(20))
@given(data=st.data())
def test_all_kinds_come_to_an_end(data: st.DataObject) -> None:
    """Whatever is combined: it can be carried out, all of it, and in which order NPUs come does not matter."""
    tensor, pipeline, replicas, expert = (data.draw(st.sampled_from((1, 2))) for _ in range(4))
    schedule = data.draw(st.sampled_from(("1f1b", "gpipe", "interleaved"))) if pipeline > 1 else "1f1b"
    experts = data.draw(st.sampled_from((0, 2)))
    expert = expert if experts else 1
    replicas *= expert
    own: dict[str, Any] = {
        "tensor": tensor,
        "pipeline": pipeline,
        "data": replicas,
        "expert": expert,
        "schedule": schedule,
        "zero": data.draw(st.integers(0, 3)) if replicas > 1 else 0,
        "sequence": tensor > 1 and data.draw(st.booleans()),
        "order": data.draw(st.permutations(("tensor", "data", "pipeline"))),
    }
    rounds = data.draw(st.integers(1, 3))
    plan = planned(
        transformer(4, tied=data.draw(st.booleans()), experts=experts),
        (tensor, pipeline * replicas),
        Rows(10),
        batch=rounds * pipeline * replicas,
        micro_batch=1,
        recompute=data.draw(st.sampled_from(("none", "full"))),
        parallelism=own,
    )
    graph = built(plan)
    times = data.draw(st.integers(0, 30)), data.draw(st.integers(0, 30))
    assert end(plan, *times) > 0
    # All layers are there, by name, and all that is computed is computed as often as there are micro-batches.
    assert graph.layers == [layer.name for layer in plan.model.layers]
    forward = (graph.part == Part.FORWARD) & (graph.kind == Task.COMPUTE)
    block = np.isin(graph.layer, [graph.layers.index("block 1: attention")])
    again = 2 if plan.workload.recompute == "full" else 1
    assert np.count_nonzero(forward & block) == tensor * replicas * plan.micro_batches * again


def test_bytes_through_the_memory() -> None:
    """Of a block of 7 x 7 products: three matrices for each of three parts; what the optimizer reads and writes."""
    graph = built(planned(equal_blocks(1), (2,), Rows(10), batch=2, element="2 B"))
    compute = graph.kind == Task.COMPUTE
    told = zip(graph.part[compute].tolist(), graph.size[compute].tolist(), strict=True)
    matrices = 3 * 7 * 7 * 2
    parts = (Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT)
    assert set(told) == {*((part, matrices) for part in parts), (Part.UPDATE, 3 * 60)}


def test_compute_is_one_thing_at_a_time() -> None:
    graph = built(planned(transformer(2), (2,), Rows(10), batch=2, parallelism={"tensor": 2}))
    compute = graph.kind == Task.COMPUTE
    assert (graph.resource[compute] == 0).all()
    assert (graph.resource[~compute] == -1).all()
    assert graph.resources == (("compute", 1),)
    assert GraphJob(graph).graph is graph
