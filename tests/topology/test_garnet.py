"""Garnet's networks, link by link as configs/topologies/Torus3D.py and NV_Switch.py wire them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError, InputError, UnreachableError
from pyxsim.routing import prove
from pyxsim.topology import Queue, Topology
from tests.garnet_networks import garnet_switch, garnet_torus


def wires(net: Topology) -> Counter[tuple[str, int, int]]:
    """(name of the virtual network, source, destination) of every link."""
    kinds = [name.split(":")[0][2:] for name in net.link_name]
    return Counter(zip(kinds, net.link_src.tolist(), net.link_dst.tolist(), strict=True))


sizes = st.integers(1, 4)
rings = st.integers(1, 2)


@given(sizes, sizes, sizes, rings, rings, rings)
def test_torus_wiring(local: int, columns: int, rows: int, lr: int, hr: int, vr: int) -> None:
    net = garnet_torus(local, columns, rows, lr, hr, vr)
    expected: Counter[tuple[str, int, int]] = Counter()

    def node(i: int, column: int, row: int) -> int:
        return i % local + local * (column % columns + columns * (row % rows))

    for i in range(local):
        for c in range(columns):
            for r in range(rows):
                here = node(i, c, r)
                for j in range(lr if local > 1 else 0):
                    expected[f"LocalEast{j}", here, node(i + 1, c, r)] += 1
                for j in range(hr if columns > 1 else 0):
                    expected[f"East{j}", here, node(i, c + 1, r)] += 1
                    expected[f"West{j}", here, node(i, c - 1, r)] += 1
                for j in range(vr if rows > 1 else 0):
                    expected[f"North{j}", here, node(i, c, r + 1)] += 1
                    expected[f"South{j}", here, node(i, c, r - 1)] += 1
    assert wires(net) == expected
    assert len(set(net.link_name)) == net.links
    assert net.planes == lr + 2 * hr + 2 * vr
    assert net.lane_per_plane
    assert net.shape == (local, columns, rows)


@given(sizes, sizes, sizes, rings, rings, rings)
def test_on_a_plane_packets_go_round_its_ring(local: int, columns: int, rows: int, lr: int, hr: int, vr: int) -> None:
    net = garnet_torus(local, columns, rows, lr, hr, vr)
    for dim, queues in enumerate(net.queues):
        size = net.shape[dim]
        for queue in queues:
            used = set()
            for npu in range(net.npus):
                for dst in net.group(npu, dim).tolist():
                    route = net.relation.route(npu, dst, queue.plane)
                    steps = queue.direction * int(net.coords[dst, dim] - net.coords[npu, dim])
                    assert len(route) == steps % size
                    assert {vc_class for _, vc_class in route} <= {0}
                    used |= {link for link, _ in route}
            # Every link of this plane is of this dimension, and no other plane uses it.
            assert set(net.link_dim[list(used)].tolist()) <= {dim}
            assert len(used) == (net.npus if size > 1 else 0)
            table = net.relation.own[queue.plane * net.routers : (queue.plane + 1) * net.routers]
            assert (table[:, [d for d in range(3) if d != dim]] == -2).all()
    assert net.relation.link_classes.tolist() == [1] * net.links
    assert net.relation.link_group.tolist() == [-1] * net.links


def test_planes_are_numbered_like_the_queues_of_astra_sim() -> None:
    net = garnet_torus(2, 2, 2, 2, 1, 2)
    assert net.queues == (
        (Queue(0, 1), Queue(1, 1)),
        (Queue(2, 1), Queue(3, -1)),
        (Queue(4, 1), Queue(5, 1), Queue(6, -1), Queue(7, -1)),
    )
    kinds = []
    for plane, dst in enumerate([1, 1, 2, 2, 4, 4, 4, 4]):
        ((link, _),) = net.relation.route(0, dst, plane)
        kinds.append(net.link_name[link].split(":")[0])
    assert kinds == [
        "d0LocalEast0",
        "d0LocalEast1",
        "d1East0",
        "d1West0",
        "d2North0",
        "d2North1",
        "d2South0",
        "d2South1",
    ]


def test_off_its_ring_a_destination_cannot_be_reached() -> None:
    net = garnet_torus(2, 2, 1, 1, 1, 1)
    with pytest.raises(UnreachableError, match="plane 0 has no route to NPU 2"):
        net.relation.route(0, 2, 0)
    with pytest.raises(UnreachableError, match=r"plane 0: NPU \d cannot reach NPU \d: the route ends at another NPU"):
        prove(net.relation)


def test_neighbours_are_safe_and_anything_else_is_refused() -> None:
    net = garnet_torus(4, 2, 1, 1, 1, 1)
    (queue,) = net.queues[0]
    neighbours = [(n, int(net.group(n, 0)[(net.coords[n, 0] + 1) % 4]), queue.plane) for n in range(net.npus)]
    prove(net.relation, neighbours)
    with pytest.raises(DeadlockError) as caught:
        prove(net.relation, net.pairs())
    assert caught.value.cycle == [f"d0LocalEast0:({i},0,0)->({(i + 1) % 4},0,0)" for i in range(4)]
    # Rings of two have ways of one link only.
    two = garnet_torus(2, 2, 2, 2, 1, 2)
    prove(two.relation, two.pairs())


def test_pairs_stay_in_the_dimension_of_their_plane() -> None:
    net = garnet_torus(2, 3, 1, 1, 1, 1)
    expected = [(a, b, 0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4))]
    columns = [(0, 2, 4), (1, 3, 5)]
    expected += [(a, b, plane) for plane in (1, 2) for c in columns for a in c for b in c if a != b]
    assert sorted(map(tuple, net.pairs().tolist())) == sorted(expected)


@given(sizes, sizes, rings, st.integers(1, 4))
def test_switch_wiring(local: int, packages: int, lr: int, switches: int) -> None:
    net = garnet_switch(local, packages, lr, switches)
    expected: Counter[tuple[str, int, int]] = Counter()
    npus = local * packages
    for npu in range(npus):
        for j in range(lr if local > 1 else 0):
            expected[f"LocalEast{j}", npu, npu - npu % local + (npu + 1) % local] += 1
        for s in range(switches if npus > 1 else 0):
            expected[f"up{s}", npu, npus + s] += 1
            expected[f"down{s}", npus + s, npu] += 1
    assert wires(net) == expected
    assert (net.npus, net.shape) == (npus, (local, packages))
    assert net.planes == lr + switches
    for queue in net.queues[1]:
        for src in range(npus):
            for dst in range(npus):
                route = [link for link, _ in net.relation.route(src, dst, queue.plane)]
                if src == dst:
                    assert route == []
                    continue
                switch = npus + queue.plane - lr
                assert [net.link_dst[link] for link in route] == [switch, dst]
    for queue in net.queues[0]:
        assert len(net.relation.route(local - 1, 0, queue.plane)) == (1 if local > 1 else 0)


@pytest.mark.parametrize(("switches", "ways"), [(1, [1]), (2, [1, -1]), (3, [1, -1, -1]), (4, [1, 1, -1, -1])])
def test_directions_of_the_switch_queues(switches: int, ways: list[int]) -> None:
    net = garnet_switch(2, 2, 1, switches)
    assert net.queues == ((Queue(0, 1),), tuple(Queue(1 + i, way) for i, way in enumerate(ways)))  # type: ignore[arg-type]
    prove(net.relation, net.pairs())


def test_switches_may_carry_all_pairs() -> None:
    net = garnet_switch(2, 4, 1, 2)
    prove(net.relation, [(a, b, plane) for plane in (1, 2) for a in range(8) for b in range(8)])


@pytest.mark.parametrize("wrong", [0, -1, True, 1.0])
def test_faults(wrong: int) -> None:
    with pytest.raises(InputError, match="local-rings"):
        garnet_torus(2, 2, 2, wrong, 1, 1)
    with pytest.raises(InputError, match="links-per-tile"):
        garnet_switch(2, 2, 1, wrong)
    with pytest.raises(InputError, match=r"network\.shape"):
        garnet_torus(0, 2, 2, 1, 1, 1)
