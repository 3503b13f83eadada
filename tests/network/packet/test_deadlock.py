"""Deadlock: refused where the routes allow it, found and named where it happens all the same, never with datelines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.packet.watchdog import deadlock_error
from pyxsim.routing import prove
from tests.examples import part_of
from tests.network.machines import drain, packet_network


def everybody_to_everybody(network: PacketNetwork, size: int, *, plane: int = 0, at: int = 0) -> int:
    """All pairs at once; returns how many messages."""
    count = 0
    for src in range(network.npus):
        for step in range(1, network.npus):
            network.send(src, (src + step) % network.npus, size, plane=plane, at=at)
            count += 1
    return count


def ring_without_datelines(vcs: int, **network: object) -> PacketNetwork:
    """Garnet's unidirectional ring of 8 NPUs."""
    return packet_network("garnet-torus", [8, 1, 1], latency=[3, 1, 1], router={"vcs": vcs, "buffer": 4, **network})


def test_a_ring_without_datelines_is_not_proved() -> None:
    network = ring_without_datelines(2)
    pairs = network.topology.pairs()
    with pytest.raises(DeadlockError, match="8 channels can form a cycle") as caught:
        prove(network.topology.relation, pairs[pairs[:, 2] == 0])
    assert len(caught.value.cycle) == 8
    # One hop only is safe.
    prove(network.topology.relation, pairs[(pairs[:, 2] == 0) & (pairs[:, 1] == (pairs[:, 0] + 1) % 8)])


@pytest.mark.parametrize("vcs", [1, 2])
def test_it_deadlocks_and_the_circle_is_named(vcs: int) -> None:
    network = ring_without_datelines(vcs)
    everybody_to_everybody(network, 64)
    with pytest.raises(DeadlockError) as caught:
        drain(network)
    error = caught.value
    assert f"deadlock in cycle {network.now}: " in str(error)
    assert "nothing can move" in str(error)
    # Every name is a VC of a ring link; each link of the circle leads to the next one.
    assert len(error.cycle) >= 8
    links = []
    for name in error.cycle:
        link, _, rest = name.partition(" VC ")
        assert link.startswith("d0LocalEast0:")
        number, _, message = rest.partition(" (message ")
        assert 0 <= int(number) < vcs
        assert message.endswith(")")
        links.append(link.removeprefix("d0LocalEast0:").split("->"))
    for (_, end), (start, _) in pairwise([*links, links[0]]):
        assert end == start
    assert network.engine.flits_in_flight > 0
    network.engine.check()


def test_time_and_counters_stand_still_after_a_deadlock() -> None:
    network = ring_without_datelines(1)
    sent = everybody_to_everybody(network, 64)
    with pytest.raises(DeadlockError):
        drain(network)
    counts = network.counts()
    assert counts["messages"] < sent
    assert counts["bytes_delivered"] == 64 * counts["messages"]
    with pytest.raises(DeadlockError):
        network.advance(None)
    assert network.counts() == counts


def test_enough_vcs_hide_it() -> None:
    """With a VC for every packet nobody waits for a VC: nothing proves that, but it ends."""
    network = ring_without_datelines(64)
    sent = everybody_to_everybody(network, 8)
    assert len(drain(network)) == sent


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda shape: 2 <= _product(shape) <= 24),
    bidirectional=st.booleans(),
    vcs=st.integers(2, 5),
    buffer=st.integers(1, 4),
    sizes=st.lists(st.tuples(st.integers(0, 23), st.integers(0, 23), st.integers(1, 40)), max_size=40),
    reuse=st.sampled_from(["tail", "drained"]),
    pipeline=st.sampled_from(["booksim", "garnet"]),
    output_queue=st.booleans(),
)
@settings(max_examples=part_of(60))
def test_a_torus_never_deadlocks(
    shape: list[int],
    bidirectional: bool,
    vcs: int,
    buffer: int,
    sizes: list[tuple[int, int, int]],
    reuse: str,
    pipeline: str,
    output_queue: bool,
) -> None:
    """All-to-all and random messages on top, with the fewest VCs and the smallest buffers: datelines see it through."""
    network = packet_network(
        "torus",
        shape,
        options={"bidirectional": bidirectional},
        packet="16 B",
        latency=2,
        router={"vcs": vcs, "buffer": buffer, "vc_reuse": reuse, "pipeline": pipeline, "output_queue": output_queue},
    )
    npus, planes = network.npus, network.topology.planes
    sent = sum(everybody_to_everybody(network, 24, plane=plane) for plane in range(planes))
    for src, dst, size in sizes:
        network.send(src % npus, dst % npus, size, plane=size % planes, at=size)
    prove(network.topology.relation)
    assert len(drain(network)) == sent + len(sizes)
    network.engine.check()
    assert network.engine.flits_in_flight == 0


def _product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


# -- the words of the error --------------------------------------------------------------------------------------------


def entry(link: int, *, vc: int = 0) -> dict[str, int]:
    return {"link": link, "vc": vc, "message": 10 * link}


def told(reasons: dict[int, list[int]], cycle: int = 5, *, others_move: bool = False) -> DeadlockError:
    """The error of packets at the ends of links 0, 1, .. of which each waits for others."""
    stuck = [entry(link) for link in range(max(reasons, default=1) + 1)]
    return deadlock_error(cycle, stuck, reasons, "L{}".format, "M{}".format, others_move=others_move)


def test_the_circle_is_found_among_others() -> None:
    """Links 1 -> 2 -> 3 -> 1 wait for each other; 0 waits for 1, 4 for 0."""
    error = told({0: [1], 1: [2], 2: [3], 3: [1], 4: [0]}, 77)
    assert str(error).startswith("deadlock in cycle 77: 5 VCs hold flits and nothing can move; waiting for each")
    start = error.cycle.index("L1 VC 0 (M10)")
    assert error.cycle[start:] + error.cycle[:start] == ["L1 VC 0 (M10)", "L2 VC 0 (M20)", "L3 VC 0 (M30)"]


def test_a_part_that_never_moves_again() -> None:
    error = told({0: [1], 1: [0]}, others_move=True)
    assert str(error).startswith("deadlock in cycle 5: the packets in 2 VCs can never move again, though others do; ")


def test_a_long_circle_is_cut_short_in_the_text_only() -> None:
    error = told({link: [(link + 1) % 20] for link in range(20)})
    assert len(error.cycle) == 20
    assert str(error).endswith("-> 8 more")


def test_without_a_circle_everybody_is_named() -> None:
    assert told({}).cycle == ["L0 VC 0 (M0)", "L1 VC 0 (M10)"]
