"""Any trees, written as MSCCL XML and read again: the same messages, of the same bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.export import to_msccl
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.sizes import block_sizes
from tests.collective.custom.synthesized import gpu
from tests.examples import part_of

SIZE = 1_000_003


def random_trees(n: int, weights: list[int], seed: int) -> str:
    """Trees of ForestColl in which every GPU has a random parent among those that are nearer to the root."""
    rng = random.Random(seed)
    lines = [f'<Algo nchunkspernode="{sum(weights)}">']
    for root in range(n):
        for index, weight in enumerate(weights):
            order = [root, *rng.sample([rank for rank in range(n) if rank != root], n - 1)]
            lines.append(f'<tree root="{gpu(root)}" index="{index}" nchunks="{weight}">')
            lines += [
                f'<send src="{gpu(rng.choice(order[:k]))}" dst="{gpu(child)}"/>' for k, child in enumerate(order) if k
            ]
            lines.append("</tree>")
    return "\n".join([*lines, "</Algo>"])


def sent(s: CompiledSchedule) -> list[tuple[int, int, int, bool]]:
    """Rank, peer and bytes of every message, and whether it is added, in an order of their own."""
    bytes_of = s.message_bytes(block_sizes(s.kind, s.n, s.blocks, SIZE))
    messages = np.flatnonzero(~s.local).tolist()
    return sorted((int(s.src[m]), int(s.dst[m]), int(bytes_of[m]), bool(s.adds[m])) for m in messages)


@settings(max_examples=part_of(40), deadline=None)
@given(
    st.sampled_from(["all-gather", "reduce-scatter", "all-reduce"]),
    st.integers(2, 6),
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.integers(0, 2**32),
)
def test_write_and_read(
    tmp_path_factory: pytest.TempPathFactory, kind: str, n: int, weights: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    (folder / "trees.xml").write_text(random_trees(n, weights, seed))
    trees = get_schedule(kind, str(folder / "trees.xml"), n)
    prove(trees)
    (folder / "once.xml").write_text(to_msccl(trees))
    once = get_schedule(kind, str(folder / "once.xml"), n)
    prove(once)
    assert sent(once) == sent(trees)
    (folder / "twice.xml").write_text(to_msccl(once))
    twice = get_schedule(kind, str(folder / "twice.xml"), n)
    prove(twice)
    # The second file may split a message whose chunks are not contiguous in the scratch buffers of the first.
    assert totals(twice) == totals(trees)


def totals(s: CompiledSchedule) -> dict[tuple[int, int], int]:
    """The bytes from one rank to another."""
    found: dict[tuple[int, int], int] = {}
    for src, dst, nbytes, _ in sent(s):
        found[src, dst] = found.get((src, dst), 0) + nbytes
    return found
