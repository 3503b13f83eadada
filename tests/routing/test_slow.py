"""The proof against a slow one that follows every packet through every state, on random relations."""

from __future__ import annotations

import dataclasses
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError, InputError, UnreachableError
from pyxsim.routing import (
    EACH,
    Graph,
    Relation,
    Way,
    adaptive_up_down,
    balanced,
    dependencies,
    minimal_adaptive,
    prove,
    romm,
    tie_random,
    ugal,
    valiant,
    xy_yx,
)
from pyxsim.routing.graph import distances
from pyxsim.routing.planes import Plane, plane, rebuilt
from tests.examples import part_of
from tests.routing.nets import grid, grids
from tests.routing.slow import NoRoute, Row, Slow, everything


def compare(relation: Relation, rows: list[Row] | None, *, whole: bool) -> str:
    """Same verdict, and the same dependencies."""
    found = "proved"
    try:
        prove(relation, rows, whole=whole)
    except UnreachableError:
        found = "unreachable"
    except DeadlockError:
        found = "deadlock"
    try:
        slow = Slow(relation, everything(relation) if rows is None else rows, whole=whole).graph()
    except NoRoute:
        assert found == "unreachable"
        return found
    assert found == ("proved" if nx.is_directed_acyclic_graph(slow) else "deadlock")
    graph = dependencies(relation, rows, whole=whole)
    assert graph.edges() == set(slow.edges)
    cycle = [graph.channel(number) for number in graph.cycle()]
    assert bool(cycle) == (found == "deadlock")
    return found


def random_rows(relation: Relation) -> st.SearchStrategy[list[Row] | None]:
    npu = st.integers(0, relation.npus - 1)
    row = st.tuples(npu, npu, st.integers(-1, relation.planes - 1))
    return st.one_of(st.none(), st.lists(row, max_size=12))


@st.composite
def graphs(draw: st.DrawFn) -> Relation:
    """Random tables over a random graph: mostly shortest paths, with random classes, sets, escapes, groups and ways."""
    routers = draw(st.integers(2, 5))
    router = st.integers(0, routers - 1)
    ends = [(i, (i + 1) % routers) for i in range(routers)]
    ends += draw(st.lists(st.tuples(router, router).filter(lambda e: e[0] != e[1]), max_size=6))
    if draw(st.booleans()):
        ends += [(b, a) for a, b in ends]
    home = draw(st.lists(router, min_size=2, max_size=5))
    graph = Graph.of(ends, home)
    classes = draw(st.integers(1, 3))
    away = distances(graph)
    homes = np.unique(graph.home)
    nearer = away[graph.dst] < away[graph.src]
    if draw(st.sampled_from([False, False, True])):
        # Also detours: links to routers that are as far away, where routes may well go round in circles.
        nearer |= away[graph.dst] == away[graph.src]
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    own = np.full((routers, 1), -1, np.int32)
    own[homes, 0] = np.arange(len(homes))
    made = []
    count = draw(st.integers(1, 3))
    for _ in range(count):
        kept = nearer & (random.random(nearer.shape) < draw(st.sampled_from([0.4, 0.8, 1.0])))
        if draw(st.sampled_from([False, True, True])):
            # Nobody is left without a link who had one.
            for here, goal in zip(*np.nonzero(away > 0), strict=True):
                mine = (graph.src == here) & nearer[:, goal]
                if mine.any() and not (mine & kept[:, goal]).any():
                    kept[np.argmax(mine), goal] = True
        goal, link = np.nonzero(kept.T)
        start = np.arange(routers * len(homes) + 1) * 0
        offset = np.arange(routers, dtype=np.int64)[:, None] * len(homes)
        empty = Plane(own, offset, start, np.zeros(0, np.int32), np.zeros(0, np.int32))
        by_link = draw(st.booleans())
        level = random.integers(0, classes, len(graph.src))[link] if by_link else random.integers(0, classes, len(link))
        entry = graph.src[link].astype(np.int64) * len(homes) + goal
        select = draw(st.sampled_from([0, 1, 2, EACH, EACH]))
        escape = draw(st.integers(-1, count - 1)) if select == EACH else -1
        made.append(
            dataclasses.replace(
                empty.with_candidates(entry, link.astype(np.int32), level.astype(np.int32)),
                select=select,
                escape=escape,
                sticky=draw(st.integers(0, 1)),
                any=draw(st.integers(0, 1)),
            )
        )
    group = draw(st.sampled_from([-1, -1, 0]))
    empty_relation = Relation(
        npus=len(home),
        routers=routers,
        planes=count,
        digits=np.searchsorted(homes, graph.home).astype(np.int32)[:, None],
        own=own,
        offset=np.zeros_like(own, np.int64),
        link=np.zeros(0, np.int32),
        vc_class=np.zeros(0, np.int32),
        link_src=graph.src,
        link_dst=graph.dst,
        link_classes=np.full(len(ends), classes, np.int32),
        link_group=np.where(random.random(len(ends)) < 0.7, group, -1).astype(np.int32),
        link_name=graph.name,
        home=graph.home,
    )
    number = st.integers(0, count - 1)
    no_via = st.builds(Way, last=number)
    over = st.builds(Way, last=number, first=number, via=st.just("any"))
    ways = draw(st.lists(st.one_of(no_via, over), min_size=1, max_size=2))
    return rebuilt(empty_relation, made, ways=tuple(ways), choose=draw(st.sampled_from(["random", "least"])))


