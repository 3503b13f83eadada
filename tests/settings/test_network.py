"""[network]: pipelines, values per dimension, what is derived from them."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pyxsim.errors import InputError
from pyxsim.plugins import allocators
from pyxsim.settings import Network, PipelineTable, RouterSettings, Stages, load_experiment, resolved_toml
from pyxsim.settings.router import PIPELINES, read_allocator
from pyxsim.units import Cycles
from tests.in_turn import in_turn

NS = Fraction(1, 10**9)
COLLECTIVE = {"kind": "all-reduce", "size": "1 KiB"}


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


# -- routers -----------------------------------------------------------------------------------------------------------


def router(**keys: Any) -> RouterSettings:
    return RouterSettings.model_validate(keys)


def faults_of(**keys: Any) -> list[str]:
    """Every fault of an experiment with such a router, one line each."""
    tables = {"network": {"topology": "ring", "shape": [4], "router": keys}, "collective": COLLECTIVE}
    try:
        load_experiment(tables)
    except InputError as error:
        return str(error).splitlines()
    return []


def test_without_more_words_a_router_is_as_it_was() -> None:
    assert router().networks() == (4,)
    assert (router().va_allocator, router().sa_allocator) == ("rotating", "separable-input-first")
    assert router().flow_control == "wormhole"


def test_lookahead_takes_rc_away() -> None:
    assert router(lookahead=True).stages() == Stages(bw=0, rc=0, va=1, sa=1, st=1)
    assert router(lookahead=True, pipeline={"rc": 3, "va": 2}).stages() == Stages(bw=0, rc=0, va=2, sa=1, st=1)


def test_virtual_networks_share_out_the_vcs() -> None:
    assert router(vcs=6, virtual_networks=[2, 1, 3]).networks() == (2, 1, 3)


NAMES = [name for name in allocators.spellings("sa") if not name.endswith(":N")]


@in_turn("key", ["va_allocator", "sa_allocator"])
@in_turn("name", [*NAMES, "islip:1", "islip:3", "islip:64"])
def test_allocators_by_name(key: str, name: str) -> None:
    assert getattr(router(**{key: name}), key) == name


def test_an_unknown_allocator_is_refused_once_the_libraries_are_loaded() -> None:
    with pytest.raises(InputError, match=r"unknown value 'wavefrnt'; .*did you mean 'wavefront'\?"):
        read_allocator("wavefrnt", "sa")
    with pytest.raises(InputError, match=r"network.router.sa_allocator: unknown value 'mine'; .*libraries=\['DIR'\]"):
        router(sa_allocator="mine").allocator("sa")


GARNET = {"pipeline": "garnet"}
MISFITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"va_allocator": "islip:0"}, ["va_allocator: unknown value 'islip:0'"]),
    ({"va_allocator": "islip:65"}, ["va_allocator: unknown value 'islip:65'"]),
    ({"va_allocator": 3}, ["va_allocator: unknown value 3; allowed: age, islip, islip-unranked, loa"]),
    (
        {"sa_allocator": "rotating"},
        ["sa_allocator: the allocator 'rotating' does not serve SA; allowed: age, islip, islip-unranked, loa"],
    ),
    ({"flow_control": "cut-through"}, ["did you mean 'virtual-cut-through'?"]),
    ({**GARNET, "lookahead": True}, ["lookahead: has no effect: RC takes no cycle in this pipeline"]),
    (
        {**GARNET, "speculation": True},
        ["speculation: requires VC allocation as a stage; the pipeline has va = 0"],
    ),
    (
        {**GARNET, "va_allocator": "age"},
        ["va_allocator: 'age' has no effect: the pipeline has no VC all"],
    ),
    (
        {"virtual_networks": [2, 1]},
        ["virtual_networks: the virtual networks have 3 VCs in total; a link has 4; allowed: "],
    ),
    (
        {"virtual_networks": [4, 0]},
        ["virtual_networks[1]: 0 is too small; allowed: a whole number from 1"],
    ),
    ({"virtual_networks": []}, ["virtual_networks: the list is empty; allowed: at least one entry"]),
    (
        {"input_speedup": 5},
        ["input_speedup: 5 exceeds the number of VCs of a port; allowed: at most vcs = 4"],
    ),
    (
        {"internal_speedup": 17},
        ["internal_speedup: 17 is too large; allowed: a number from 1 to 16, such as 2 or 1.5"],
    ),
    ({"shared_buffer": -1}, ["shared_buffer: -1 is too small"]),
    ({"watchdog": 0}, ["watchdog: 0 is too small"]),
    ({"routing_options": [1]}, ["routing_options: [1] is not a table"]),
    ({"arbiter": "step", "va_allocator": "islip"}, ["arbiter: cannot be combined with va_allocator = 'islip'"]),
    ({"ordered": True, "sa_allocator": "age"}, ["ordered: cannot be combined with sa_allocator = 'age'"]),
    (
        {"ordered": True, "input_speedup": 2},
        ["ordered: cannot be combined with input_speedup = 2; allowed: ord"],
    ),
    (
        {"arbiter": "step", "internal_speedup": 2, "speculation": True},
        [
            "arbiter: cannot be combined with internal_speedup = 2",
            "arbiter: cannot be combined with speculation = true",
        ],
    ),
]


@in_turn(("keys", "told"), MISFITS)
def test_settings_that_do_not_fit_together(keys: dict[str, Any], told: list[str]) -> None:
    found = faults_of(**keys)
    assert len(found) == len(told)
    for text, part in zip(found, told, strict=True):
        assert part in text


def test_garnets_settings_go_together() -> None:
    garnet = {"pipeline": "garnet", "arbiter": "step", "ordered": True, "output_queue": True, "vc_reuse": "drained"}
    assert faults_of(**garnet) == []


def test_routers_are_written_and_read_again() -> None:
    keys = {
        "va_allocator": "islip:2",
        "sa_allocator": "wavefront",
        "virtual_networks": [1, 3],
        "routing_options": {"bias": 3, "adaptive_vcs": 2},
        "flow_control": "store-and-forward",
    }
    tables = {"network": {"topology": "ring", "shape": [4], "router": keys}, "collective": COLLECTIVE}
    experiment = load_experiment(tables)
    again = load_experiment(tomllib.loads(resolved_toml(experiment)))
    assert again == experiment
    assert again.network.router.routing_options == {"bias": 3, "adaptive_vcs": 2}
