"""Texts of SimAI: their header, and which NPUs each collective joins."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.settings import Workload
from pyxsim.workload.graph import TaskGraph, check
from pyxsim.workload.logical_dims import logical_dims
from pyxsim.workload.simai_groups import groups_of
from pyxsim.workload.text_workload import Groups, TextWorkload, read_text_workload
from pyxsim.workload.training_loop import LoopOptions, training_loop
from tests.examples import part_of

SAMPLE = Path("inputs/simai/moe.txt")
HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2"
END = "checkpoints: 0 checkpoint_initiates: 0"
LAYER = "a -1 5 NONE 0 5 NONE 0 5 {} {} 5"


def text(tmp_path: Path, sizes: str, *layers: str, tail: str = "") -> TextWorkload:
    path = tmp_path / "w.txt"
    rows = layers or (LAYER.format("ALLREDUCE", 8192),)
    path.write_text("\n".join([f"{HEAD} {sizes} {END} {tail}", str(len(rows)), *rows]) + "\n")
    return read_text_workload(path)


def loop(workload: TextWorkload, npus: int) -> TaskGraph:
    graph = training_loop(workload, Workload(file="w.txt"), logical_dims(workload, (npus,)), LoopOptions())[0]
    check(graph, (npus,))
    return graph


def test_header_in_any_order(tmp_path: Path) -> None:
    groups = text(tmp_path, "ep: 4 pp: 3 vpp: 8 ga: 24 all_gpus: 48", tail="pp_comm 5033").groups
    assert groups == Groups(4, 3, 8, 24, 48, 5033)
    assert text(tmp_path, "all_gpus: 8 ep: 2", tail="pp_comm: 0").groups == Groups(expert=2, npus=8)
    assert text(tmp_path, "").groups is None
    # AICB's older texts have no sizes, but words that ASTRA-sim 1 does not have.
    assert text(tmp_path, "", LAYER.format("BROADCAST", 5)).groups == Groups()
    assert text(tmp_path, "", LAYER.format("ALLTOALL_EP", 5)).groups == Groups()


def test_groups_by_closed_form(tmp_path: Path) -> None:
    """NPU = (d * ep + e) * tp + t."""
    groups = groups_of(text(tmp_path, "ep: 3 pp: 1 all_gpus: 24"), 24)
    for npu in range(24):
        rest, t = divmod(npu, 2)
        d, e = divmod(rest, 3)
        mine = {name: next(group for group in of if npu in group) for name, of in groups.items()}
        assert mine["TP"] == tuple(rest * 2 + i for i in range(2))
        assert mine["EP"] == tuple((d * 3 + i) * 2 + t for i in range(3))
        assert mine["DP_EP"] == tuple((i * 3 + e) * 2 + t for i in range(4))
        assert mine["DP"] == tuple(i * 2 + t for i in range(12))
    for of in groups.values():
        assert sorted(npu for group in of for npu in group) == list(range(24))


def test_one_stage_or_all_npus(tmp_path: Path) -> None:
    workload = text(tmp_path, "ep: 2 pp: 3 all_gpus: 24")
    assert len(groups_of(workload, 8)["DP"][0]) == 4
    assert len(groups_of(workload, 24)["DP"][0]) == 12
    with pytest.raises(InputError, match=r"is not for 16 NPUs; allowed: 8, one pipeline stage, or 24"):
        groups_of(workload, 16)


def test_what_each_collective_joins() -> None:
    calls = {call.name: call for call in loop(read_text_workload(SAMPLE), 8).calls}
    tensor, expert = ((0, 1), (2, 3), (4, 5), (6, 7)), ((0, 2), (1, 3), (4, 6), (5, 7))
    data, of_expert = ((0, 2, 4, 6), (1, 3, 5, 7)), ((0, 4), (1, 5), (2, 6), (3, 7))
    seen = {name.removesuffix(", pass 0"): (call.kind, call.groups, call.size) for name, call in calls.items()}
    assert seen == {
        "attention, forward": ("all-reduce", tensor, 2**20),
        "attention, input gradient": ("all-reduce", tensor, 2**20),
        "moe, forward": ("all-to-all", expert, 2**21),
        "moe, input gradient": ("all-to-all", expert, 2**21),
        "grad_gather, weight gradient": ("all-gather", data, 2**20),  # a shard of 4 MiB for each of 4 NPUs
        "moe_grad, weight gradient": ("reduce-scatter", of_expert, 2**23),
    }


def test_a_group_of_all_npus_and_of_one(tmp_path: Path) -> None:
    layers = ("a -1 5 ALLREDUCE 1 5 ALLTOALL_EP 9 5 ALLREDUCE_DP_EP 64 5",)
    graph = loop(text(tmp_path, "ep: 1 all_gpus: 2", *layers), 2)
    assert [(call.kind, call.groups, call.size) for call in graph.calls] == [("all-reduce", None, 4096)]


def test_sample_runs_on_packets() -> None:
    result = run("inputs/simai/moe.toml", backend="analytical-congestion")
    computing = 40000 + 80000 + 60000 + 120000 + 5000 + 5000
    assert result.time_ns > computing
    assert len(result.collectives) == 2 * 2 + 2


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [
        ("ep: 0 all_gpus: 8", "a parallel group of 0 NPUs"),
        ("ep: 3 all_gpus: 8", "8 NPUs are not a multiple of tp 2 x pp 1 x ep 3"),
        ("ep: x", "'x' is not a number after ep:"),
        ("epp: 3", "'epp:' instead of 'checkpoints:'"),
    ],
)
def test_faults_of_the_header(tmp_path: Path, sizes: str, fault: str) -> None:
    with pytest.raises(InputError) as error:
        text(tmp_path, sizes)
    assert fault in str(error.value)


def test_faults_of_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"w.txt:3: unknown communication 'ALLTOALL_PP'.*ALLTOALL_EP"):
        text(tmp_path, "ep: 1", LAYER.format("ALLTOALL_PP", 5))
    with pytest.raises(InputError, match="unknown communication 'NONE_EP'"):
        text(tmp_path, "ep: 1", LAYER.format("NONE_EP", 5))
    (tmp_path / "m.txt").write_text(f"MICRO\n1\n{LAYER.format('ALLREDUCE_EP', 5)}\n")
    with pytest.raises(InputError, match="unknown communication 'ALLREDUCE_EP'"):
        read_text_workload(tmp_path / "m.txt")


def test_astra_sim_does_not_read_them() -> None:
    network = {"topology": "ring", "shape": [8], "bandwidth": "50 GB/s", "latency": "500 ns"}
    table = {"network": network, "system": {"compat": "astra-sim-1"}, "workload": {"file": str(SAMPLE)}}
    with pytest.raises(InputError, match=r"system.compat: .* is a text of SimAI"):
        run(table, backend="analytical")


CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4)), min_size=1, max_size=4)


@given(CHANGES)
@settings(max_examples=part_of(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutations_raise_input_errors_only(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(SAMPLE.read_bytes())
    for place, new in changes:
        at = place % (len(data) + 1)
        data[at : at + len(new) if place % 2 else at + 1] = new
    path = tmp_path / "m.txt"
    path.write_bytes(bytes(data))
    with suppress(InputError):
        loop(read_text_workload(path), 8)
