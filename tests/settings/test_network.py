"""[network]: pipelines, values per dimension, what is derived from them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyxsim.settings import Network, PipelineTable, RouterSettings, Stages
from pyxsim.settings.network import PIPELINES
from pyxsim.units import Cycles

NS = Fraction(1, 10**9)


def network(**keys: Any) -> Network:
    return Network.model_validate({"topology": "torus", **keys})


def test_presets_are_those_of_the_router_page() -> None:
    # docs/router.md: `booksim` is bw=0 rc=1 va=1 sa=1 st=1; `garnet` is bw=r-1 rc=0 va=0 sa=1 st=0.
    assert RouterSettings().stages() == Stages(bw=0, rc=1, va=1, sa=1, st=1)
    assert RouterSettings(pipeline="garnet").stages() == Stages(bw=0, rc=0, va=0, sa=1, st=0)
    assert RouterSettings(pipeline="garnet", latency=5).stages() == Stages(bw=4, rc=0, va=0, sa=1, st=0)


@given(st.sampled_from(sorted(PIPELINES)), st.integers(1, 1000))
def test_a_preset_adds_up_to_its_router_latency(name: str, latency: int) -> None:
    stages = PIPELINES[name](latency)
    assert sum(stages) == {"booksim": 4, "garnet": latency}[name]
    assert min(stages) >= 0
    assert stages.sa >= 1


def test_a_pipeline_told_by_stages_fills_up_with_booksims() -> None:
    router = RouterSettings.model_validate({"pipeline": {"rc": 2, "st": 0}})
    assert router.stages() == Stages(bw=0, rc=2, va=1, sa=1, st=0)
    assert PipelineTable().stages() == RouterSettings().stages()


def test_one_value_is_for_every_dimension() -> None:
    net = network(shape=[4, 4], bandwidth="1 GB/s", latency="2 cycles")
    assert net.bandwidths(2) == [10**9, 10**9]
    assert net.latencies(2) == [Cycles(2), Cycles(2)]
    assert net.dimensions == 2
    assert network().dimensions is None


def test_a_list_is_one_value_for_each_dimension() -> None:
    net = network(shape=[4, 4], bandwidth=["1 GB/s", "2 GB/s"], latency=["1 ns", "2 ns"])
    assert net.bandwidths(2) == [10**9, 2 * 10**9]
    assert net.latencies(2) == [NS, 2 * NS]


def test_a_dimensions_own_value_counts_first() -> None:
    dims = [{"block": "ring", "npus": 2, "bandwidth": "7 GB/s"}, {"block": "ring", "npus": 2, "latency": "9 ns"}]
    net = Network.model_validate({"dims": dims, "bandwidth": ["1 GB/s", "2 GB/s"], "latency": "3 ns"})
    assert net.bandwidths(2) == [7 * 10**9, 2 * 10**9]
    assert net.latencies(2) == [3 * NS, 9 * NS]
    assert net.dimensions == 2


def test_the_serialisation_time_is_exact() -> None:
    # 256 B at 100 GB/s take 2.56 ns: 2.56 cycles at 1 GHz.
    net = network()
    assert net.cycles_per_flit(Fraction(100 * 10**9)) == Fraction(256, 100)
    assert net.cycles_per_flit(Fraction(3 * 10**9)) == Fraction(256, 3)


def test_rounding_is_warned_of_where_it_matters() -> None:
    # 1.5 ns is 2 cycles at 1 GHz (33 % more), 99.5 ns is 100 (0.5 % more).
    net = network(shape=[2, 2], latency=["1.5 ns", "99.5 ns"])
    assert net.warnings() == ["network.latency[0]: 1.5 ns is simulated as 2 cycles of the 1 GHz clock"]
    assert network().warnings() == []
    dims = [{"block": "ring", "npus": 2, "latency": "100 ps"}]
    assert Network.model_validate({"dims": dims}).warnings() == [
        "network.dims[0].latency: 100 ps is simulated as 1 cycle of the 1 GHz clock"
    ]


def test_exact_numbers_from_python_are_taken_as_they_are() -> None:
    net = network(bandwidth=Fraction(10, 3), latency=Cycles(5), clock=Fraction(10**9))
    assert net.bandwidth == Fraction(10, 3)
    assert net.latency == Cycles(5)
    with pytest.raises(ValidationError, match="negative"):
        network(latency=Fraction(-1))


def test_settings_do_not_change_after_reading() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        network().flit = 1
