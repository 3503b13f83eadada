"""The piece of a credit that frees a VC: measured leads, and Python's own heap as a second opinion."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import pytest

from pyxsim.compat.astra.garnet_credit import credit_lead
from tests.in_turn import in_turn


@dataclass
class Piece:
    """Ordered by time alone: pieces of one credit are equal."""

    time: int
    number: int

    def __lt__(self, other: Piece) -> bool:
        return self.time < other.time


def lead(pieces: int, before: int) -> int:
    """With heapq, whose sifting compares and breaks ties as the C++ library's does."""
    heap: list[Piece] = []
    for number in range(before):
        heapq.heappush(heap, Piece(0, number))
    for number in range(pieces):
        heapq.heappush(heap, Piece(1, number))
    order = [piece.number for piece in (heapq.heappop(heap) for _ in range(before + pieces)) if piece.time]
    return pieces - 1 - order.index(pieces - 1)


@pytest.mark.parametrize(
    ("pieces", "flits", "measured"),
    # Periods of packets on one VC are F*k + k + 2L + 8 - lead. With L = 200 and k = 8: 542 for F = 16, 430 for F = 2,
    # 421 for F = 1; with L = 100 342 for F = 16; with k = 2 441 for F = 16.
    [
        (8, 16, 16 * 8 + 8 + 400 + 8 - 542),
        (8, 2, 2 * 8 + 8 + 400 + 8 - 430),
        (8, 1, 8 + 8 + 400 + 8 - 421),
        (8, 16, 16 * 8 + 8 + 200 + 8 - 342),
        (2, 16, 16 * 2 + 2 + 400 + 8 - 441),
    ],
)
def test_measured(pieces: int, flits: int, measured: int) -> None:
    assert credit_lead(pieces, flits) == measured


@in_turn("pieces", range(2, 70))
def test_against_another_heap(pieces: int) -> None:
    assert credit_lead(pieces, 1) == lead(pieces, 0)
    assert credit_lead(pieces, 2) == credit_lead(pieces, 16) == lead(pieces, 2)


def test_a_credit_in_one_piece_has_no_lead() -> None:
    assert credit_lead(1, 1) == credit_lead(1, 16) == 0
