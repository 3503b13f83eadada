"""The face of the system layer: collectives one after the other and at once, messages, what is seen of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.communicator import Communicator
from pyxsim.compat.astra.system import AstraSystem
from pyxsim.errors import StuckError
from pyxsim.system import make_system
from tests.compat.astra.system.originals import network, system
from tests.examples import part_of

E, HOP = 10, 500  # ns: an endpoint, and a flight of little more than the latency


def torus(compat: str = "astra-sim-2", npus: tuple[int, ...] = (4, 2), **options: Any) -> AstraSystem:
    blocks = ["FullyConnected"] * len(npus)
    net = network(compat, blocks, npus, [50] * len(npus), [HOP] * len(npus))
    return system(net, compat, ["ring"] * len(npus), **options)


def test_make_system_chooses() -> None:
    layer = torus()
    assert isinstance(make_system(layer.network, layer.shape, layer.options), AstraSystem)


def test_one_after_the_other() -> None:
    layer = torus(npus=(4,))
    seen: list[tuple[str, int]] = []

    def again(first: Any) -> None:
        seen.append((first.name, layer.cycle))
        layer.issue("all-gather", 4, at=layer.cycle, name="second", done=lambda c: seen.append((c.name, c.end)))

    first = layer.issue("all-gather", 4, at=100, name="first", done=again)
    assert first.end == -1
    end = layer.run()
    assert seen == [("first", first.end), ("second", end)]
    assert first.end == 100 + 4 * E + 3 * HOP
    assert end == first.end + 4 * E + 3 * HOP
    assert layer.ends(first).tolist() == [first.end] * 4


@pytest.mark.parametrize(("scheduling", "order"), [("LIFO", [0, 2, 1]), ("FIFO", [0, 1, 2]), ("explicit", [0, 2, 1])])
def test_who_is_first_in_a_queue(scheduling: str, order: list[int]) -> None:
    layer = torus(npus=(4,), scheduling=scheduling)
    issued = [layer.issue("all-gather", 4, at=number, priority=number) for number in range(3)]
    layer.run()
    # The first one is at work before the others are there.
    assert np.argsort([each.end for each in issued]).tolist() == [order.index(number) for number in range(3)]


def test_active_chunks() -> None:
    alone = torus(npus=(4,), chunks=4)
    alone.issue("all-gather", 64)
    together = torus(npus=(4,), chunks=4, active=4)
    together.issue("all-gather", 64)
    assert alone.run() == 4 * together.run()


@pytest.mark.parametrize(("compat", "alike"), [("astra-sim-1", True), ("astra-sim-2", False)])
def test_version_1_goes_from_phase_to_phase_together(compat: str, alike: bool) -> None:
    # The leaves of the tree are done later than its other members.
    layer = torus(compat)
    layer.issue("reduce-scatter", 2**10, algorithms=["double-binary-tree", "ring"])
    layer.run()
    table = layer.chunk_table()
    ready = table["ready"][table["phase"] == 1]
    assert len(ready) == 8
    assert (len(set(ready.tolist())) == 1) == alike


def test_all_groups_along_a_dimension_are_one_collective_in_version_1() -> None:
    layer = torus("astra-sim-1")
    groups = Communicator.along((0,), (4, 2))
    issued = [layer.issue("all-gather", 4, communicator=group, name=f"group {group.members[0]}") for group in groups]
    whole = layer.issue("all-gather", 4)
    assert layer.run() == whole.end
    assert [each.end for each in issued] == [4 * E + 3 * HOP] * 2
    assert [layer.ends(each).tolist() for each in issued] == [[4 * E + 3 * HOP] * 4] * 2
    table = layer.chunk_table()
    assert table["collective"].tolist() == [0] * 4 + [1] * 4 + [2] * 16
    assert table["chunk"].tolist() == [0] * 8 + [1] * 16
    first, second, all_of_it = (layer.traffic([layer.collectives[number]]) for number in range(3))
    assert set(first[:, 0].tolist()) == set(range(4))
    assert set(second[:, 0].tolist()) == set(range(4, 8))
    assert len(all_of_it) == 16
    assert layer.traffic()[:, 4].sum() == table["messages"].sum()


def test_traffic_of_what_is_issued_later() -> None:
    """What belongs to which collective is found again when there is more; all of them together have all messages."""
    layer = torus("astra-sim-1")
    for number in range(3):
        layer.issue("all-reduce", 4096 * (number + 1))
        each = [layer.traffic([layer.collectives[other]]) for other in range(number + 1)]
        assert all(len(rows) for rows in each)
        sent = [int((rows[:, 3] * rows[:, 4]).sum()) for rows in (*each, layer.traffic())]
        assert sum(sent[:-1]) == sent[-1]
        assert sent[number] == (number + 1) * sent[0]


def test_a_message() -> None:
    layer = torus()
    seen: list[int] = []
    message = layer.send(1, 6, 1000, at=7, done=lambda m: seen.append(m.end))
    early = layer.send(0, 1, 10)
    assert layer.run() == message.end == 7 + HOP + 18  # 1000 bytes at 53.7 bytes per ns
    assert seen == [message.end]
    assert early.end == HOP
    assert layer.bytes_planned == 1010
    assert layer.traffic().tolist() == [[0, 1, 0, 10, 1], [1, 6, 0, 1000, 1]]


@settings(max_examples=part_of(30), deadline=None)
@given(
    compat=st.sampled_from(["astra-sim-1", "astra-sim-2"]),
    names=st.lists(st.sampled_from(["ring", "direct", "direct:2", "halving-doubling"]), min_size=2, max_size=2),
    kind=st.sampled_from(["all-reduce", "reduce-scatter", "all-gather"]),
    optimization=st.sampled_from(["baseline", "localBWAware"]),
    queues=st.integers(1, 3),
    chunks=st.integers(1, 3),
)
def test_what_is_planned_is_sent(
    compat: str, names: list[str], kind: str, optimization: str, queues: int, chunks: int
) -> None:
    net = network(compat, ["Ring", "Switch"], [4, 2], [50, 25], [500, 20])
    layer = system(net, compat, names, queues=queues, chunks=chunks, optimization=optimization)
    layer.issue(kind, 4096 * chunks)
    layer.issue("all-to-all", 4096 * chunks, at=300, algorithms=["ring", "direct"])
    rows = layer.traffic()
    for phase in layer.schedules():
        prove(phase.schedule())
    layer.run()
    assert (rows[:, 3] * rows[:, 4]).sum() == layer.bytes_planned == net.bytes_delivered
    assert rows[:, 4].sum() == net.engine.delivered
    table = layer.chunk_table()
    assert table["messages"].sum() == net.engine.delivered
    assert (table["ready"] >= 0).all()
    assert (table["start"] >= table["ready"]).all()
    assert (table["end"] > table["start"]).all()
    assert set(table["queue"].tolist()) <= set(range(queues))
    assert table["chunk"].max() + 1 == 2 * chunks


# -- groups ------------------------------------------------------------------------------------------------------------


def test_a_list_is_one_ring_with_endpoints_of_its_own() -> None:
    layer = torus(npus=(4, 2), endpoint_delay=77)
    group = Communicator((7, 0, 5), (3,), (-1,))
    collective = layer.issue("all-gather", 4, communicator=group)
    assert layer.run() == 3 * 10 + 2 * HOP
    rows = layer.traffic()
    assert rows[:, :2].tolist() == [[0, 5], [5, 7], [7, 0]]
    assert layer.ends(collective).tolist() == [3 * 10 + 2 * HOP] * 3
    table = layer.chunk_table()
    assert (table["rank"].tolist(), set(table["dimension"].tolist())) == ([7, 0, 5], {-1})


def test_a_list_takes_the_algorithm_of_a_network_of_one_dimension() -> None:
    net = network("astra-sim-2", ["FullyConnected"], [8], [50], [HOP])
    layer = system(net, "astra-sim-2", ["direct"])
    layer.issue("all-to-all", 64, communicator=Communicator((1, 6, 3, 4), (4,), (-1,)))
    assert layer.run() == 2 * 10 + HOP


def test_a_list_of_all_is_no_group() -> None:
    ends = set()
    for group in (None, Communicator(tuple(range(8))[::-1], (8,), (-1,))):
        layer = torus(endpoint_delay=77)
        layer.issue("all-reduce", 2**16, communicator=group)
        ends.add(layer.run())
    assert len(ends) == 1


def test_some_dimensions() -> None:
    layer = torus(npus=(4, 2))
    for group in Communicator.along((0,), (4, 2)):
        layer.issue("all-gather", 4, communicator=group)
    assert layer.run() == 4 * E + 3 * HOP
    assert set(layer.chunk_table()["dimension"].tolist()) == {0}


def test_one_npu_has_nothing_to_do() -> None:
    layer = torus()
    collective = layer.issue("all-reduce", 4, at=5, communicator=Communicator((3,), (1,), (-1,)))
    assert layer.run() == collective.end == 5


# -- what never ends ---------------------------------------------------------------------------------------------------


class Lossy:
    """A network that loses what a pair of NPUs sends."""

    def __init__(self, net: Any, src: int) -> None:
        self.net = net
        self.src = src
        self.sources: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.net, name)

    def advance(self, until: int | None, *, slack: int = 0) -> Any:
        while True:
            messages, cycles = self.net.advance(until, slack=slack)
            kept = [number for number in range(len(messages)) if self.sources[int(messages[number])] != self.src]
            if kept or not len(messages):
                return messages[kept], cycles[kept]

    def send_many(self, src: Any, dst: Any, nbytes: Any, plane: Any, at: int, tag: Any = 0) -> int:
        self.sources = self.sources + src.tolist()
        return int(self.net.send_many(src, dst, nbytes, plane, at, tag))


@pytest.mark.parametrize(
    ("algorithm", "who"),
    [("ring", "NPU 3"), ("direct", "NPU 2"), ("halving-doubling", "NPU 3"), ("double-binary-tree", "NPU 2")],
)
def test_who_waits_is_told(algorithm: str, who: str) -> None:
    net = network("astra-sim-2", ["FullyConnected"], [4], [50], [HOP])
    layer = system(net, "astra-sim-2", [algorithm], chunks=2, reduction_bytes_per_cycle=Fraction(50))
    layer.network = Lossy(net, int(who[-1]))
    layer.issue("all-reduce", 64, name="gradients")
    with pytest.raises(StuckError, match="but some work has not ended: NPU") as caught:
        layer.run()
    lines = [str(caught.value), *caught.value.waits]
    assert any(f"of the gradients waits for messages from {who}" in line for line in lines)
    assert any("chunk 1, phase 0 (all-reduce) of the gradients waits for its turn" in line for line in lines)
