"""The traffic of the benchmarks: always the same packets, all of which arrive; router visits by counting on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.traffic import Open, Packets, simulate
from tests.examples import part_of

SMALL = Open(4, 0.2, 100)


def links(of: Open, packets: Packets) -> int:
    """Links on the shortest routes of all packets."""
    total = 0
    for stride in (1, of.side):
        along = abs(packets.dst // stride % of.side - packets.src // stride % of.side)
        total += int((np.minimum(along, of.side - along) if of.topology == "torus" else along).sum())
    return total


@settings(max_examples=part_of(20))
@given(
    st.builds(
        Open,
        side=st.integers(2, 6),
        load=st.floats(0.02, 0.9),
        cycles=st.integers(20, 60),
        flits=st.integers(1, 9),
        vcs=st.integers(2, 5),
        buffer=st.integers(1, 9),
        topology=st.sampled_from(["torus", "mesh"]),
        hot=st.sampled_from([0.0, 0.3]),
        message=st.integers(1, 3),
    )
)
def test_every_flit_visits_the_routers_of_its_route(of: Open) -> None:
    packets = of.packets()
    if len(packets.src):
        flits = of.flits * of.message
        assert simulate(of).work == flits * (links(of, packets) + len(packets.src))


def test_always_the_same() -> None:
    first, again = simulate(SMALL), simulate(SMALL)
    assert (first.work, first.cycles) == (again.work, again.cycles)
    assert first.facts["packet_latency"] == again.facts["packet_latency"]


def test_the_load_is_what_is_asked_for() -> None:
    of = Open(8, 0.3, 5000)
    flits = len(of.packets().src) * of.flits
    # 320 000 draws of a packet with probability 0.06: six standard deviations are 0.013.
    assert abs(flits / (of.cycles * 64) - 0.3) < 0.013


def test_a_hot_node() -> None:
    of = replace(SMALL, cycles=2000, hot=0.5)
    to_it = (of.packets().dst == 0).mean()
    # Half of them, and a sixteenth of the others; about 1300 packets.
    assert abs(to_it - (0.5 + 0.5 / 16)) < 0.07
