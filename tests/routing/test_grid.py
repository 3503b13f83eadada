"""What is made of dimension order: ties, two orders, balanced classes, ways over a via, adaptive planes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.routing import (
    EACH,
    SKIP,
    Graph,
    Relation,
    Way,
    adaptive_xy_yx,
    balanced,
    expected_hops,
    minimal_adaptive,
    prove,
    romm,
    tie_random,
    ugal,
    up_down,
    valiant,
    vc_ranges,
    xy_yx,
)
from pyxsim.routing.product_table import ProductTable
from pyxsim.topology import product as whole_product
from pyxsim.topology.routings import grid_routings, kinds_of
from tests.examples import part_of
from tests.routing.nets import grid, grids, plain
from tests.routing.slow import Slow, State
from tests.topology.nets import block

MADE: list[Any] = [tie_random, valiant, romm, ugal, xy_yx, adaptive_xy_yx, balanced, minimal_adaptive]


def choices(relation: Relation, src: int, dst: int, plane: int) -> set[str]:
    """What a packet may take where it starts: "+ 0" is the link of that name in class 0."""
    slow = Slow(relation, [], whole=False)
    state = State(int(relation.home[src]), None, plane, -1, dst, plane)
    found = set()
    for (link, vc_class), _ in slow.step(state):
        found.add(f"{relation.link_name[link].split(':')[0]} {vc_class}")
    return found


@settings(max_examples=part_of(60))
@given(grids(most=16), st.sampled_from(MADE), st.data())
def test_whatever_can_be_made_is_proved_and_minimal(base: Relation, made: Any, data: st.DataObject) -> None:
    try:
        relation = made(base)
    except InputError:
        return
    prove(relation, whole=True)
    if made in (valiant,):
        return
    # No packet takes more links than in dimension order, on any plane.
    for plane in range(relation.planes):
        np.testing.assert_allclose(expected_hops(relation, plane), expected_hops(base, 0))
    npu = st.integers(0, base.npus - 1)
    src, dst = data.draw(npu), data.draw(npu)
    assert len(relation.route(src, dst, -1)) == len(base.route(src, dst))


def test_ties_are_drawn_where_a_packet_turns_into_the_dimension() -> None:
    ring = tie_random(grid("ring", [4, 4]))
    assert ring.ways == (Way(2),)
    assert ring.planes == 3
    assert choices(ring, 0, 2, 2) == {"d0+ 0", "d0- 1"}
    assert choices(ring, 0, 1, 2) == {"d0+ 0"}
    assert choices(ring, 0, 8, 2) == {"d1+ 0", "d1- 1"}
    assert choices(ring, 0, 10, 2) == {"d0+ 0", "d0- 1"}
    for plane in (0, 1):
        assert choices(ring, 0, 2, plane) == choices(grid("ring", [4, 4]), 0, 2, plane)
    # Sets are shared: one for each router and dimension with a tie.
    assert ring.sets == 32
    odd = tie_random(grid("ring", [5]))
    assert odd.sets == 0
    mesh = grid("mesh", [4])
    assert tie_random(mesh) is mesh
    assert tie_random(ring) is ring


def test_two_orders() -> None:
    both = xy_yx(grid("mesh", [3, 3, 3]))
    assert both.ways == (Way(0), Way(1))
    assert both.choose == "random"
    assert adaptive_xy_yx(grid("mesh", [3, 3])).choose == "least"
    assert both.classes == 2
    there = [both.link_name[link].split(":")[0] for link, _ in both.route(0, 26, 0)]
    back = [both.link_name[link].split(":")[0] for link, _ in both.route(0, 26, 1)]
    assert there == ["d0+", "d0+", "d1+", "d1+", "d2+", "d2+"]
    assert back == there[::-1]
    assert {vc_class for _, vc_class in both.route(0, 26, 0)} == {0}
    assert {vc_class for _, vc_class in both.route(0, 26, 1)} == {1}
    torus = xy_yx(grid("ring", [4, 4]))
    assert torus.classes == 4
    assert choices(torus, 0, 10, 0) == {"d0+ 0", "d0- 1"}
    assert choices(torus, 0, 10, 1) == {"d1+ 2", "d1- 3"}


@pytest.mark.parametrize("k", [4, 5, 6, 7, 8])
def test_balanced_classes_by_their_datelines(k: int) -> None:
    ring = balanced(grid("ring", [k]))
    slow = Slow(ring, [], whole=False)
    middle = (k - 1) // 2
    crossed: dict[tuple[int, ...], set[int]] = {}
    for src in range(k):
        for dst in range(k):
            front = [(State(src, None, 0, -1, dst, 0), [], [])] if src != dst else []  # type: ignore[var-annotated]
            while front:
                state, edges, classes = front.pop()
                steps = slow.step(state)
                if not steps:
                    crossed.setdefault(tuple(edges), set()).update(classes)
                    # The class is kept all the way.
                    assert len(set(classes)) == 1
                for (link, vc_class), after in steps:
                    a, b = int(ring.link_src[link]), int(ring.link_dst[link])
                    edge = a if (b - a) % k == 1 else b
                    front.append((after, [*edges, edge], [*classes, vc_class]))
    for edges, classes in crossed.items():
        over_end, over_middle = k - 1 in edges, middle in edges
        assert not (over_end and over_middle)
        assert classes == ({1} if over_end else {0} if over_middle else {0, 1})
    prove(ring)


def test_balanced_classes_are_used_alike() -> None:
    def use(relation: Relation, plane: int) -> list[float]:
        """Packets of uniform traffic over each class, by links of the way."""
        slow = Slow(relation, [], whole=False)
        total = [0.0, 0.0]

        def follow(state: State, share: float) -> None:
            steps = slow.step(state)
            for (_, vc_class), after in steps:
                total[vc_class] += share / len(steps)
                follow(after, share / len(steps))

        for src in range(8):
            for dst in range(8):
                follow(State(src, None, plane, -1, dst, plane), 1.0)
        return total

    even = use(balanced(grid("ring", [8])), 0)
    assert even[0] == pytest.approx(even[1])
    plain_classes = use(tie_random(grid("ring", [8])), 2)
    assert plain_classes[0] > plain_classes[1] * 1.1


def test_balanced_leaves_other_dimensions_alone() -> None:
    net = balanced(plain([block("mesh", 3), block("ring", 4), block("switch", 2)]))
    assert sorted(set(net.link_classes.tolist())) == [1, 2]
    prove(net)


def test_phases_have_classes_of_their_own() -> None:
    base = plain([block("ring", 4), block("mesh", 3)])
    relation = valiant(base)
    # Ring links have two classes, of lines one: twice as many, and no more.
    assert sorted(set(relation.link_classes.tolist())) == [2, 4]
    assert relation.ways == (Way(last=1, first=0, via="any"),)
    assert {c for _, c in relation.route(0, 11, 0)} <= {0, 1}
    for link, vc_class in relation.route(0, 11, 1):
        assert vc_class >= relation.link_classes[link] // 2
    assert ugal(base, bias=7).ways == (Way(last=1), Way(last=1, first=0, via="any", bias=7))
    assert ugal(base).choose == "least"
    box = romm(base)
    assert box.ways == (Way(last=1, first=0, via="box"),)
    assert box.wrap.tolist() == [4, 0]
    assert box.stride.tolist() == [1, 4]
    assert romm(grid("ring", [4]), wrap=(4,)).wrap.tolist() == [4]


def test_classes_with_a_number_of_vcs_keep_it() -> None:
    base = dataclasses.replace(grid("ring", [4]), fixed_vcs=(1, 2))
    relation = valiant(base)
    assert relation.fixed_vcs == (1, 2, 1, 2)
    assert set(relation.link_classes.tolist()) == {4}
    prove(relation)


def test_minimal_adaptive() -> None:
    torus = minimal_adaptive(grid("ring", [4, 4]))
    assert torus.fixed_vcs == (1, 1, 0)
    low, high = vc_ranges(8, 3, torus.fixed_vcs)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 8)]
    assert torus.plane_select.tolist() == [EACH, 0]
    assert torus.plane_escape.tolist() == [1, -1]
    own, escape = {"d0+ 2", "d0- 2", "d1+ 2"}, {"d0+ 0", "d0- 1"}
    assert choices(torus, 0, 6, 0) == own | escape
    # Halfway round either way is as long; one plane of the base goes by +, the other by -.
    assert choices(minimal_adaptive(grid("ring", [4, 4]), ties="+"), 0, 6, 0) == {"d0+ 2", "d1+ 2"} | escape
    assert choices(minimal_adaptive(grid("ring", [4, 4]), ties="-"), 0, 6, 0) == {"d0- 2", "d1+ 2"} | escape
    assert choices(minimal_adaptive(tie_random(grid("ring", [4, 4]))), 0, 6, 0) == own | escape
    # Classes of the escape are read anew: behind the end a packet is in class 0 again.
    assert [c for _, c in torus.route(3, 1, 1)] == [1, 0]
    one = minimal_adaptive(grid("mesh", [3, 3]), adaptive_vcs=1, sticky=True, equal=True)
    assert one.fixed_vcs == (1, 1)
    assert one.plane_sticky.tolist() == [1, 0]
    assert one.plane_equal.tolist() == [1, 0]
    assert choices(one, 0, 8, 0) == {"d0+ 1", "d1+ 1", "d0+ 0"}


@pytest.mark.parametrize(
    ("made", "blocks", "words"),
    [
        (xy_yx, [("ring", 8)], "two dimensions"),
        (balanced, [("mesh", 4)], "bidirectional ring"),
        (romm, [("switch", 4)], "dimension 0 is neither"),
        (romm, [("mesh", 3), ("fully-connected", 4)], "dimension 1 is neither"),
        (minimal_adaptive, [("ring", 4), ("switch", 2)], "dimension 1 has a switch"),
        (lambda base: valiant(valiant(base)), [("ring", 4)], "several route options or a via"),
        (lambda base: ugal(xy_yx(base)), [("mesh", 2), ("mesh", 2)], "several route options"),
        (lambda base: valiant(minimal_adaptive(base)), [("mesh", 3)], "adaptive routing with an escape"),
        (lambda base: xy_yx(valiant(base)), [("mesh", 2), ("mesh", 2)], "several route options"),
        (lambda base: minimal_adaptive(base, adaptive_vcs=-1), [("mesh", 2)], r"adaptive_vcs: -1 adaptive VCs"),
        (lambda base: minimal_adaptive(base, ties="+"), [("mesh", 2)], "unknown value '[+]'; allowed: both"),
        (lambda base: minimal_adaptive(base, ties="up"), [("ring", 4)], "allowed: both, [+], -"),
    ],
)
def test_what_makes_no_sense_is_refused(made: Any, blocks: list[tuple[str, int]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(plain([block(name, npus) for name, npus in blocks]))


@pytest.mark.parametrize("made", [xy_yx, balanced, romm])
def test_grids_only(made: Any) -> None:
    graph = up_down(Graph.of([(0, 1), (1, 0)]))
    with pytest.raises(InputError, match="a grid of NPUs"):
        made(graph)


def test_one_way_rings() -> None:
    base = grid("ring", [4, 4], bidirectional=False)
    for made in (valiant, ugal, xy_yx, minimal_adaptive):
        prove(made(base), whole=True)
    with pytest.raises(InputError, match="neither"):
        romm(base)


def test_an_adaptive_packet_may_be_confined_to_the_first_dimension() -> None:
    base = grid("mesh", (4, 4))
    relation = minimal_adaptive(base, dimensions="first")
    assert relation.plane_any[0] == 0
    prove(relation, whole=True)
    with pytest.raises(InputError, match="dimensions"):
        minimal_adaptive(base, dimensions="last")  # type: ignore[arg-type]


def test_a_planar_packet_may_be_confined_to_the_first_dimension() -> None:
    base = grid("mesh", (4, 4))
    planar = grid_routings(base, kinds_of(base))["planar-adaptive"]
    relation = planar(dimensions="first")
    prove(relation, whole=True)
    # NPU 15 is to the right and above: the packet may go right only, in class 2, or also up, in class 0.
    assert len(choices(relation, 0, 15, 0)) == 1
    assert len(choices(planar(), 0, 15, 0)) == 2
    with pytest.raises(InputError, match="dimensions"):
        planar(dimensions="last")


@pytest.mark.parametrize(
    "blocks",
    [[("ring", 6)], [("ring", 4), ("ring", 5)], [("mesh", 2), ("ring", 2), ("ring", 4)], [("ring", 4), ("switch", 3)]],
)
def test_ties_of_a_product_are_those_of_its_tables(blocks: list[tuple[str, int]]) -> None:
    """Tables that are computed block by block, and the same ones entry by entry."""
    made = [block(name, npus) for name, npus in blocks]
    product, table = whole_product("net", made).relation, tie_random(plain(made))
    assert isinstance(product.link, ProductTable)
    assert isinstance(table.link, np.ndarray)
    assert (product.planes, product.sets, product.ways) == (table.planes, table.sets, table.ways)
    np.testing.assert_array_equal(product.own, table.own)
    for row, dim in np.argwhere(table.own != SKIP).tolist():
        first = [int(relation.offset[row, dim]) for relation in (product, table)]
        for digit in range(int(table.digits[:, dim].max()) + 1):
            assert product.candidates(first[0] + digit) == table.candidates(first[1] + digit)
    np.testing.assert_array_equal(product.link[: len(product.link)], np.asarray(product.link))
