"""Networks of the analytical backends as settings: JSON of ASTRA-sim 1, YAML of ASTRA-sim 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.compat.astra.files.dimensions import yaml_tables
from pyxsim.compat.astra.files.hierarchical import hierarchical_tables, hierarchy
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.settings import Network, load_experiment
from pyxsim.units import parse_bytes
from tests.compat.astra.files.files import HIERARCHICAL, YAML, WriteJson

GIB = 2**30

# -- version 1 ---------------------------------------------------------------------------------------------------------


def test_links_of_a_message_are_one(write_object: WriteJson) -> None:
    tables, dims = hierarchical_tables(write_object(HIERARCHICAL))
    assert dims == 3
    # Of the five links of a ring four are in pairs; four links to two others are two each; a switch has them all.
    assert tables == {
        "dims": [
            {"block": "ring", "npus": 4, "bandwidth": "128 GiB/s", "latency": "500 ns"},
            {"block": "fully-connected", "npus": 3, "bandwidth": "25 GiB/s", "latency": "1 ns"},
            {"block": "switch", "npus": 2, "bandwidth": "75 GiB/s", "latency": "2.5 ns"},
        ],
        "clock": "1 GHz",
        "analytical": {"nic_latency": ["0 ns", "0 ns", "7 ns"]},
    }
    assert Network.model_validate(tables).bandwidths(3) == [128 * GIB, 25 * GIB, 75 * GIB]


def test_the_memory(write_object: WriteJson) -> None:
    tables, _ = hierarchical_tables(write_object(HIERARCHICAL | {"hbm-scale": [1, 0, 0.5], "nic-latency": [0, 0, 0]}))
    assert tables["analytical"] == {
        "hbm_latency": ["500 ns"] * 3,
        "hbm_bandwidth": ["370 GB/s"] * 3,
        "hbm_scale": ["1", "0", "1/2"],
    }
    assert Network.model_validate(tables).analytical.hbm_bandwidth == (370 * 10**9,) * 3


LEFT_OUT = {  # as the original takes a file without these keys
    "topology-name": "Hierarchical",
    "nic-latency": [0, 0, 0],
    "router-latency": [0, 0, 0],
    "hbm-latency": [0, 0, 0],
    "hbm-bandwidth": [1, 1, 1],
    "hbm-scale": [0, 0, 0],
    "dimension-type": ["N", "N", "N"],
}


def test_what_may_be_left_out(write_object: WriteJson) -> None:
    """The networks of ASTRA-sim's tutorial of 2023 have six keys; one of one dimension does not say how many."""
    whole = HIERARCHICAL | LEFT_OUT
    assert hierarchy(write_object(whole | dict.fromkeys(LEFT_OUT))) == hierarchy(write_object(whole))
    ring = {"topologies-per-dim": ["Ring"], "units-count": [8], "links-count": [2]}
    ring |= {"link-latency": [500], "link-bandwidth": [50]}
    assert hierarchical_tables(write_object(ring)) == (
        {"dims": [{"block": "ring", "npus": 8, "bandwidth": "100 GiB/s", "latency": "500 ns"}], "clock": "1 GHz"},
        1,
    )
    memory = hierarchy(write_object(whole | {"hbm-scale": [1, 1, 1], "hbm-bandwidth": None})).memory
    assert memory["bandwidth"] == [1, 1, 1]  # bytes per ns, and no division by 0


