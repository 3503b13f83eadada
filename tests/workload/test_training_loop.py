"""The training loops as graphs against a machine with states, on a system layer where collectives take a fixed time."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings import Workload
from pyxsim.workload import Layer, TextWorkload, read_text_workload
from pyxsim.workload.graph import Kind
from pyxsim.workload.logical_dims import layer_dims, logical_dims
from pyxsim.workload.text_workload import (
    CUSTOMIZED,
    DLRM,
    PARALLELISMS,
    POLICIES,
    RECOMPUTING,
    TRANSFORMER,
    Header,
    Pass,
)
from pyxsim.workload.training_job import TrainingLoopJob
from pyxsim.workload.training_loop import HIGHEST, SHORT, LoopOptions, training_loop
from tests.examples import part_of
from tests.workload.services import FixedHands
from tests.workload.slow_loops import FORWARD, INPUTS, WEIGHTS, SlowLoop

LOOPS = [word for word in PARALLELISMS if word != "MICRO"]
KINDS = (None, "all-reduce", "all-to-all", "all-gather", "reduce-scatter")
PARTS = {"fwd": FORWARD, "wg": WEIGHTS, "ig": INPUTS}
ONCE = Workload(file="work.txt")


@st.composite
def passes_of_a_layer(draw: st.DrawFn) -> Pass:
    # Bytes are cycles here; equal times of different things are likely, as ties are what may go wrong.
    return Pass(draw(st.integers(0, 9)), draw(st.sampled_from(KINDS)), draw(st.integers(1, 40)))


@st.composite
def texts(draw: st.DrawFn) -> TextWorkload:
    word = draw(st.sampled_from(LOOPS))
    count = draw(st.integers(1, 6))
    policies = st.sampled_from(POLICIES) if word == CUSTOMIZED else st.none()
    part = passes_of_a_layer()
    layers = tuple(
        Layer(f"l{i}", draw(part), draw(part), draw(part), draw(st.integers(0, 5)), draw(policies))
        for i in range(count)
    )
    header = Header(word)
    if word in DLRM:
        header = Header(word, last_bottom=draw(st.integers(0, count)))
    elif word in TRANSFORMER:
        npus = draw(st.sampled_from((1, 2, 4, 8)))
        kept = draw(st.sets(st.integers(0, count - 1))) if word == RECOMPUTING else set()
        # One restart behind each checkpoint, or none.
        spans = [range(begin + 1, end) for begin, end in pairwise([*sorted(kept), count])]
        restarts = [draw(st.sampled_from(span)) for span in spans if span and draw(st.booleans())]
        header = Header(word, model_npus=npus, checkpoints=tuple(sorted(kept)), restarts=tuple(restarts))
    return TextWorkload("work.txt", header, layers)


@settings(max_examples=part_of(100))
@given(texts(), st.integers(1, 3), st.sampled_from((0, 1)), st.sampled_from((0, 13)))
def test_the_machine_with_states(text: TextWorkload, passes: int, step: int, start: int) -> None:
    """Everything that is told of each layer, and when each pass is over."""
    shape = (2, 4)
    dims = logical_dims(text, shape)
    spread = layer_dims(text, dims)

    def time(layer: int, part: str) -> int | None:
        own = text.layers[layer]
        along = spread[layer].weights if part == WEIGHTS else spread[layer].activations
        wanted = {FORWARD: own.forward, WEIGHTS: own.weight_gradient, INPUTS: own.input_gradient}[part]
        return wanted.size if math.prod(dims.shape[dim] for dim in along) > 1 else None

    slow = SlowLoop(text, passes, time, step, start)
    job = TrainingLoopJob(text, Workload(file="work.txt", passes=passes), dims, LoopOptions(start=start, step=step))
    hands = FixedHands(dims.shape)
    job.begin(hands)
    hands.run()
    assert job.left == 0
    assert job.pass_ends() == slow.ends
    assert job.end == slow.finished
    layers = job.layers()
    assert set(layers["finished"].tolist()) == {slow.finished}
    for short, part in PARTS.items():
        assert layers[f"{short}_compute"].tolist() == [books.compute[part] for books in slow.books]
        assert layers[f"{short}_comm"].tolist() == [books.comm[part] for books in slow.books]
        assert layers[f"{short}_exposed"].tolist() == [books.exposed[part] for books in slow.books]


def text_of(word: str, layers: int = 3, **header: int) -> TextWorkload:
    part = Pass(10, "all-reduce", 100)
    rows = tuple(Layer(f"l{i}", part, part, part, 5, "DATA" if word == CUSTOMIZED else None) for i in range(layers))
    return TextWorkload("work.txt", Header(word, **header), rows)


@pytest.mark.parametrize(
    ("word", "activations", "weights"),
    [
        ("DATA", (), (0, 1, 2)),
        ("MODEL", (0, 1, 2), ()),
        ("DISTRIBUTED_INFERENCE", (0, 1, 2), ()),
        ("HYBRID_DATA_MODEL", (0,), (1, 2)),
        ("HYBRID_MODEL_DATA", (1, 2), (0,)),
        ("HYBRID_DLRM", (), (0, 1, 2)),
        ("HYBRID_DLRM_ENHANCED", (), (0, 1, 2)),
        (CUSTOMIZED, (), (0, 1, 2)),
    ],
)
def test_dimensions(word: str, activations: tuple[int, ...], weights: tuple[int, ...]) -> None:
    """Those of the table of the original's decode_involved_dimensions; DLRM's embeddings are everywhere."""
    text = text_of(word)
    first, *others = layer_dims(text, logical_dims(text, (4, 4, 4)))
    assert all((each.activations, each.weights) == (activations, weights) for each in others)
    assert first.activations == ((0, 1, 2) if word in DLRM else activations)


@pytest.mark.parametrize(
    ("npus", "shape", "model", "broken"),
    [
        (1, (4, 4, 4), 0, None),
        (2, (2, 2, 4, 4), 1, 0),
        (4, (4, 4, 4), 1, None),
        (8, (4, 2, 2, 4), 2, 1),
        (16, (4, 4, 4), 2, None),
        (32, (4, 4, 2, 2), 3, 2),
        (64, (4, 4, 4), 3, None),
    ],
)
def test_a_model_may_end_within_a_dimension(npus: int, shape: tuple[int, ...], model: int, broken: int | None) -> None:
    dims = logical_dims(text_of("HYBRID_TRANSFORMER", model_npus=npus), (4, 4, 4))
    assert (dims.shape, dims.model, dims.broken) == (shape, model, broken)


@pytest.mark.parametrize("npus", [3, 6, 12, 48, 128])
def test_a_model_that_does_not_fit(npus: int) -> None:
    with pytest.raises(InputError, match=rf"work\.txt: .*copy of the model on {npus} NPUs .* network of 4 x 4 x 4"):
        logical_dims(text_of("HYBRID_TRANSFORMER", model_npus=npus), (4, 4, 4))


def priorities(text: TextWorkload, *, newest_first: bool = True) -> list[int | None]:
    graph, _ = training_loop(text, ONCE, logical_dims(text, (4, 4)), LoopOptions(newest_first=newest_first))
    return [call.priority for call in graph.calls]


def test_priorities() -> None:
    """One counter for all, up for what is to overtake, down for what is not; what nobody takes part in counts, too."""
    # Forward: l0, l1; backward: ig and wg of l1, wg of l0.
    assert priorities(text_of("HYBRID_DATA_MODEL", 2)) == [0, 1, 2, 3, 2]
    assert priorities(text_of("HYBRID_DATA_MODEL", 2), newest_first=False) == [0, -1, -2, -1, -2]
    # Its forward collectives and gradients of activations have no NPUs: they take 0, 1, 2.
    assert priorities(text_of(CUSTOMIZED, 2)) == [3, 2]
    layer = Layer("e", Pass(1, "all-to-all", 8), Pass(1, "all-to-all", 8), Pass(1, "all-reduce", 8), 0)
    dlrm = TextWorkload("work.txt", Header("HYBRID_DLRM", last_bottom=0), (layer, layer))
    # Forward of the embeddings; weights of l1; gradients of the embeddings; weights of l0.
    assert priorities(dlrm) == [HIGHEST, 0, HIGHEST, 1]


@pytest.mark.parametrize(("number", "size"), [(Fraction, 29), (float, 28)])
def test_scales_are_cut_off(number: Callable[[Fraction], Fraction | float], size: int) -> None:
    """To whole ns and bytes; as a double 0.29 times 100 is less than 29."""
    scaled = Workload(file="work.txt", comm_scale=Fraction(29, 100), compute_scale=Fraction(1, 3))
    text = text_of("DATA", 1)
    graph, record = training_loop(text, scaled, logical_dims(text, (4,)), LoopOptions(number=number))
    assert [call.size for call in graph.calls] == [size]
    assert record.compute == {(0, "forward"): 3, (0, "weight gradient"): 3}
    assert set(SHORT.values()) == set(PARTS)


def test_times_are_rounded_up_to_cycles() -> None:
    text = text_of("DATA", 1)
    _, record = training_loop(text, ONCE, logical_dims(text, (4,)), LoopOptions(cycles_per_ns=Fraction(1, 3)))
    assert record.compute[0, "forward"] == 4


def test_more_passes_than_can_be_kept() -> None:
    layer = Layer("a", *[Pass(1, "all-reduce", 8)] * 3, 1)
    text = TextWorkload("work.txt", Header("DATA"), (layer,))
    many = Workload(file="work.txt", passes=2**20)
    with pytest.raises(InputError, match=r"1048576 passes of \d+ tasks are too many; allowed: at most"):
        training_loop(text, many, logical_dims(text, (8, 8)), LoopOptions())
    with pytest.raises(InputError, match=r"1 layers on 1073741824 NPUs are too many tasks"):
        training_loop(text, ONCE, logical_dims(text, (2**30,)), LoopOptions())


def test_nothing_to_send_would_never_end() -> None:
    scaled = Workload(file="work.txt", comm_scale=Fraction(1, 1000))
    text = text_of("MODEL", 1)
    with pytest.raises(InputError, match=r"work\.txt: layer 'l0', forward: all-reduce of 0 bytes would never end"):
        training_loop(text, scaled, logical_dims(text, (4,)), LoopOptions())


PEER = """{word}
3
a -1 3000 {f} 2000 {i} 1000 {w} 0
b -1 1000 {f2} 5000 {i2} 2000 {w2} 0
c -1 2000 {f} 1000 {i2} 4000 {w} 0
"""
FULL = {"f": "ALLREDUCE 1500", "f2": "ALLGATHER 700", "i": "ALLTOALL 2500", "i2": "REDUCESCATTER 9000"}
FULL |= {"w": "ALLREDUCE 6500", "w2": "ALLREDUCE 12500"}
HYBRID = [0, 4500, 6200, 9700, 10700, 19700, 24700, 33700, 35700]
HYBRID += [43200, 47700, 49400, 52900, 53900, 62900, 67900, 76900, 78900]


@pytest.mark.parametrize(
    ("word", "without", "starts", "end"),
    [
        (
            "DATA",
            "fi",
            [0, 3000, 4000, 6000, 10000, 11000, 13000, 18000, 25500, 28500, 29500, 31500, 35500, 36500, 38500, 43500],
            51000,
        ),
        (
            "MODEL",
            "w",
            [*HYBRID[:9], *(each + 36700 for each in HYBRID[:9])],
            73400,
        ),
        ("HYBRID_DATA_MODEL", "", HYBRID, 86400),
        ("HYBRID_MODEL_DATA", "", HYBRID, 86400),
    ],
)
def test_chakras_own_converter(word: str, without: str, starts: list[int], end: int, tmp_path: Path) -> None:
    """An independent peer: when each computation of two passes begins in the traces that Chakra's text_converter.py
    (github.com/mlcommons/chakra, commit 21585d8) makes of these texts, where collectives take a cycle for each byte
    (its microseconds taken for nanoseconds)."""
    parts = {name: "NONE 0" if name[0] in without else said for name, said in FULL.items()}
    (tmp_path / "work.txt").write_text(PEER.format(word=word, **parts), encoding="utf-8")
    text = read_text_workload(tmp_path / "work.txt")
    job = TrainingLoopJob(text, Workload(file="work.txt", passes=2), logical_dims(text, (2, 2)), LoopOptions())
    hands = FixedHands((2, 2))
    job.begin(hands)
    hands.run()
    computing = job.graph.of_kind(Kind.COMPUTE)
    own = computing[job.graph.npu[computing] == 0]
    assert job.times().start[own].tolist() == starts
    assert job.end == end


def test_the_slow_machine_by_hand(tmp_path: Path) -> None:
    """DATA, two layers, one pass: forward 10 + 20; back 7, then 3 (inputs), then 5; collectives of 100 and 30 and 1."""
    path = tmp_path / "work.txt"
    path.write_text("DATA\n2\na -1 10 NONE 0 9 NONE 0 5 ALLREDUCE 30 1\nb -1 20 NONE 0 3 NONE 0 7 ALLREDUCE 100 1\n")
    slow = SlowLoop(read_text_workload(path), 1, lambda layer, part: (30, 100)[layer])
    over = 10 + 1 + 20 + 1 + 7 + 1 + 3 + 1 + 5
    assert slow.ends == [over]
    assert slow.finished == 10 + 1 + 20 + 1 + 7 + 101
    # At the end, a cycle after the pass, layer 0's collective has 30 + 1 - 1 cycles to go.
    assert [books.exposed[WEIGHTS] for books in slow.books] == [30, 0]
