"""What an NPU computes of a layer of experts whose experts have different numbers of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pyxsim.models.layer import Elements, Gemm, Layer, Part, Share, Split, Work


def rows_per_sample(layer: Layer) -> int:
    """Return the copies of tokens that a sample sends to experts: its tokens times `top_k`."""
    return layer.gemms[0].m


def copy_elements(layer: Layer) -> int:
    """Return the elements of one copy of a token."""
    return layer.dispatched // rows_per_sample(layer)


def expert_work(layer: Layer, part: Part, rows: Sequence[int], samples: int, share: Share) -> tuple[Work, ...]:
    """Return what one NPU computes and moves.

    Parameters
    ----------
    rows
        Tokens of each of the NPU's experts. One without tokens is not computed, and its weights are not read; only
        the gradient of its weights is still written, as zeros.
    samples
        Samples whose tokens the NPU sorts.
    """
    items = [work for gemm in layer.gemms for work in _products(gemm, part, rows, share)]
    if part in (Part.FORWARD, Part.INPUT_GRADIENT):
        whole = Elements(whole=layer.moved.whole).of_one(share) * samples
        divided = -(-layer.moved.divided * sum(rows) // (rows_per_sample(layer) * share.tensor))
        items.append(Work(elements=(whole + divided) * (1 if part == Part.FORWARD else 2)))
    return tuple(items)


def _products(gemm: Gemm, part: Part, rows: Sequence[int], share: Share) -> Iterator[Work]:
    n = -(-gemm.n // share.tensor) if gemm.split == Split.COLUMN else gemm.n
    k = -(-gemm.k // share.tensor) if gemm.split == Split.ROW else gemm.k
    for m, count in sorted(Counter(rows).items()):
        elements = (m * k + k * n + m * n) * count
        if part == Part.WEIGHT_GRADIENT:
            yield Work(k, n, m, count, elements)
        elif m and part == Part.FORWARD:
            yield Work(m, n, k, count, elements)
        elif m and part == Part.INPUT_GRADIENT:
            yield Work(m, k, n, count, elements)
