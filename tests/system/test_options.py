"""What [system] leaves open, resolved for a network."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.settings import System as Settings
from pyxsim.system import Options, resolve
from pyxsim.topology import Topology
from pyxsim.topology.build import build

library.load_all()
GHZ = Fraction(10**9)
KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def topology(*dims: tuple[str, int]) -> Topology:
    return build(None, None, [{"block": block, "npus": npus} for block, npus in dims])


def options(network: Topology, clock: Fraction = GHZ, **system: Any) -> Options:
    return resolve(Settings.model_validate(system), network, clock)


MIXED = [("ring", 4), ("switch", 8), ("switch", 6), ("fully-connected", 3), ("mesh", 2)]


def test_the_algorithms_that_suit_the_blocks() -> None:
    algorithms = options(topology(*MIXED)).algorithms
    assert algorithms("all-reduce") == ("ring", "halving-doubling", "direct", "direct", "ring")
    assert algorithms("all-gather") == algorithms("reduce-scatter") == algorithms("all-reduce")
    # Halving-doubling cannot do it.
    assert algorithms("all-to-all") == ("ring", "direct", "direct", "direct", "ring")


def test_the_algorithms_that_were_asked_for() -> None:
    network = topology(("ring", 4), ("ring", 4))
    chosen = options(network, all_reduce="halvingDoubling", all_to_all=["direct4", "ring"]).algorithms
    assert chosen("all-reduce") == ("halving-doubling", "halving-doubling")
    assert chosen("all-to-all") == ("direct:4", "ring")
    assert chosen("all-gather") == ("ring", "ring")


@pytest.mark.parametrize(
    ("system", "kind", "told"),
    [
        (
            {"all_to_all": "halving-doubling"},
            "all-to-all",
            "system.all_to_all: halving-doubling does not support all-to-all",
        ),
        ({"all_reduce": ["ring", "rign"]}, "all-reduce", "system.all_reduce: .*'rign'.*did you mean 'ring'"),
    ],
)
def test_algorithms_that_cannot(system: dict[str, Any], kind: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        options(topology(("ring", 4), ("ring", 4)), **system).algorithms(kind)


def test_rings_without_routes_between_them_have_no_algorithm_over_all() -> None:
    network = build("garnet-torus", [2, 2, 2])
    with pytest.raises(InputError, match=r"system\.all_gather: .* over all dimensions requires routes"):
        options(network, all_gather="one-ring").algorithms("all-gather")
    assert options(network).algorithms("all-reduce") == ("ring", "ring", "ring")


def test_queues_of_their_own() -> None:
    """A bidirectional ring has two, clockwise on plane 0, counterclockwise on plane 1."""
    got = options(topology(("ring", 4), ("switch", 4))).queues
    assert [[(q.plane, q.direction) for q in each] for each in got] == [[(0, 1), (1, -1)], [(0, 1)]]


@pytest.mark.parametrize(
    ("queues", "directions"),
    [(1, [[1], [1]]), (2, [[1, -1], [1, 1]]), (3, [[1, 1, -1], [1, 1, 1]]), ([4, 1], [[1, 1, -1, -1], [1]])],
)
def test_as_many_queues_as_were_asked_for(queues: Any, directions: list[list[int]]) -> None:
    """The first half of them is clockwise (the larger half, as there must be one)."""
    got = options(topology(("ring", 4), ("switch", 4)), queues=queues).queues
    assert [[queue.direction for queue in each] for each in got] == directions


def test_garnets_queues_are_its_rings() -> None:
    network = build("garnet-torus", [2, 2, 2], options={"local_rings": 2, "horizontal_rings": 1, "vertical_rings": 2})
    got = options(network).queues
    assert [[queue.direction for queue in each] for each in got] == [[1, 1], [1, -1], [1, 1, -1, -1]]
    assert [queue.plane for each in got for queue in each] == list(range(8))
    assert options(network, queues=[2, 2, 4]).queues == got
    with pytest.raises(InputError, match=r"system\.queues: dimension 2 has 4 rings.* 3 queues are impossible"):
        options(network, queues=[2, 2, 3])


def test_room_is_shared_by_the_queues() -> None:
    network = topology(("ring", 4), ("switch", 4))
    assert options(network, active_chunks=5).slots == [3, 5]
    assert options(network, active_chunks=1).slots == [1, 1]


def test_delays_in_cycles() -> None:
    got = options(topology(("ring", 4)), Fraction(3 * 10**9, 2), endpoint_delay="10 ns", reduction_delay="7 cycles")
    assert (got.endpoint_delay, got.reduction_delay) == (15, 7)


def test_the_words_of_the_settings() -> None:
    network = topology(("ring", 4), ("ring", 4))
    plain = options(network)
    assert (plain.chunks, plain.scheduling, plain.optimization, plain.inter_dimension) == (
        1,
        "LIFO",
        "localBWAware",
        "ascending",
    )
    astra = options(network, compat="astra-sim-1", scheduling="FIFO", chunks=7)
    assert (astra.compat, astra.scheduling, astra.chunks) == ("astra-sim-1", "FIFO", 7)


def test_bandwidths_for_themis() -> None:
    mine = [Fraction(2), Fraction(1)]
    settings, astra = Settings(), Settings.model_validate({"compat": "astra-sim-1"})
    torus, garnet = topology(("ring", 4), ("ring", 4)), build("garnet-switch", [2, 2])
    assert resolve(settings, torus, GHZ, mine).bandwidths == mine
    assert resolve(settings, torus, GHZ).bandwidths == [1, 1]
    # Garnet tells ASTRA-sim no bandwidths: all dimensions are alike to it.
    assert resolve(astra, garnet, GHZ, mine).bandwidths == [1, 1]
    assert resolve(astra, torus, GHZ, mine).bandwidths == mine