@pytest.mark.parametrize("key", sorted(HIERARCHICAL.keys() - LEFT_OUT.keys() - {"dimensions-count"}))
def test_what_is_missing(write_object: WriteJson, key: str) -> None:
    with pytest.raises(InputError, match=f"file.json: {key}: is missing"):
        hierarchical_tables(write_object(HIERARCHICAL | {key: None}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"topology-name": "Torus3D"}, "file.json:2: topology-name: 'Torus3D' is not in this version; allowed: Hier"),
        (
            {"topologies-per-dim": ["Ring", "Mesh", "Switch"]},
            "topologies-per-dim: 'Mesh' is not in .*; allowed: Ring",
        ),
        ({"units-count": [4, 3]}, "units-count: the list has 2 entries; allowed: 3 entries, one for each dimension"),
        ({"units-count": 4}, "units-count: '4' is not a list; allowed: a list with a value for each dimension"),
        ({"units-count": [4, 3, 0]}, "units-count: '0' is not allowed"),
        ({"links-count": [1, 4, 3]}, "links-count: 1 links are too few for dimension 0; allowed: at least 2"),
        (
            {"links-count": [2, 1, 3]},
            "links-count: 1 links are too few for dimension 1; allowed: at least one",
        ),
        ({"link-bandwidth": [0, 1, 1]}, "link-bandwidth: '0' is not allowed; allowed: a number above 0"),
        ({"link-latency": [0, 1, 1]}, "link-latency: '0' is not allowed; allowed: a number above 0"),
        ({"nic-latency": [-1, 1, 1]}, "nic-latency: '-1' is not allowed; allowed: a number from 0"),
        ({"hbm-bandwidth": [0, 1, 1], "hbm-scale": [1, 0, 0]}, "hbm-bandwidth: is 0 where hbm-scale is not"),
        ({"dimension-type": ["N", "X", "P"]}, "dimension-type: 'X' is not in this version; allowed: T, N, P, PP"),
        ({"dimension-type": ["PP", "N", "P"]}, "dimension-type: pods are connected by switches only"),
        ({"dimensions-count": 2}, "topologies-per-dim: the list has 3 entries; allowed: 2 entries"),
        ({"bandwidth": [1]}, "bandwidth: unknown key; .*did you mean"),
    ],
)
def test_faults(write_object: WriteJson, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        hierarchical_tables(write_object(HIERARCHICAL | changes))
    assert all("file.json" in line for line in str(caught.value).splitlines())


# -- version 2 ---------------------------------------------------------------------------------------------------------


def read(tmp_path: Path, text: str) -> tuple[dict[str, Any], int]:
    path = tmp_path / "file.yml"
    path.write_text(text, encoding="utf-8")
    return yaml_tables(path)


EXPECTED = {
    "dims": [
        {"block": "ring", "npus": 4, "bandwidth": "50 GiB/s", "latency": "500 ns"},
        {"block": "fully-connected", "npus": 3, "bandwidth": "12.5 GiB/s", "latency": "1 ns"},
        {"block": "switch", "npus": 2, "bandwidth": "100 GiB/s", "latency": "936.25 ns"},
    ],
    "clock": "1 GHz",
}


def test_a_network(tmp_path: Path) -> None:
    assert read(tmp_path, YAML) == (EXPECTED, 3)


def test_lists_may_be_written_otherwise(tmp_path: Path) -> None:
    text = """---
# a remark
topology:
  - Ring
  - "FullyConnected"   # quoted
  - 'Switch'
npus_count: [ 4,
              3,
              2, ]
bandwidth:
- 5.0e+1
- 12.50
- 100.
latency: [500, 1.0, 93625e-2]
"""
    assert read(tmp_path, text) == (EXPECTED, 3)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "Ring,",
            "ring,",
            "file.yml:1: topology: 'ring' is not in this version; allowed: Ring, ",
        ),
        ("[4, 3, 2]", "[4, 3]", "file.yml:2: npus_count: the list has 2 entries; allowed: 3 entries"),
        ("[4, 3, 2]", "[4, 3, 1]", "npus_count: '1' is not allowed; allowed: a whole number from 2"),
        ("[4, 3, 2]", "[4, 3, 2.5]", "npus_count: '2.5' is not allowed"),
        ("[4, 3, 2]", "[4, 3, x]", "npus_count: 'x' is not allowed"),
        ("50.0", "0", "file.yml:3: bandwidth: '0' is not allowed; allowed: a number above 0"),
        ("500.0", "-1", "file.yml:4: latency: '-1' is not allowed"),
        ("latency", "latencies", "file.yml: latency: is missing"),
        ("latency", "latencies", "file.yml:4: latencies: unknown key; .*did you mean 'latency'"),
        ("latency: [ 500.0, 1, 936.25 ]", "latency: 500", "file.yml:4: latency: '500' is not a list"),
        ("latency: [ 500.0, 1, 936.25 ]", "latency: [ 500.0, 1", "file.yml:4: the list is not closed"),
        ("latency: [ 500.0, 1, 936.25 ]", "latency: [[1], 1]", r"file.yml:4: '\[1\]' is not a value"),
        ("latency: [ 500.0, 1, 936.25 ]", "latency: &a [1, 2]", "file.yml:4: '&a .*' is not a value"),
        ("latency: [ 500.0, 1, 936.25 ]", "latency: {a: 1}", "is not a value"),
        ("latency: [ 500.0, 1, 936.25 ]", "latency:\n  a: 1", "is no|is not a list"),
        ("latency: [ 500.0, 1, 936.25 ]", "- 1", "file.yml:4: '- 1' is not 'key: value'"),
        ("latency: [ 500.0, 1, 936.25 ]", "topology: [Ring]", "file.yml:4: topology: is given twice"),
        (YAML, "", "file.yml: is empty"),
        (YAML, "# nothing\n", "file.yml: is empty"),
    ],
)
def test_faults_of_yaml(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(tmp_path, YAML.replace(old, new, 1))


def test_one_dimension_as_a_word(tmp_path: Path) -> None:
    """So version 1 has it over this network, and its tutorial of 2023."""
    text = "topology: {}\nnpus_count: [64]\nbandwidth: [50]\nlatency: [500]\n"
    assert read(tmp_path, text.format("Switch")) == read(tmp_path, text.format("[Switch]"))
    with pytest.raises(InputError, match=r"file\.yml:1: topology: 'Mesh' is not in this version; allowed: Ring, "):
        read(tmp_path, text.format("Mesh"))
    with pytest.raises(InputError, match=r"file\.yml:2: npus_count: the list has 2 entries"):
        read(tmp_path, text.format("Switch").replace("[64]", "[8, 8]"))


def test_a_latency_of_0(tmp_path: Path) -> None:
    """The original takes it: a message of 4096 bytes at 2^30 bytes a second, cut off to whole ns."""
    file = tmp_path / "net.yml"
    file.write_text("topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [0]\n", encoding="utf-8")
    tables, _ = yaml_tables(file)
    made = load_experiment(
        {
            "network": tables,
            "system": {"compat": "astra-sim-2", "endpoint_delay": "1 ns"},
            "message": [{"src": 0, "dst": 1, "size": "4 KiB"}],
        }
    )
    assert run(made, backend="analytical").time_ns == 4096 * 10**9 // 2**30


@pytest.mark.parametrize(("gigabytes", "flit"), [(200, "256 B"), (400, "512 B"), (900, "1 KiB")])
def test_links_wider_than_a_flit_get_a_larger_flit(tmp_path: Path, gigabytes: int, flit: str) -> None:
    """HGX H100 in ASTRA-sim's own YAML has 400 GB/s (of 2^30 bytes): more than 256 B per ns."""
    text = f"topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ {gigabytes}.0 ]\nlatency: [ 936.25 ]\n"
    path = tmp_path / "network.yml"
    path.write_text(text, encoding="utf-8")
    network = Network.model_validate(yaml_tables(path)[0])
    assert network == network.model_copy(update={"flit": parse_bytes(flit)})
    tables: dict[str, Any] = {"network": yaml_tables(path)[0], "collective": {"kind": "all-reduce", "size": "8 MiB"}}
    # Halving-doubling sends 2 * 7/8 of 8 MiB from each NPU through one link.
    assert run(load_experiment(tables)).time_ns >= 14 * 2**20 / (gigabytes * GIB / 10**9)
