"""The catalogue: every entry has sources, and its figures are complete or say that they are not."""

from __future__ import annotations

import pytest

from pyxsim.costs.catalogue import KINDS, entries, entry, technology
from pyxsim.costs.noc.technology import Technology
from pyxsim.errors import InputError
from pyxsim.models import devices
from pyxsim.settings.estimate import Estimate

ALL = [(kind, name) for kind in KINDS for name in entries(kind)]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_entry_has_sources_with_years(kind: str, name: str) -> None:
    one = entries(kind)[name]
    assert one.help
    assert one.sources
    assert all(source.url.startswith("https://") and 2000 <= source.year <= 2026 for source in one.sources)
    if kind == "technologies":
        assert isinstance(one.figures, Technology)
        return
    known = one.figures.model_fields_set
    assert known
    # An assumption is about a figure that the entry has.
    assert {assumption.key for assumption in one.assumed} <= known
    bounds = [value for key in known if isinstance(value := getattr(one.figures, key), Estimate)]
    assert all(0 <= bound.low <= bound.typical <= bound.high for bound in bounds)


def test_npus_are_devices() -> None:
    # cost.npu defaults to the entry of system.npu.device.
    assert set(entries("npus")) <= set(devices())


def test_power_at_work_is_above_that_without() -> None:
    for one in entries("npus").values():
        assert one.figures.idle.high < one.figures.power.low, one.name


def test_longer_reach_takes_more_energy() -> None:
    links = entries("links")
    order = ["on-package-advanced", "on-package-standard", "board", "optical-multimode", "optical"]
    typical = [links[name].figures.energy.typical for name in order]
    assert typical == sorted(typical)
    assert links["co-packaged"].figures.energy.high < links["optical"].figures.energy.low


def test_unknown_entries_are_refused() -> None:
    with pytest.raises(InputError, match=r"cost.links.type: 'opticl' is not in the catalogue.*did you mean 'optical'"):
        entry("links", "opticl", "cost.links.type")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"vdd": 1}, "cost.noc.parameters.vdd: unknown key"),
        ({"supply": "1 V"}, "cost.noc.parameters.supply: '1 V' is not a number"),
        ({"supply": 0}, "cost.noc.parameters.supply: is zero"),
        ({"flop": [16]}, r"cost.noc.parameters.flop: \[16\] is not the size of a cell"),
        ({"supply": True}, "is not a number"),
    ],
)
def test_parameters_of_technologies_are_checked(changed: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        technology("dsent-32nm", changed)


def test_parameters_replace_those_of_the_technology() -> None:
    changed = technology("dsent-32nm", {"supply": 0.45, "flop": [20, 9]})
    base = technology("dsent-32nm")
    assert changed.supply == base.supply / 2
    assert changed.flop == (20, 9)
    assert changed.wire == base.wire
