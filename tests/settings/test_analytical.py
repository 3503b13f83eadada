"""[network.analytical]: what is read, what is refused, and that it is written back as it was."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings import load_experiment, resolved_toml
from pyxsim.settings.analytical import Analytical


def experiment(**analytical: Any) -> dict[str, Any]:
    network = {"topology": "torus", "shape": [2, 2], "analytical": analytical}
    return {"network": network, "collective": {"kind": "all-reduce", "size": "1 MiB"}}


def test_the_default_is_neutral() -> None:
    table = load_experiment(experiment()).network.analytical
    assert table == Analytical()
    assert (table.forwarding, table.summands) == (None, ())


def test_it_is_written_back() -> None:
    given = {
        "forwarding": "store-and-forward",
        "nic_latency": ["1.5 ns", "0 ns"],
        "router_latency": "2 cycles",
        "hbm_latency": "1/3 us",
        "hbm_bandwidth": ["370 GB/s", "1 TB/s"],
        "hbm_scale": [0.5, "1/3"],
    }
    first = load_experiment(experiment(**given))
    assert load_experiment(tomllib.loads(resolved_toml(first))) == first
    table = first.network.analytical
    assert table.hbm_scale == (Fraction(1, 2), Fraction(1, 3))
    assert table.summands == ("nic_latency", "router_latency", "hbm_latency", "hbm_bandwidth", "hbm_scale")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"forwarding": "wormhole"}, "network.analytical.forwarding: .*'wormhole'.*"),
        ({"hbm_scale": -1}, "network.analytical.hbm_scale: -1 is too small"),
        ({"hbm_scale": "fast"}, "network.analytical.hbm_scale: 'fast' is not a number"),
        ({"nic_latency": 5}, "network.analytical.nic_latency: 5 has no unit"),
        ({"hbm_bandwidth": "0 GB/s"}, "network.analytical.hbm_bandwidth: '0 GB/s' is zero"),
        ({"nic_delay": "5 ns"}, "network.analytical.nic_delay: unknown key; .*did you mean 'nic_latency'"),
    ],
)
def test_faults(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_experiment(experiment(**given))
