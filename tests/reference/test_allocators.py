"""Draws, arbiters and matrix allocators of the oracle, by hand."""

from __future__ import annotations

import pytest

from pyxsim.plugins import allocators
from pyxsim.reference import draws
from pyxsim.reference.allocators import MATCHINGS, Matrix, Pair, best, rotate
from tests.reference.allocator_names import AGE, INPUT_FIRST, ISLIP, WAVEFRONT

EVERYONE = {(i, o): (0,) for i in range(3) for o in range(3)}


def rounds(allocator: Matrix, requests: dict[Pair, tuple[int, ...]], count: int) -> list[list[Pair]]:
    """What is matched in each of some cycles in which the same is asked for, and every match counts."""
    found = []
    for _ in range(count):
        pairs = allocator.match(requests)
        for pair in pairs:
            allocator.settle(pair)
        found.append(sorted(pairs))
    return found


def test_draws_are_splitmix64() -> None:
    """Outputs of the generator that others publish, seeds 1234567 and 0: number k is mix(seed + kG)."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [draws.mix(1234567 + draws.G * k) for k in range(1, 5)] == expected
    zero = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [draws.mix(draws.G * k) for k in range(1, 5)] == zero
    # The key of packet 0 of message 0 with seed 0 is mix(G) ^ mix(G), of packet 1 mix(G) ^ mix(2G).
    assert draws.key(0, 0, 0) == 0
    assert draws.key(0, 0, 1) == zero[0] ^ zero[1]
    # draw(0, WAY) of the first: mix(0 + 1G) without its last 16 bits; draw(0, TIE - 1 = OTHER): mix(4G).
    assert draws.draw(0, 0, draws.WAY) == 0xE220A8397B1D
    assert draws.draw(0, 0, draws.OTHER) == 0xF88BB8A8724C


def test_arbiters() -> None:
    assert [rotate([1, 4, 6], pointer) for pointer in (0, 1, 2, 5, 6, 7)] == [1, 1, 4, 6, 6, 1]
    # 4 and 6 are better than 1; between them the pointer decides.
    assert [best({1: (1,), 4: (0,), 6: (0,)}, pointer) for pointer in (0, 5, 7)] == [4, 6, 4]


def test_separable_input_first() -> None:
    """Inputs 0 (for outputs 0 and 1), 1 (for 0), 2 (for 1)."""
    requests = {(0, 0): (0,), (0, 1): (0,), (1, 0): (0,), (2, 1): (0,)}
    assert rounds(Matrix(INPUT_FIRST, 3, 2), requests, 3) == [
        # 0 and 1 pick 0, which grants 0; 2 picks 1.
        [(0, 0), (2, 1)],
        # Input 0 looks from 1 on, output 0 too: 0 picks 1, which looks from 3, that is 0, on.
        [(0, 1), (1, 0)],
        # Input 0 looks from 2, that is 0, on; output 0 from 2, that is 0; output 1 from 1, where there is only 2.
        [(0, 0), (2, 1)],
    ]


def test_a_lost_pick_is_lost() -> None:
    """Two inputs that both pick output 0 leave output 1 idle: the price of separable allocation."""
    both = {(i, o): (0,) for i in range(2) for o in range(2)}
    # Only what was matched moves the pointers: input 0 goes on to output 1, and from then on they do not collide.
    assert rounds(Matrix(INPUT_FIRST, 2, 2), both, 3) == [[(0, 0)], [(0, 1), (1, 0)], [(0, 0), (1, 1)]]


def test_islip() -> None:
    """Everybody asks for everything: the pointers part after each match of the first iteration."""
    assert rounds(Matrix(ISLIP, 3, 3, 1), EVERYONE, 4) == [
        # All grant 0, which accepts 0.
        [(0, 0)],
        # Output 0 grants 1; outputs 1 and 2 grant 0, which accepts the first from 1 on.
        [(0, 1), (1, 0)],
        # Output 0 grants 2, output 1 grants 1, output 2 still 0.
        [(0, 2), (1, 1), (2, 0)],
        # Now every pointer is another one.
        [(0, 0), (1, 2), (2, 1)],
    ]


def test_islip_iterates() -> None:
    twice = Matrix(ISLIP, 3, 3, 2)
    # Second iteration: outputs 1 and 2 grant 1, which accepts 1. Only the pointers of (0, 0) move.
    assert rounds(twice, EVERYONE, 1) == [[(0, 0), (1, 1)]]
    assert (twice.grant, twice.accept) == ([1, 0, 0], [1, 0, 0])
    # First iteration as in islip:1; in the second, output 2 grants input 2.
    assert rounds(twice, EVERYONE, 1) == [[(0, 1), (1, 0), (2, 2)]]
    assert rounds(Matrix(ISLIP, 3, 3, 3), EVERYONE, 1) == [[(0, 0), (1, 1), (2, 2)]]


def test_wavefront() -> None:
    """The diagonal i + o = w (mod 3) goes first, and the wave goes on by one in every cycle."""
    assert rounds(Matrix(WAVEFRONT, 3, 3), EVERYONE, 4) == [
        [(0, 0), (1, 2), (2, 1)],
        [(0, 1), (1, 0), (2, 2)],
        [(0, 2), (1, 1), (2, 0)],
        [(0, 0), (1, 2), (2, 1)],
    ]
    # Two inputs and four outputs: n = 4. w = 0: (0, 1) is on diagonal 1, (1, 3) on 0, (1, 1) on 2.
    asked = {(0, 1): (0,), (1, 1): (0,), (1, 3): (0,)}
    assert rounds(Matrix(WAVEFRONT, 2, 4), asked, 1) == [[(0, 1), (1, 3)]]
    # A wave moves only where something is asked for.
    idle = Matrix(WAVEFRONT, 3, 3)
    assert rounds(idle, {}, 5)[-1] == []
    assert idle.wave == 0


def test_age() -> None:
    # The oldest takes output 1, so the next one cannot; (2, 0) is equal to (1, 1) but later in order.
    assert rounds(Matrix(AGE, 3, 3), {(0, 1): (7,), (1, 1): (5,), (2, 0): (5,), (2, 1): (5,)}, 1) == [[(1, 1), (2, 0)]]


@pytest.mark.parametrize("kind", [INPUT_FIRST, ISLIP, WAVEFRONT, AGE])
def test_rank_goes_before_turn(kind: str) -> None:
    """Input 2 has the better rank, and gets output 0 whatever the pointers say."""
    requests = {(0, 0): (0,), (1, 0): (0,), (2, 0): (-1,)}
    assert rounds(Matrix(kind, 3, 3), requests, 4) == [[(2, 0)]] * 4


def test_every_compiled_allocator_is_here() -> None:
    shipped = {e.name for e in allocators.entries if e.module.startswith("pyxsim.") and e.value is not None}
    assert shipped == MATCHINGS.keys()
