"""Which queue a phase takes, and which way round: all in turns, or one half on the way out, the other one back."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.compat.astra.system.queues import ANY, FIRST_HALF, SECOND_HALF, QueueRotation
from pyxsim.system.options import Options
from pyxsim.topology.topology import Queue

NPUS = 4


def turns(compat: str, *queues: list[Queue]) -> QueueRotation:
    options: dict[str, Any] = {"queues": queues, "slots": [1] * len(queues), "bandwidths": [], "compat": compat}
    return QueueRotation(Options(algorithms=lambda kind: ["ring"], **options), NPUS)


def take(own: QueueRotation, half: int, times: int, dim: int = 0) -> list[tuple[int, int]]:
    """(number, direction) of the next queues."""
    places = [own.take(dim, range(NPUS), half) for _ in range(times)]
    return [(place.number, place.direction) for place in places]


@pytest.mark.parametrize("compat", ["astra-sim-1", "astra-sim-2"])
def test_in_turns_the_upper_half_goes_back(compat: str) -> None:
    own = turns(compat, [Queue(0, 1)] * 3)
    assert take(own, ANY, 5) == [(0, 1), (1, -1), (2, -1), (0, 1), (1, -1)]
    assert take(turns(compat, [Queue(0, 1)]), ANY, 2) == [(0, 1), (0, 1)]


def test_halves_in_version_2() -> None:
    own = turns("astra-sim-2", [Queue(0, 1)] * 5)
    assert take(own, FIRST_HALF, 3) == [(0, 1), (1, 1), (0, 1)]
    assert take(own, SECOND_HALF, 4) == [(2, -1), (3, -1), (4, -1), (2, -1)]
    # Each has turns of its own, and those of other phases are others again.
    assert take(own, FIRST_HALF, 1) == [(1, 1)]
    assert take(own, ANY, 2) == [(0, 1), (1, 1)]
    # One queue is both halves.
    single = turns("astra-sim-2", [Queue(0, 1)])
    assert take(single, FIRST_HALF, 2) + take(single, SECOND_HALF, 2) == [(0, 1), (0, 1), (0, -1), (0, -1)]


def test_no_halves_in_version_1() -> None:
    own = turns("astra-sim-1", [Queue(0, 1)] * 2)
    assert take(own, FIRST_HALF, 1) + take(own, SECOND_HALF, 2) == [(0, 1), (1, -1), (0, 1)]


def test_dimensions_have_turns_of_their_own() -> None:
    own = turns("astra-sim-1", [Queue(0, 1)] * 2, [Queue(0, 1)] * 2)
    assert take(own, ANY, 1) + take(own, ANY, 1, dim=1) + take(own, ANY, 1) == [(0, 1), (0, 1), (1, -1)]


def test_rings_that_go_one_way_keep_it() -> None:
    """Garnet: each queue has links of its own, in one direction; the local rings all go the same way."""
    own = turns("astra-sim-1", [Queue(0, 1), Queue(1, 1)], [Queue(2, 1), Queue(3, -1)])
    assert take(own, ANY, 2) == [(0, 1), (1, 1)]
    assert take(own, ANY, 2, dim=1) == [(0, 1), (1, -1)]


def test_the_plane_of_a_direction() -> None:
    own = turns("astra-sim-2", [Queue(5, 1), Queue(6, -1)], [Queue(5, 1), Queue(6, -1)])
    assert [own.take(0, range(NPUS), half).plane for half in (FIRST_HALF, SECOND_HALF)] == [5, 6]
