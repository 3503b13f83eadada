"""ASTRA-sim 1's network and system texts as settings: what each key becomes, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.study import run
from pyxsim.study.astra import astra_experiment, network_tables, system_tables

library.load_all()

TORUS = {
    "num-npus": "24",
    "num-packages": "12",
    "package-rows": "3",
    "topology": "Torus3D",
    "local-rings": "2",
    "horizontal-rings": "3",
    "vertical-rings": "1",
    "flit-width": "1024",
    "local-packet-size": "64",
    "package-packet-size": "2048",
    "tile-link-width": "512",
    "package-link-width": "300",
    "vcs-per-vnet": "6",
    "buffers-per-vc": "7",
    "routing-algorithm": "Ring_XY",
    "router-latency": "2",
    "local-link-latency": "40",
    "package-link-latency": "150",
    "local-link-efficiency": "1.0",
    "package-link-efficiency": "0.9",
}
SWITCH = {
    "num-npus": "8",
    "num-packages": "4",
    "topology": "NV_Switch",
    "links-per-tile": "2",
    "routing-algorithm": "AllToAll",
    "flit-width": "256",
    "tile-link-width": "256",
}
SYSTEM = {
    "scheduling-policy": "FIFO",
    "endpoint-delay": "7",
    "active-chunks-per-dimension": "2",
    "preferred-dataset-splits": "5",
    "boost-mode": "0",
    "all-reduce-implementation": "ring_direct4_halvingDoubling",
    "all-gather-implementation": "oneRing",
    "collective-optimization": "localBWAware",
    "inter-dimension-scheduling": "roundRobin",
}
Write = Callable[[dict[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def text(pairs: dict[str, str]) -> Path:
        path = tmp_path / "file.txt"
        path.write_text("".join(f"{key}: {value}\n" for key, value in pairs.items()), encoding="utf-8")
        return path

    return text


# -- the network text --------------------------------------------------------------------------------------------------


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
        ({"num-npus": "25"}, "num-packages: 12 packages do not share 25 NPUs evenly"),
        ({"package-rows": "5"}, "package-rows: 12 packages do not fill 5 rows"),
        ({"flit-width": "1028"}, "flit-width: 1028 bits are no whole bytes; allowed: a multiple of 8"),
        ({"flit-width": "256"}, "tile-link-width: a link of 512 bits is wider than the flit of 256 bits"),
        ({"vcs-per-vnet": "0"}, "vcs-per-vnet: '0' is none of what is allowed; allowed: a whole number from 1"),
        ({"vcs-per-vnet": "1e3"}, "vcs-per-vnet: '1e3' is none of what is allowed"),
        ({"local-rings": "-1"}, "local-rings: '-1' is none of what is allowed"),
        ({"router-latency": "1.5"}, "router-latency: '1.5' is none of what is allowed"),
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


# -- the system text ---------------------------------------------------------------------------------------------------


def test_a_system(write: Write) -> None:
    assert system_tables(write(SYSTEM), 3) == {
        "compat": "astra-sim-1",
        "scheduling": "FIFO",
        "endpoint_delay": "7 ns",
        "reduction_delay": "30 ns",
        "active_chunks": 2,
        "chunks": 5,
        "optimization": "localBWAware",
        "intra_dimension": "FIFO",
        "inter_dimension": "round-robin",
        "all_reduce": ["ring", "direct:4", "halving-doubling"],
        "all_gather": "one-ring",
    }


def test_the_defaults_of_a_system(write: Write) -> None:
    assert system_tables(write({"scheduling-policy": "LIFO"}), 2) == {
        "compat": "astra-sim-1",
        "scheduling": "LIFO",
        "endpoint_delay": "10 ns",
        "reduction_delay": "30 ns",
        "active_chunks": 1,
        "chunks": 1,
        "optimization": "baseline",
        "intra_dimension": "FIFO",
        "inter_dimension": "ascending",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inter-dimension-scheduling", "ascending"),
        ("inter-dimension-scheduling", "baseline"),
        ("inter-dimension-scheduling", "offlineGreedy"),
        ("inter-dimension-scheduling", "themis"),
        ("intra-dimension-scheduling", "FIFO"),
        ("endpoint-delay", "0"),
        ("seprate-log", "1"),
        ("local-reduction-delay", "1"),
        ("L", "500"),
        ("o", "0"),
        ("g", "1"),
        ("G", "0.0038"),
        ("model-shared-bus", "0"),
    ],
)
def test_what_is_taken(write: Write, key: str, value: str) -> None:
    system_tables(write(SYSTEM | {key: value}), 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheduling-policy": None}, "scheduling-policy: is missing"),
        ({"scheduling-policy": "RANDOM"}, "scheduling-policy: 'RANDOM' is not in this version; allowed: LIFO, FIFO"),
        ({"boost-mode": "2"}, "boost-mode: '2' is none of what is allowed; allowed: 0, 1"),
        ({"model-shared-bus": "on"}, "model-shared-bus: 'on' is none of what is allowed"),
        ({"L": "-1"}, "L: '-1' is none of what is allowed; allowed: a number from 0"),
        ({"intra-dimension-scheduling": "LIFO"}, "intra-dimension-scheduling: 'LIFO' is not in this version"),
        ({"inter-dimension-scheduling": "greedy"}, "'greedy' is not in this version; .*offlineGreedy"),
        ({"collective-optimization": "none"}, "collective-optimization: 'none' is not in this version"),
        ({"preferred-dataset-splits": "0"}, "preferred-dataset-splits: '0' is none of what is allowed"),
        ({"all-reduce-implementation": "ring_ring"}, "all-reduce-implementation: 2 algorithms for 3 dimensions"),
        ({"all-reduce-implementation": "ring_direct0_ring"}, "all-reduce-implementation: the window of 'direct0'"),
        ({"injection-policy": "normal"}, "injection-policy: belongs to the version of 2020"),
        ({"direct-collective-window": "4"}, "belongs to the version of 2020.*; allowed: a window in the name"),
        ({"split": "4"}, "split: unknown key; "),
    ],
)
def test_faults_of_a_system_text(write: Write, changes: dict[str, str | None], told: str) -> None:
    pairs = {key: value for key, value in (SYSTEM | changes).items() if value is not None}
    with pytest.raises(InputError, match=told) as caught:
        system_tables(write(pairs), 3)
    assert "file.txt" in str(caught.value)


@pytest.mark.parametrize("name", ["ring_rinng_ring", "halvingDoubling", "doubleBinaryTree"])
def test_algorithms_have_to_exist_where_they_are_used(write: Write, name: str) -> None:
    path = write(SYSTEM | {"all-to-all-implementation": name})
    assert system_tables(path, 3, "all-reduce")["all_to_all"]
    with pytest.raises(InputError, match=r"file.txt:10: all-to-all-implementation: "):
        system_tables(path, 3, "all-to-all")


# -- the whole ---------------------------------------------------------------------------------------------------------

FILES = Path(__file__).resolve().parents[2] / "inputs" / "astra"


@pytest.mark.parametrize("network", ["torus", "switch"])
@pytest.mark.parametrize("workload", ["all_reduce", "all_to_all"])
def test_the_files_of_the_tree_run(network: str, workload: str) -> None:
    files = [FILES / f"{network}_network.txt", FILES / f"{network}_system.txt", FILES / f"micro_{workload}.txt"]
    result = run(astra_experiment(*files))
    assert result.complete
    assert result.warnings == []
    assert result.bound_ns is not None
    assert result.bound_ns < result.time_ns
    again = run(astra_experiment(*files, passes=2))
    assert again.counts["bytes_delivered"] == 2 * result.counts["bytes_delivered"]
    assert len(again.collectives) == 2
    assert again.time_ns > result.time_ns


def test_scales_and_overrides() -> None:
    files = [FILES / "torus_network.txt", FILES / "torus_system.txt", FILES / "micro_all_reduce.txt"]
    settings: dict[str, Any] = {"comm_scale": "0.3", "compute_scale": 2, "overrides": ("network.router.vcs=8",)}
    experiment = astra_experiment(*files, **settings)
    assert experiment.network.router.vcs == 8
    assert experiment.workload is not None
    assert experiment.workload.compute_scale == 2
    # 0.3 is exactly three tenths, and bytes are cut off as in the original.
    assert run(experiment).collectives[0]["bytes"] == 786432 * 3 // 10


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_has_every_key(write: Write) -> None:
    """What is known to the readers stands in docs/formats.md: the fault of an unknown key tells all that are."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    for pairs, read in ((TORUS, network_tables), (SWITCH, network_tables), (SYSTEM, system_tables)):
        with pytest.raises(InputError) as caught:
            read(write(pairs | {"nonsense": "1"}), *([3] if read is system_tables else []))
        assert caught.value.allowed
        missing = [key for key in caught.value.allowed if f"`{key}`" not in page]
        assert missing == []
