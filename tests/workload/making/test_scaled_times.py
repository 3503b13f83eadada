"""Times on another device: the share of the roofline that a computation reaches stays as it is."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.errors import InputError
from pyxsim.models.devices import devices
from pyxsim.workload.graph import GraphBuilder, Kind
from pyxsim.workload.making.devices import TimeScale, scaled_graph, scaled_node, time_scale

A100, H100 = devices()["a100-80gb"], devices()["h100"]
# bf16: 312 and 989.4 TFLOP/s; 2039 and 3350 GB/s.
COMPUTE_BOUND = Fraction(3120, 9894)
MEMORY_BOUND = Fraction(2039, 3350)


def scale(factor: Fraction | None = None) -> TimeScale:
    found = time_scale("a100-80gb", "h100", factor=factor)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("operations", "size", "factor"),
    [
        (10**12, 10**6, COMPUTE_BOUND),
        (10**12, 0, COMPUTE_BOUND),
        (10**6, 10**9, MEMORY_BOUND),
        (0, 10**9, MEMORY_BOUND),
        # 200 operations per byte: bound by operations on the A100 (153 at its ridge), by memory on the H100 (295).
        (200 * 10**9, 10**9, Fraction(10**9, 3350 * 10**9) / Fraction(200 * 10**9, 312 * 10**12)),
    ],
)
def test_a_computation_scales_with_what_bounds_it(operations: int, size: int, factor: Fraction) -> None:
    assert scale().of_compute(operations, size) == factor


@given(
    st.sampled_from(sorted(devices())),
    st.sampled_from(sorted(devices())),
    st.integers(0, 1 << 50),
    st.integers(1, 1 << 50),
)
def test_there_and_back_is_the_same(one: str, other: str, operations: int, size: int) -> None:
    there, back = time_scale(one, other), time_scale(other, one)
    assert there is not None
    assert back is not None
    factors = there.of_compute(operations, size), back.of_compute(operations, size)
    assert factors[0] is not None
    assert factors[1] is not None
    assert factors[0] * factors[1] == 1
    assert there.of_memory * back.of_memory == 1


def test_tasks_of_a_graph() -> None:
    builder = GraphBuilder(1)
    builder.task(0, Kind.COMPUTE, ticks=1000, match=10**12, size=10**6, resource="compute")
    builder.task(0, Kind.COMPUTE, ticks=1000, size=10**6, resource="compute")
    builder.task(0, Kind.COMPUTE, ticks=1000, resource="cpu")  # of the host
    builder.task(0, Kind.MEMORY, ticks=1000)
    builder.task(0, Kind.MEMORY, size=1000)  # of remote memory
    builder.task(0, Kind.MARK, ticks=1000)
    wanted = [ceil(1000 * COMPUTE_BOUND), ceil(1000 * MEMORY_BOUND), 1000, ceil(1000 * MEMORY_BOUND), 0, 1000]
    assert scaled_graph(builder.graph(), scale(), "x").ticks.tolist() == wanted


def node(kind: NodeType, **attributes: int) -> Node:
    return Node(3, "n", kind, duration_micros=1000, attr=[Attribute(k, "int64_val", v) for k, v in attributes.items()])


@pytest.mark.parametrize(
    ("given_node", "factor"),
    [
        (node(NodeType.COMP, num_ops=10**12, tensor_size=10**6), COMPUTE_BOUND),
        (node(NodeType.COMP, tensor_size=10**6), MEMORY_BOUND),
        (node(NodeType.COMP, tensor_size=10**6, is_cpu_op=1), Fraction(1)),
        (node(NodeType.MEM_LOAD), MEMORY_BOUND),
        (node(NodeType.MEM_LOAD, tensor_size=5), Fraction(1)),
        (node(NodeType.COMM_COLL, comm_size=5), Fraction(1)),
    ],
)
def test_nodes_of_a_trace(given_node: Node, factor: Fraction) -> None:
    found = scaled_node(given_node, scale(), "x")
    picoseconds = ceil(10**9 * factor)
    exact = [attribute.value for attribute in found.attr if attribute.name == "duration_ps"]
    assert (exact or [found.duration_micros * 10**6]) == [picoseconds]
    assert abs(found.duration_micros * 10**6 - picoseconds) <= 500_000  # the nearest microsecond


def test_what_a_trace_does_not_say_needs_a_factor() -> None:
    with pytest.raises(InputError, match="node 3 \\(n\\) has neither num_ops nor tensor_size"):
        scaled_node(node(NodeType.COMP), scale(), "x")
    assert scaled_node(node(NodeType.COMP), scale(Fraction(1, 2)), "x").duration_micros == 500
    assert scaled_node(node(NodeType.COMP, num_ops=9), TimeScale(factor=Fraction(2)), "x").duration_micros == 2000


@pytest.mark.parametrize(
    ("old", "new", "precision", "text"),
    [
        ("a100", "h100", None, "from_device: unknown device 'a100'"),
        ("h100", "a100-80", None, "did you mean 'a100-80gb'?"),
        ("h100", None, None, "to_device: is required to scale times to another device"),
        (None, "h100", None, "from_device: is required to scale times to another device"),
        (None, None, "bf16", "precision: needs two devices"),
        ("h100", "tpu-v4", "fp8", "precision: the device 'tpu-v4' has no peak for fp8"),
    ],
)
def test_wrong_devices(old: str | None, new: str | None, precision: str | None, text: str) -> None:
    with pytest.raises(InputError) as error:
        time_scale(old, new, precision)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_nothing_to_scale() -> None:
    assert time_scale(None, None) is None
