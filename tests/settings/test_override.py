"""`--set KEY=VALUE`: what it changes, what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings import Experiment, Stages, load_experiment
from pyxsim.settings.override import parse_override, split_override, split_path
from pyxsim.units import Cycles
from tests.in_turn import in_turn

RINGS: dict[str, Any] = {
    "network": {"dims": [{"block": "ring", "npus": 4}, {"block": "switch", "npus": 2, "latency": "1 us"}]},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
}


def loaded(*overrides: str) -> Experiment:
    return load_experiment(RINGS, overrides)


def told(*overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        loaded(*overrides)
    return str(caught.value)


def test_values_are_toml_or_bare_words_and_quantities() -> None:
    experiment = loaded(
        "network.router.vcs=8",
        "network.router.output_queue = true",
        "network.router.pipeline={ rc = 2 }",
        "network.bandwidth=[\"1 GB/s\", '2 GB/s']",
        "system.scheduling=FIFO",
        "collective.size=2 MiB",
        "network.lane_latency=3 cycles",
        "system.all_reduce=direct4",
    )
    assert experiment.network.router.vcs == 8
    assert experiment.network.router.output_queue is True
    assert experiment.network.router.stages() == Stages(bw=0, rc=2, va=1, sa=1, st=1)
    assert experiment.network.bandwidth == (10**9, 2 * 10**9)
    assert experiment.system.scheduling == "FIFO"
    assert experiment.collectives[0][1].size == 2**21
    assert experiment.network.lane_latency == Cycles(3)
    assert experiment.system.all_reduce == "direct:4"


def test_indices_reach_into_lists() -> None:
    dims = loaded("network.dims[1].npus=8", "network.dims[0].block=mesh").network.dims
    assert dims is not None
    assert [(d.block, d.npus) for d in dims] == [("mesh", 4), ("switch", 8)]


def test_the_last_of_two_overrides_counts() -> None:
    assert loaded("system.chunks=2", "system.chunks=3").system.chunks == 3


def test_tables_that_are_not_there_yet_are_made() -> None:
    assert loaded("network.router.pipeline.sa=2").network.router.stages().sa == 2
    assert loaded("output.seed=7").output.seed == 7


def test_keys_may_be_quoted() -> None:
    assert loaded('"system".chunks=2').system.chunks == 2
    assert split_override('a."b=c".d[1]="e=f"') == ('a."b=c".d[1]', "=", '"e=f"')
    assert split_path('a."b.c".d[1]') == ["a", '"b.c"', "d[1]"]
    data = {**RINGS, "network": {"topology": "x"}}
    assert load_experiment(data, ['network.options."a.b"=4']).network.options == {"a.b": 4}


def test_free_tables_take_any_key() -> None:
    data = {**RINGS, "network": {"topology": "x"}}
    assert load_experiment(data, ["network.options.radix=4"]).network.options == {"radix": 4}


@in_turn(
    ("override", "line"),
    [
        ("vcs", "overrides: 'vcs' has no '='; allowed: KEY=VALUE such as network.router.vcs=8"),
        (
            "=3",
            "overrides: '' is not a key path; allowed: a key path such as network.router.vcs or network.dims[0].npus",
        ),
        ("a b=3", "overrides: 'a b' is not a key path"),
        ("network..clock=3", "overrides: 'network..clock' is not a key path"),
        ("network.dims[x].npus=3", "is not a key path"),
        ("network.router.vcz=3", "overrides: network.router.vcz: unknown key; allowed: pipeline, "),
        ("network.router.vcz=3", "did you mean 'vcs'?"),
        ("router.vcs=3", "overrides: router: unknown key here; it belongs to [network]"),
        ("network.dims[0].clock=3", "overrides: network.dims[0].clock: unknown key here; it belongs to [network]"),
        ("network.router.pipeline.x=3", "overrides: network.router.pipeline.x: unknown key"),
        ("network.clock=", "overrides: network.clock: missing value"),
        (
            "network.bandwidth=[1",
            "overrides: network.bandwidth: '[1' is not a TOML value; allowed: such as 8, true, [4, 4] or a",
        ),
        ("network.clock='x", "is not a TOML value"),
        ("network.clock.x=3", "overrides: network.clock: is not a table; allowed: a frequency such as '1 GHz'"),
        ("network.dims[2].npus=3", "overrides: network.dims[2].npus: the list at 'network.dims' has 2 entries"),
        ("network.dims[2].npus=3", "allowed: network.dims[0], network.dims[1]"),
        ("network.shape[0]=3", "overrides: network.shape[0]: there is no list at 'network.shape'"),
        ("network.dims.npus=3", "overrides: network.dims.npus: there is no table at 'network.dims'"),
        ("network[0]=3", "overrides: network[0]: there is no list at 'network'"),
        ("network.router.vcs=0", "overrides: network.router.vcs: 0 is too small"),
        ("network.router.vcs=many", "overrides: network.router.vcs: 'many' is not a whole number"),
        ("network.router.vcs=08", "overrides: network.router.vcs: '08' is not a whole number"),
        ("network.dims[0]={ blok = 'ring', npus = 2, block = 'x' }", "overrides: network.dims[0].blok: unknown key"),
        ("network.clock=1 GHz\nflit = 3", "overrides: network.clock: '1 GHz\\nflit = 3' is not a frequency"),
        ("network.clock=1\nflit = 3", "is not a unit of frequency"),
        ("traffic.laod=1", "overrides: traffic.laod: unknown key"),
        ("network.clock=" + "[" * 100_000, "is not a TOML value"),
    ],
)
def test_refusals_name_the_override(override: str, line: str) -> None:
    text = told(override)
    assert line in text
    assert len(text.splitlines()) == 1


def test_faults_of_overrides_and_of_the_file_come_together() -> None:
    text = told("network.router.vcs=0", "nonsense", "system.chunks=0")
    assert [line.split(": ")[0] for line in text.splitlines()] == ["overrides", "overrides", "overrides"]
    bad = {**RINGS, "system": {"chunks": 0}}
    with pytest.raises(InputError) as caught:
        load_experiment(bad, ["network.router.vcs=0"])
    assert str(caught.value).splitlines() == [
        "overrides: network.router.vcs: 0 is too small; allowed: a whole number from 1 to 1024",
        "system.chunks: 0 is too small; allowed: a whole number from 1 to 1048576",
    ]


def test_keys_that_are_words_of_python_are_set_like_others() -> None:
    fault = "faults=[{npu = 0, down = true, for = '1 us'}]"
    found = loaded(fault, "faults[0].for=2 us", "network.credits.return=piggyback")
    assert found.faults[0].duration == Fraction(2, 10**6)
    assert found.network.credits is not None
    assert found.network.credits.back == "piggyback"
    assert told(fault, "faults[0].duration=2 us").startswith("overrides: faults[0].duration: unknown key")
    assert "allowed: flits, piggyback" in told("network.credits.return=ideal")
    other_name = {**RINGS, "faults": [{"npu": 0, "down": True, "duration": "1 us"}]}
    with pytest.raises(InputError, match=r"faults\[0\].duration: unknown key; allowed: link, .* for, "):
        load_experiment(other_name)


def test_a_job_that_is_not_there_is_refused_with_those_that_are() -> None:
    work = {"npus": 4, "collective": [{"kind": "all-reduce", "size": "4 KiB"}]}
    jobs = {"network": {"topology": "ring", "shape": [8]}, "job": [{"name": "a", **work}, {"name": "b", **work}]}
    line = "overrides: job[5].npus: there are 2 jobs; allowed: job[0], job[1]"
    with pytest.raises(InputError) as caught:
        load_experiment(jobs, ["job[5].npus=3"])
    assert str(caught.value) == line


def test_a_switch_from_dims_to_a_topology_is_told_as_it_is() -> None:
    assert told("network.topology=torus") == (
        "network.dims: cannot be combined with 'topology'; allowed: exactly one of them"
    )


@given(st.text() | st.from_regex(r"[a-z.\[\]0-9]{1,12}=.*", fullmatch=True))
def test_any_override_is_taken_or_told_plainly(override: str) -> None:
    fault = ""
    try:
        loaded(override)
    except InputError as error:
        fault = str(error)
    assert all(line.isprintable() for line in fault.split("\n"))


@given(st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.lists(st.integers(0, 9)))
def test_toml_values_mean_what_they_say(value: Any) -> None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    assert parse_override(f"network.options.x={text}") == (("network", "options", "x"), value)
