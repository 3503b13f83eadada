"""Numbering of VCs, link by link."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.core.state.wiring import classes_of_vcs
from pyxsim.routing.relation import vc_ranges


@given(
    st.integers(1, 3),
    st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 2), max_size=12),
    st.randoms(use_true_random=False),
)
def test_each_vc_is_of_the_class_of_its_range(vnets: int, kinds: list[int], links: list[int], random: object) -> None:
    per_net = 4
    low: list[int] = []
    high: list[int] = []
    first = []
    for count in kinds:
        first.append(len(low))
        for net in range(vnets):
            begin, end = vc_ranges(per_net, count)
            low += (begin + net * per_net).tolist()
            high += (end + net * per_net).tolist()
    which = [link % len(kinds) for link in links]
    vcs = np.full(len(links), vnets * per_net + 1, np.int32)  # the last one is in no range
    base = np.array(random.sample(range(len(links)), len(links)), np.int32) * vcs[:1]  # type: ignore[attr-defined]
    classes, ranges = (np.array([values[kind] for kind in which], np.int32) for values in (kinds, first))
    arrays = (np.array(values, np.int32) for values in (low, high))
    found = classes_of_vcs(base, vcs, vnets, classes, ranges, *arrays)
    for link, kind in enumerate(which):
        for vc in range(int(vcs[link])):
            rows = range(first[kind], first[kind] + vnets * kinds[kind])
            own = [(row - first[kind]) % kinds[kind] for row in rows if low[row] <= vc < high[row]]
            assert found[base[link] + vc] == (own[0] if own else 0)
