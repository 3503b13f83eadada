"""What stands on the shelf `topologies`: wiring, algorithms and directions of each."""

from __future__ import annotations

import pytest

from pyxsim import library
from pyxsim.registry import blocks, topologies
from pyxsim.routing import prove
from pyxsim.topology import Block, Queue, build
from tests.topology.nets import block

library.load_all()


def ends(made: Block) -> list[tuple[str, int, int]]:
    return list(zip(made.link_names, made.src.tolist(), made.dst.tolist(), strict=True))


def test_names() -> None:
    assert {"ring", "mesh", "switch", "fully-connected", "torus"} <= set(topologies.names())
    assert {"ring", "mesh", "switch", "fully-connected"} <= set(blocks.names())


@pytest.mark.parametrize("name", ["ring", "mesh", "switch", "fully-connected", "torus"])
@pytest.mark.parametrize("npus", [1, 2, 3, 8])
def test_one_dimension_of_each(name: str, npus: int) -> None:
    net = build(name, [npus])
    assert (net.name, net.shape, net.npus) == (name, (npus,), npus)
    assert (net.links == 0) == (npus == 1)
    prove(net.relation)


def test_ring() -> None:
    assert ends(block("ring", 3)) == [
        ("+", 0, 1),
        ("+", 1, 2),
        ("+", 2, 0),
        ("-", 0, 2),
        ("-", 1, 0),
        ("-", 2, 1),
    ]
    made = block("ring", 4)
    assert (made.planes, made.classes, made.keep_class, made.directions, made.algorithm) == (2, 2, True, 2, "ring")
    assert made.out_degree(0) == 2


def test_a_ring_of_two_has_two_channels_each_way() -> None:
    made = block("ring", 2)
    assert ends(made) == [("+", 0, 1), ("+", 1, 0), ("-", 0, 1), ("-", 1, 0)]
    # Both ways round are one link long: a tie, so the planes use different links.
    assert made.next[:, 0, 1].tolist() == [0, 2]
    assert made.next[:, 1, 0].tolist() == [1, 3]


def test_unidirectional_ring() -> None:
    made = block("ring", 3, bidirectional=False)
    assert ends(made) == [("+", 0, 1), ("+", 1, 2), ("+", 2, 0)]
    assert (made.planes, made.classes, made.keep_class, made.directions) == (1, 2, False, 1)
    assert build("ring", [3], options={"bidirectional": False}).queues == ((Queue(0, 1),),)


def test_mesh() -> None:
    made = block("mesh", 3)
    assert ends(made) == [("+", 0, 1), ("+", 1, 2), ("-", 1, 0), ("-", 2, 1)]
    assert (made.planes, made.classes, made.directions, made.algorithm) == (1, 1, 1, "ring")
    assert build("mesh", [3, 2]).links == 2 * (2 * 2 + 3 * 1)


@pytest.mark.parametrize(("npus", "algorithm"), [(2, "halving-doubling"), (6, "direct"), (8, "halving-doubling")])
def test_switch(npus: int, algorithm: str) -> None:
    made = block("switch", npus)
    assert ends(made) == [("up", i, npus) for i in range(npus)] + [("down", npus, i) for i in range(npus)]
    assert (made.switches, made.planes, made.classes, made.algorithm) == (1, 1, 1, algorithm)
    assert made.out_degree(0) == 1


def test_fully_connected() -> None:
    made = block("fully-connected", 3)
    assert ends(made) == [("", a, b) for a in range(3) for b in range(3) if a != b]
    assert (made.algorithm, made.out_degree(0)) == ("direct", 2)


def test_torus() -> None:
    net = build("torus", [4, 2, 3])
    assert net.links == 6 * 24
    assert net.queues == ((Queue(0, 1), Queue(1, -1)),) * 3
    assert build("torus", [4, 2, 3], options={"bidirectional": False}).links == 3 * 24
