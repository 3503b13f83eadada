"""Opposite links against a search through all links."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.routing.opposite import opposite_links

ends = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])


def test_parallel_links_are_paired_in_order() -> None:
    src, dst = np.array([(0, 1), (0, 1), (1, 0), (1, 0), (1, 2), (2, 1)]).T
    assert opposite_links(src, dst).tolist() == [2, 3, 0, 1, 5, 4]


@given(st.lists(ends, max_size=40))
def test_every_link_is_paired_as_by_a_search(links: list[tuple[int, int]]) -> None:
    free = list(range(len(links)))
    expected = [-1] * len(links)
    for link, (src, dst) in enumerate(links):
        other = next((each for each in free if links[each] == (dst, src)), None)
        if expected[link] < 0 and other is not None:
            expected[link], expected[other] = other, link
            free.remove(link)
            free.remove(other)
    src, dst = np.array(links, np.int64).reshape(-1, 2).T
    assert opposite_links(src, dst).tolist() == expected
