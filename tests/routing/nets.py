"""Relations for the tests of routing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pyxsim.routing import Relation, Way
from pyxsim.routing.planes import plane, rebuilt
from pyxsim.topology import product
from tests.topology.nets import KINDS, block


def grid(kind: str, shape: Sequence[int], **options: Any) -> Relation:
    """A product of equal blocks, with the planes of the blocks only."""
    return plain([block(kind, size, **options) for size in shape])


def plain(blocks: Sequence[Any]) -> Relation:
    """The same of any blocks: no plane with random ties, and packets without a plane are on plane 0."""
    relation = product("net", blocks).relation
    planes = [plane(relation, number) for number in range(max(b.planes for b in blocks))]
    return rebuilt(relation, planes, ways=(Way(0),))


@st.composite
def grids(draw: st.DrawFn, most: int = 12, kinds: Sequence[tuple[str, dict[str, Any]]] = KINDS) -> Relation:
    """A plain product of one to three random blocks with at most `most` NPUs."""
    made: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        name, options = draw(st.sampled_from(kinds))
        room = most // int(np.prod([b.npus for b in made], dtype=int))
        made.append(block(name, draw(st.integers(1, min(room, 6))), **options))
    return plain(made)
