"""ASTRA-sim 1's network text for Garnet as settings: what each key becomes, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pyxsim.compat.astra.files import network_tables, read_astra, system_tables
from pyxsim.compat.astra.files.experiment import AstraRun
from pyxsim.errors import InputError
from tests.compat.astra.files.files import SWITCH, TORUS, Write, write_text


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
    assert tables["options"] == {"local_rings": 1, "links_per_tile": 1}
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
        (
            {"flit-width": "256"},
            "tile-link-width: a link of 512 bits is wider than the flit of 256 bits: Garnet joins 2 flits of a packet "
            "for it, each of which waits for the next, and pyxsim has no such links; allowed: at most flit-width",
        ),
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


def test_several_switches(write: Write) -> None:
    """Four links per tile are measured to differ by 18 %: the original rotates over the switches packet by packet."""
    with pytest.raises(
        InputError, match="links-per-tile: with 4 switches Garnet sends each packet of an NPU over the ne"
    ):
        network_tables(write(SWITCH | {"links-per-tile": "4"}))


def read(folder: Path, kind: str, system: Mapping[str, str], vcs: int = 50) -> AstraRun:
    """A collective of 128 KiB on a row of four packages, as in the measured runs."""
    row = TORUS | {"num-npus": "4", "num-packages": "4", "package-rows": "1", "vcs-per-vnet": str(vcs)}
    row |= {"flit-width": "2048", "package-packet-size": "4096", "tile-link-width": "256", "package-link-width": "256"}
    told = {"scheduling-policy": "LIFO", "endpoint-delay": "1", "preferred-dataset-splits": "1"}
    told |= {f"{each}-implementation": "ring_direct_ring" for each in ("all-gather", "all-to-all", "reduce-scatter")}
    for name, pairs in (("network", row), ("system", told | system)):
        write_text(folder / f"{name}.txt", pairs)
    (folder / "workload.txt").write_text(f"MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5 {kind} 131072 5\n", encoding="utf-8")
    return read_astra(*(folder / f"{name}.txt" for name in ("network", "system", "workload")))


@pytest.mark.parametrize(
    ("kind", "vcs", "packets"),
    [
        # 32 packets of 4 KiB over 1, 2 and 3 hops; a quarter of it where the messages are.
        ("ALLGATHER", 50, 192),
        ("ALLGATHER", 192, None),
        ("ALLTOALL", 50, None),
        ("ALLTOALL", 47, 48),
        ("REDUCESCATTER", 1, 48),
        ("ALLREDUCE", 1, None),  # a ring
    ],
)
def test_more_packets_than_vcs_on_several_hops(tmp_path: Path, kind: str, vcs: int, packets: int | None) -> None:
    """A direct all-gather on one row is measured to differ by 1.3 %; reduce-scatter and all-to-all do not."""
    warnings = read(tmp_path, kind, {"all-reduce-implementation": "ring_ring_ring"}, vcs).warnings
    assert len(warnings) == (packets is not None)
    if packets is not None:
        assert f"by direct on a ring of 4: up to {packets} packets share {vcs} VCs over several hops" in warnings[0]


def test_smallest_first_with_themis(tmp_path: Path) -> None:
    """Measured to differ by 5.4 %."""
    themis = {"inter-dimension-scheduling": "themis", "all-reduce-implementation": "ring_ring_ring"}
    assert read(tmp_path, "ALLREDUCE", themis).warnings == []
    with pytest.raises(InputError, match="intra-dimension-scheduling: smallestFirst with themis"):
        read(tmp_path, "ALLREDUCE", themis | {"intra-dimension-scheduling": "smallestFirst"})
