"""Which lanes messages take, against the way of each on its own; and that Python does not look at each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.engine_config import build_engine_config
from pyxsim.network.lanes import LaneChoice
from tests.counting import calls
from tests.examples import part_of
from tests.network.machines import drain, machine_of, packet_network

NETWORKS: list[tuple[str, list[int] | None, dict[str, Any]]] = [
    ("torus", [3, 4], {}),
    ("mesh", [3, 3], {}),
    ("torus", [2, 2, 2], {"router": {"routing": "minimal-adaptive", "vcs": 4}}),
    ("switch", [5], {}),
    ("fully-connected", [5], {}),
    ("dragonfly", None, {"options": {"p": 2, "a": 2, "h": 1}}),
    ("garnet-torus", [2, 2, 1], {}),
]


def choice(topology: str, shape: list[int] | None, **words: Any) -> tuple[Any, Any, LaneChoice]:
    network, settings = machine_of(topology, shape, **words)
    config = build_engine_config(network, settings)
    return network, config, LaneChoice(network, settings, config.inject, config.eject)


@pytest.mark.parametrize("lanes", ["auto", "per-link", "per-dimension"])
@pytest.mark.parametrize(("name", "shape", "words"), NETWORKS, ids=[name for name, *_ in NETWORKS])
def test_a_message_on_a_plane_takes_the_lanes_of_its_first_and_last_link(
    name: str, shape: list[int] | None, words: dict[str, Any], lanes: str
) -> None:
    topology, config, found = choice(name, shape, lanes=lanes, **words)
    rows = topology.pairs()
    rows = rows[np.random.default_rng(1).permutation(len(rows))[:150]]
    inject, eject = found.many(*rows.T)
    for (src, dst, plane), out, into in zip(rows.tolist(), inject.tolist(), eject.tolist(), strict=True):
        links = [link for link, _ in topology.relation.route(src, dst, plane)]
        wanted = []
        for npu, mine, link in ((src, config.inject, links[:1]), (dst, config.eject, links[-1:])):
            keys = [int(topology.link_dim[each]) if lanes == "per-dimension" else each for each in link]
            keys = [plane] if topology.lane_per_plane else keys
            first = next(iter(mine[npu].values()))  # between NPUs of one router, and where there is one only
            wanted.append(mine[npu][keys[0]] if keys and len(mine[npu]) > 1 else first)
        assert [out, into] == wanted
        assert found.one(src, dst, plane) == (out, into)  # as it is known now
    again = choice(name, shape, lanes=lanes, **words)[2]
    assert [again.one(*row) for row in rows.tolist()] == list(zip(inject.tolist(), eject.tolist(), strict=True))


@settings(max_examples=part_of(100))
@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.sampled_from([-1, 0, 1])), min_size=8, max_size=40),
    st.sampled_from(["auto", 2, "per-dimension"]),
    st.sampled_from([{}, {"routing": "minimal-adaptive", "vcs": 4}]),
)
def test_many_messages_at_once_are_the_same_messages_one_by_one(
    rows: list[tuple[int, int, int]], lanes: str | int, router: dict[str, Any]
) -> None:
    planes = 1 if router else 2
    rows = [(src, dst, min(plane, planes - 1)) for src, dst, plane in rows if src != dst]
    traces = []
    for at_once in (True, False):
        network = packet_network("torus", [3, 4], lanes=lanes, router=router, trace=True)
        src, dst, plane = np.array(rows, np.int64).reshape(-1, 3).T
        if at_once and rows:
            network.send_many(src, dst, 1 + src, plane, 0)
        elif rows:
            for row in zip(src.tolist(), dst.tolist(), plane.tolist(), strict=True):
                network.send(*row[:2], 1 + row[0], plane=row[2], at=0)
        drain(network)
        traces.append(network.engine.trace().tolist())
    assert traces[0] == traces[1]


def test_a_large_network_takes_no_more_python_than_a_small_one() -> None:
    """Everything that grows with the network is done in arrays: 8 times the routers, and hardly a call more."""
    counts = []
    for k in (8, 16):

        def work(k: int = k) -> None:
            _, config, found = choice("torus", [k, k, k])
            npus = np.arange(k**3)
            ahead = npus - npus % k + (npus + 1) % k
            inject, eject = found.many(npus, ahead, np.zeros_like(npus))
            assert (np.diff(inject) == 6).all()  # a lane for each link
            assert (config.inject.npu[inject] == npus).all()
            assert (config.eject.npu[eject] == ahead).all()

        counts.append(calls(work))
    assert counts[1] <= counts[0] + 50
