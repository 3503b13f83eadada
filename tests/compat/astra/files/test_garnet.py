"""ASTRA-sim 1's network text for Garnet as settings: what each key becomes, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim.compat.astra.files import network_tables, system_tables
from pyxsim.errors import InputError
from tests.compat.astra.files.files import SWITCH, TORUS, Write


def test_a_torus(write: Write) -> None:
    tables, dims = network_tables(write(TORUS))
    assert dims == 3
    assert tables == {
        "topology": "garnet-torus",
        "shape": [2, 4, 3],  # 24 / 12 NPUs in a package, 12 / 3 columns, 3 rows
        "options": {"local_rings": 2, "horizontal_rings": 3, "vertical_rings": 1},
        "clock": "1 GHz",
        "flit": "128 B",
        "packet": "2048 B",
        "pad_packets": True,
        # A flit takes 1024 / 512 = 2 cycles, and 4 on 300 bits: 128 B / 2 and 128 B / 4 per ns.
        "bandwidth": ["64000000000/1 B/s", "32000000000/1 B/s", "32000000000/1 B/s"],
        "latency": ["40 ns", "150 ns", "150 ns"],
        "lane_bandwidth": "128000000000/1 B/s",
        "lane_latency": "40 ns",
        "router": {
            "pipeline": "garnet",
            "latency": 2,
            "vcs": 6,
            "buffer": 7,
            "vc_reuse": "drained",
            "arbiter": "step",
            "injection": "interleaved",
            "ordered": True,
            "output_queue": True,
            "serdes": 4,
            # Serialisers 4, the other pieces of the credit, less what the freeing one overtakes: 4+1-1, 4+3-2.
            "serdes_credit": [4, 5, 5],
            "routing": "ring",
        },
    }


def test_a_switch_and_the_defaults(write: Write) -> None:
    tables, dims = network_tables(write(SWITCH))
    assert dims == 2
    assert tables["topology"] == "garnet-switch"
    assert tables["shape"] == [2, 4]
    assert tables["options"] == {"local_rings": 1, "links_per_tile": 2}
    # gem5's: packets of 64 B, links of 128 bits, 1 cycle everywhere, 4 VCs of 16 flits.
    assert tables["packet"] == "64 B"
    assert tables["bandwidth"] == ["32000000000/1 B/s", "16000000000/1 B/s"]
    assert tables["latency"] == ["1 ns", "1 ns"]
    assert (tables["router"]["vcs"], tables["router"]["buffer"], tables["router"]["latency"]) == (4, 16, 1)


def test_pairs_may_stand_anyhow(tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text("  ".join(f"{key}:\n\t{value}" for key, value in TORUS.items()), encoding="utf-8")
    assert network_tables(path)[0]["shape"] == [2, 4, 3]


def test_a_packet_smaller_than_a_flit_is_one_flit(write: Write) -> None:
    tables, _ = network_tables(write(TORUS | {"package-packet-size": "100"}))
    assert (tables["packet"], tables["flit"]) == ("128 B", "128 B")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"topology": None}, "topology: is missing"),
        ({"num-npus": None}, "num-npus: is missing"),
        ({"topology": "Torus4D"}, "file.txt:4: topology: 'Torus4D' is not in this version; allowed: Torus3D,"),
        ({"routing-algorithm": "table"}, "routing-algorithm: 'table' is not in this version; allowed: Ring_XY"),
        ({"routing-algorithm": None}, "routing-algorithm: 'table' is not in this version; allowed: Ring_XY"),
        ({"num-npus": "25"}, "num-packages: 25 NPUs cannot be divided evenly among 12 packages"),
        ({"package-rows": "5"}, "package-rows: 12 packages do not fill 5 rows"),
        ({"flit-width": "1028"}, "flit-width: 1028 bits are not whole bytes; allowed: a multiple of 8"),
        ({"flit-width": "256"}, "tile-link-width: a link of 512 bits is wider than the flit of 256 bits"),
        ({"vcs-per-vnet": "0"}, "vcs-per-vnet: '0' is not allowed; allowed: a whole number from 1"),
        ({"vcs-per-vnet": "1e3"}, "vcs-per-vnet: '1e3' is not allowed"),
        ({"local-rings": "-1"}, "local-rings: '-1' is not allowed"),
        ({"router-latency": "1.5"}, "router-latency: '1.5' is not allowed"),
        ({"buffers-per-vcs": "5"}, "buffers-per-vcs: unknown key; .*did you mean 'buffers-per-vc'"),
    ],
)
def test_faults_of_a_network_text(write: Write, changes: dict[str, str | None], told: str) -> None:
    pairs = {key: value for key, value in (TORUS | changes).items() if value is not None}
    with pytest.raises(InputError, match=told) as caught:
        network_tables(write(pairs))
    assert all("file.txt" in line for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("num-npus 8", "file.txt:1: 'num-npus 8' is no pair"),
        ("num-npus: 8\nnum-packages:", "file.txt:2: 'num-packages: ?' is no pair"),
        ("num-npus: num-packages: 4", "file.txt:1: 'num-npus: num-packages:' is no pair"),
        ("num-npus: 8\nnum-npus: 8", "file.txt:2: num-npus: is given twice"),
    ],
)
def test_what_are_no_pairs(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "file.txt"
    path.write_text(text, encoding="utf-8")
    for read in (network_tables, lambda path: system_tables(path, 3)):
        with pytest.raises(InputError, match=told):
            read(path)


def test_all_faults_at_once(write: Write) -> None:
    with pytest.raises(InputError) as caught:
        network_tables(write(TORUS | {"vcs-per-vnet": "x", "router-latency": "y", "nothing": "1"}))
    keys = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert sorted(keys) == ["nothing", "router-latency", "vcs-per-vnet"]