def tables_of_random_graphs(relation: Relation, whole: bool, data: st.DataObject) -> None:
    event(compare(relation, data.draw(random_rows(relation)), whole=whole))


TABLES = given(graphs(), st.booleans(), st.data())
test_tables_of_random_graphs = settings(max_examples=part_of(100))(TABLES(tables_of_random_graphs))
test_many_tables_of_random_graphs = pytest.mark.slow(settings(max_examples=4000)(TABLES(tables_of_random_graphs)))


@st.composite
def mixed_up(draw: st.DrawFn) -> Relation:
    """Grids with planes of several kinds, whose classes, groups and ways may be wrong."""
    base = draw(grids(most=9))
    made = draw(st.sampled_from([tie_random, valiant, romm, ugal, xy_yx, balanced, minimal_adaptive]))
    try:
        relation = made(base)
    except InputError:
        relation = tie_random(base)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    classes = relation.link_classes.astype(np.int64)
    changes: dict[str, Any] = {}
    kind = draw(st.sampled_from(["right", "one class", "shared classes", "random classes", "no groups", "one group"]))
    planes = [plane(relation, number) for number in range(relation.planes)]
    if kind == "one class":
        planes = [dataclasses.replace(p, vc_class=np.zeros_like(p.vc_class)) for p in planes]
    elif kind == "shared classes":
        planes = [dataclasses.replace(p, vc_class=p.vc_class % base.link_classes[p.link]) for p in planes]
    elif kind == "random classes":
        planes = [dataclasses.replace(p, vc_class=random.integers(0, classes[p.link]).astype(np.int32)) for p in planes]
    elif kind == "no groups":
        changes["link_group"] = np.full_like(relation.link_group, -1)
    elif kind == "one group" and len(set(classes.tolist())) == 1:
        changes |= {"link_group": np.zeros_like(relation.link_group), "separable": False}
    for number, p in enumerate(planes):
        wild = {
            "any": draw(st.sampled_from([p.any, p.any, 1])),
            "select": draw(st.sampled_from([p.select, p.select, EACH])),
            "escape": draw(st.sampled_from([p.escape, p.escape, len(planes) - 1])),
            "sticky": draw(st.sampled_from([p.sticky, 0, 1])),
        }
        planes[number] = dataclasses.replace(p, **wild)
    if draw(st.booleans()):
        number = st.integers(0, len(planes) - 1)
        via = st.sampled_from(["any", "box"] if relation.stride.any() and made is romm else ["any"])
        changes["ways"] = (draw(st.builds(Way, last=number, first=number, via=via)),)
    return rebuilt(relation, planes, **changes)


def mixed_up_grids(relation: Relation, whole: bool, data: st.DataObject) -> None:
    event(compare(relation, data.draw(random_rows(relation)), whole=whole))


GRIDS = given(mixed_up(), st.booleans(), st.data())
test_mixed_up_grids = settings(max_examples=part_of(80))(GRIDS(mixed_up_grids))
test_many_mixed_up_grids = pytest.mark.slow(settings(max_examples=4000)(GRIDS(mixed_up_grids)))


@settings(max_examples=part_of(30))
@given(st.integers(3, 7), st.integers(0, 2**32), st.booleans())
def test_adaptive_with_up_down_as_escape(routers: int, seed: int, sticky: bool) -> None:
    tree = nx.random_labeled_tree(routers, seed=seed)
    more = nx.gnm_random_graph(routers, routers, seed=seed)
    links = sorted({*tree.edges, *more.edges, *((b, a) for a, b in [*tree.edges, *more.edges])})
    relation = adaptive_up_down(Graph.of(links), sticky=sticky)
    found = compare(relation, None, whole=True)
    assert found == "proved" or not sticky
    event(f"{sticky} {found}")


def test_a_box_is_no_more_than_the_way_between() -> None:
    # On a line of three, packets over a via that is not between would go back and wait for themselves.
    base = valiant(grid("mesh", [3]))
    shared = dataclasses.replace(base, vc_class=np.zeros_like(base.vc_class))
    with pytest.raises(DeadlockError):
        prove(shared)
    box = romm(grid("mesh", [3]))
    prove(dataclasses.replace(box, vc_class=np.zeros_like(box.vc_class)))
