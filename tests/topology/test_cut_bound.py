"""The bottleneck cut: against all cuts, one by one, and closed forms."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.topology.cut_bound import bottleneck_bandwidth

Link = tuple[int, int, int]


def by_all_cuts(links: list[Link], npus: list[int], nodes: list[int]) -> Fraction:
    """Of every set of nodes with some but not all NPUs: the bandwidth out over the NPUs inside."""
    found = []
    for count in range(1, len(nodes)):
        for chosen in combinations(nodes, count):
            inside = set(chosen)
            held = sum(npu in inside for npu in npus)
            if 0 < held < len(npus):
                out = sum(rate for a, b, rate in links if a in inside and b not in inside)
                found.append(Fraction(out, held))
    return min(found) * len(npus)


@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=14),
)
def test_it_is_the_least_of_all_cuts(npus: int, links: list[Link]) -> None:
    mine = [link for link in links if link[0] != link[1]] + [(node, (node + 1) % 6, 1) for node in range(6)]
    wanted = by_all_cuts(mine, list(range(npus)), list(range(6)))
    assert bottleneck_bandwidth(mine, range(npus)) == wanted


@pytest.mark.parametrize("n", [2, 3, 8])
def test_closed_forms(n: int) -> None:
    switch = [way for npu in range(n) for way in ((npu, "switch", 50), ("switch", npu, 50))]
    assert bottleneck_bandwidth(switch, range(n)) == Fraction(50 * n, n - 1)
    ring = [(npu, (npu + 1) % n, 10) for npu in range(n)]
    assert bottleneck_bandwidth(ring, range(n)) == Fraction(10 * n, n - 1)


@pytest.mark.parametrize("alone", [0, 1, 2])
def test_an_npu_that_nothing_reaches(alone: int) -> None:
    links = [((alone + a) % 3, (alone + b) % 3, 1) for a, b in ((1, 2), (2, 1), (0, 1))]
    with pytest.raises(ValueError, match=f"nothing reaches {alone}"):
        bottleneck_bandwidth(links, range(3))
