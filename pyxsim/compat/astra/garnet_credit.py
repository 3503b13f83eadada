"""By how many cycles Garnet's serializer returns the credit that frees a VC too early.

It divides a credit into as many pieces as a flit has, of which the last one frees the VC. All pieces have the same
time, and the queues are binary heaps ordered by time: equal keys leave in an order that depends on the heap, so the
last piece is not the last to leave. Two pieces of the previous credit are still in the heap unless the packet has a
single flit. The order is that of push_heap and pop_heap of the C++ standard library; measured (packet period with one
VC): 2 cycles for flits of 8 pieces, 3 for single-flit packets, 1 for 2 pieces.
"""

from __future__ import annotations

Piece = tuple[int, int]  # (time, number)


def credit_lead(pieces: int, flits: int) -> int:
    """Return the cycles by which the freeing piece overtakes the others, for packets of `flits` flits."""
    if pieces < 2:
        return 0
    before = 2 if flits > 1 else 0
    heap: list[Piece] = []
    for number in range(before):
        _push(heap, (0, number))
    for number in range(pieces):
        _push(heap, (1, number))
    order = [piece for piece in (_pop(heap) for _ in range(before + pieces)) if piece[0]]
    return pieces - 1 - order.index((1, pieces - 1))


def _push(heap: list[Piece], piece: Piece) -> None:
    heap.append(piece)
    _sift_up(heap, len(heap) - 1, piece)


def _sift_up(heap: list[Piece], hole: int, piece: Piece) -> None:
    while hole and heap[(hole - 1) // 2][0] > piece[0]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = piece


def _pop(heap: list[Piece]) -> Piece:
    """Remove the top: the hole moves down to a leaf, then the last piece moves up from there."""
    top, last = heap[0], heap.pop()
    if not heap:
        return top
    hole, child = 0, 0
    while child < (len(heap) - 1) // 2:
        child = 2 * (child + 1)
        if heap[child][0] > heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if len(heap) % 2 == 0 and child == (len(heap) - 2) // 2:
        child = 2 * (child + 1)
        heap[hole] = heap[child - 1]
        hole = child - 1
    _sift_up(heap, hole, last)
    return top
