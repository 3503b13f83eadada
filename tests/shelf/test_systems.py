"""The systems that ship: links against what is published, all-reduces against closed forms and measurements."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim import library, run
from pyxsim.network.capacity import capacity_of
from pyxsim.network.link_paths import link_rates_of
from pyxsim.settings import Network, load_experiment
from pyxsim.settings.named import NamedSystem, read_system
from pyxsim.topology import Topology
from pyxsim.topology.build import network_of
from pyxsim.units import format_bandwidth
from tests.in_turn import in_turn

FILES = library.data_files()
SYSTEMS = {name: read_system(path) for name, path in FILES.items()}
GB = 10**9
# What is told with few digits, or counted in another way: how far it may be off, and why.
ROUNDED = {
    ("tpu-v4", "bisection"): 0.07,  # 24 TB/s told, 25.6 from 512 links of 50 GB/s
    ("tpu-v3", "all"): 0.015,  # 340 TB/s told, 336 from 4096 links of 82 GB/s
    ("cerebras-wse2", "npu"): 0.015,  # 220 Pb/s and 850 000 cores told, a clock of 1 GHz taken
}


@cache
def whole(name: str) -> tuple[Network, Topology]:
    """A system as it stands, made once."""
    library.load_all()
    settings = network(name)
    return settings, network_of(settings)


def network(name: str, **more: Any) -> Network:
    tables = {"network": {"topology": name, **more}, "collective": {"kind": "all-reduce", "size": "1 B"}}
    return load_experiment(tables).network


def all_reduce(name: str, size: str, backend: str = "packet", system: Any = None, **more: Any) -> Any:
    tables: dict[str, Any] = {
        "network": {"topology": name, **more},
        "collective": {"kind": "all-reduce", "size": size},
        **({"system": system} if system else {}),
    }
    result = run(tables, backend=backend)
    assert result.complete
    assert not result.warnings
    return result


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_has_the_npus_and_the_bandwidths_that_are_published(name: str) -> None:
    system, (settings, topology) = SYSTEMS[name], whole(name)
    assert topology.name == name
    assert topology.npus == system.npus
    found, published = capacity_of(topology, settings), system.published
    assert published.npu is not None or len(topology.dims) > 1, "what an NPU has is told, but for different networks"
    for key in ("npu", "all", "bisection"):
        told = getattr(published, key)
        if told is not None:
            told *= published.payload
            assert float(getattr(found, key)) == pytest.approx(float(told), rel=ROUNDED.get((name, key), 0.005)), key


@pytest.mark.parametrize("name", SYSTEMS)
def test_its_rates_are_exact(name: str) -> None:
    """A flit takes whole cycles on every link, or a few fifths: nothing is rounded, nothing too fast for the clock."""
    settings, topology = whole(name)
    rates = link_rates_of(topology, settings)[0]
    for rate in set(rates):
        cycles = settings.flit / rate
        assert cycles >= 1
        assert cycles.denominator in (1, 5)
    assert not settings.warnings()


@in_turn("name", SYSTEMS)
def test_it_says_where_its_numbers_come_from(name: str) -> None:
    system = SYSTEMS[name]
    assert all(each.url.startswith("https://") for each in system.source)
    told = {each.key.split(".")[1].split("[")[0] for each in system.assumed}
    sourced = " ".join(each.says or "" for each in system.source)
    assert "latency" in told or any(unit in sourced for unit in (" us", " ns", "a cycle")), (
        "a latency is published, or assumed"
    )


def test_the_six_links_of_a_dgx_1() -> None:
    settings, topology = whole("dgx-1")
    rates = np.array([int(rate * settings.clock) for rate in link_rates_of(topology, settings)[0]]) // (20 * GB)
    pairs = {
        (int(a), int(b)): int(n) for a, b, n in zip(topology.link_src, topology.link_dst, rates, strict=True) if a < b
    }
    assert sum(pairs.values()) == 24
    # All twelve edges of a cube, and the diagonals of two faces: the two quads are fully connected ..
    for quad in (range(4), range(4, 8)):
        assert {(a, b) for a in quad for b in quad if a < b} <= pairs.keys()
    # .. and each GPU has one partner in the other.
    assert sorted(pair for pair in pairs if pair[0] < 4 <= pair[1]) == [(i, i + 4) for i in range(4)]
    assert three_rings(pairs), "they make three rings, each through all GPUs, as its white paper says"


def three_rings(links: dict[tuple[int, int], int]) -> bool:
    """Whether links, some of them double, can be divided into three rings through all of 8."""

    def ring(left: dict[tuple[int, int], int], way: list[int], rings: int) -> bool:
        if len(way) == 8:
            last = (min(way[-1], way[0]), max(way[-1], way[0]))
            if not left.get(last):
                return False
            rest = {**left, last: left[last] - 1}
            return not any(rest.values()) if rings == 1 else ring(rest, [0], rings - 1)
        return any(
            ring({**left, pair: count - 1}, [*way, sum(pair) - way[-1]], rings)
            for pair, count in left.items()
            if count and way[-1] in pair and sum(pair) - way[-1] not in way
        )

    return ring(links, [0], 3)


@pytest.mark.parametrize(("name", "npus", "size"), [("dgx-a100", 8, 64), ("dgx-h100", 8, 64), ("dgx-2", 16, 64)])
def test_a_ring_at_a_switch_takes_as_long_as_its_closed_form(name: str, npus: int, size: int) -> None:
    """2 (n - 1) steps: a message of S/n at the rate of a link, two links, and some cycles in the routers between."""
    settings = network(name)
    found = all_reduce(name, f"{size} MiB")
    (rate,), (late,) = settings.bandwidths(1), settings.latencies(1)
    step = Fraction(size * 2**20, npus) / rate + 2 * Fraction(late)
    least = 2 * (npus - 1) * step * GB
    assert least <= found.time_ns <= least * Fraction(101, 100)


def test_a_dgx_h100_is_as_fast_as_measured() -> None:
    """NCCL with rings: 365 to 370 GB/s of bus bandwidth on 8 GPUs for 2 GiB and more, of 450 that the links have
    (https://github.com/NVIDIA/nccl/issues/1455). The links are set to what is told of them: this shows that nothing
    else gets lost on the way."""
    found = all_reduce("dgx-h100", "2 GiB", backend="analytical")
    bus = 2**31 / found.time_ns * 2 * 7 / 8
    assert 365 <= bus <= 370


def test_in_switch_reduction_gains_what_the_model_can_tell() -> None:
    """With NVLink SHARP each GPU sends its buffer once instead of 2 (n - 1)/n times. NCCL gets 480 GB/s of bus
    bandwidth where the links would allow 647 for data alone; `multimem` with transactions, below, has the rest."""
    ring, inside = (all_reduce("dgx-h100", "64 MiB", system={"all_reduce": name}) for name in ("ring", "in-switch"))
    bus = 64 * 2**20 / inside.time_ns * 2 * 7 / 8
    assert ring.time_ns / inside.time_ns > 1.5
    assert 480 < bus <= 370 * 2 * 7 / 8


DATA, HEAD = 9, 1  # flits of 16 B: with 128 B of data and a header, and of a header


def multimem(tree: Path, *overrides: str) -> Any:
    result = run(tree / "inputs" / "systems" / "dgx_h100_multimem.toml", overrides=overrides)
    assert result.complete
    return result


def steady(npus: int, data: int, gpu: int = 450) -> float:
    """The bus bandwidth of NVLink SHARP on its links, in GB/s: what of them is data, for data of so many flits."""
    share = data / (data + 1 + HEAD) / (1 + 1 / npus)
    return gpu * share * 2 * (npus - 1) / npus


def test_transactions_explain_rings_and_a_part_of_nvlink_sharp(tree: Path) -> None:
    """NCCL reaches 370 GB/s with rings and 480 with NVLink SHARP on 8 GPUs of 450 GB/s. Links carry (9 + 1) (1 + 1/8)
    flits for 8 of data each way, with the requests and acknowledgments: 560 GB/s at most. 64 B for each transaction at
    the switch, which is inferred, leave 467, less than 10 % from 480."""
    assert steady(8, 8) == pytest.approx(560)
    assert steady(8, 4) == pytest.approx(480, rel=0.03)
    assert steady(8, 4, 200) == pytest.approx(215, rel=0.04), "H800"
    for npus, published in ((5, 258), (6, 265), (7, 270), (8, 273)):  # algorithm bandwidth
        assert steady(npus, 4) * npus / 2 / (npus - 1) == pytest.approx(published, rel=0.035)
    for size, data in (("128 B", 8), ("64 B", 4)):
        found = multimem(tree, "collective.size=512 KiB", f"network.transactions.switch.size={size}")
        parts = 2**19 // 8 // (16 * data)
        flits = 8 * parts * (data + 1 + HEAD) + parts * (data + 1 + HEAD)
        assert found.totals["flits"].tolist() == [flits] * 16
        # The rest of the time is the latency of two round trips, and the parts that do not overlap.
        links = 2**19 * 2 * 7 / 8 / steady(8, data)
        assert links < found.time_ns < 1.2 * links + 2500


def test_rings_of_stores_lose_headers_and_acknowledgments(tree: Path) -> None:
    """450 * 8 / 10 = 360 GB/s of bus bandwidth, less 14 steps of a latency of some 750 ns."""
    found = multimem(tree, "collective.size=1 MiB", "system.all_reduce=ring")
    sent = 2 * 7 / 8 * 2**20 / 360
    assert sent + 14 * 400 < found.time_ns < sent + 14 * 800
    assert found.totals["flits"].tolist() == [14 * 2**17 // 128 * (DATA + HEAD)] * 16


# What is small enough to be simulated flit by flit in a moment, with the data that are added up.
SLICES: dict[str, dict[str, Any]] = {
    "cerebras-wse2": {"shape": [8, 8]},
    "conv-3d": {"shape": [4, 4, 2]},
    "conv-4d": {"shape": [2, 4, 2, 2]},
    "dgx-h100-superpod": {"shape": [8, 4]},
    "frontier": {"options": {"p": 4, "a": 8, "h": 1, "g": 3}},
    "meta-roce": {"options": {"children": [1, 4, 4], "parents": [1, 4]}},
    "tpu-v3": {"shape": [4, 8]},
    "tpu-v4": {"shape": [4, 4, 2]},
    "tpu-v5p": {"shape": [4, 4, 2]},
    "tpu-v4-twisted": {"shape": [2, 2, 4]},
    "w-1d": {"shape": [16]},
    "w-2d": {"shape": [8, 4]},
}


# Networks on which messages of their algorithms meet in links, or wait for the one port of an NPU.
SHARED = {"cerebras-wse2", "dgx-1", "frontier", "meta-roce", "tpu-v4-twisted"}


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_all_reduce_ends_with_the_sum_and_in_good_time(name: str) -> None:
    """The sums are right. Whatever the algorithm, an NPU sends 2 (n - 1)/n of the buffer (Patarasuk and Yuan 2009). And
    where messages do not meet, packets are but for some cycles in routers as fast as messages that never do."""
    size = 2**12 if name == "cerebras-wse2" else 2**19
    more = SLICES.get(name, {})
    tables = {"network": {"topology": name, **more}, "collective": {"kind": "all-reduce", "size": f"{size} B"}}
    found, free = run({**tables, "output": {"carry": True}}), run(tables, backend="analytical")
    assert found.complete
    assert found.carried is not None
    assert not found.warnings
    settings = network(name, **more)
    topology = network_of(settings)
    sent = 2 * size * (topology.npus - 1) / topology.npus
    assert found.time_ns >= sent / (capacity_of(topology, settings).npu / 2) * GB
    assert free.time_ns <= found.time_ns
    assert name in SHARED or found.time_ns <= 1.04 * free.time_ns


def test_three_rings_use_every_link_of_a_dgx_1(tree: Path) -> None:
    """2 (n - 1) steps; in each a link of 20 GB/s carries the 48th part of the buffer: 3 rings, 2 ways, 8 blocks."""
    found = run(tree / "inputs" / "systems" / "dgx_1_rings.toml")
    send, link = 2**24 / 48 / 20, 936.25
    assert 14 * send + link <= found.time_ns <= 14 * (send + link)
    assert found.totals["flits"].min() * 2 == found.totals["flits"].max(), "a double link carries twice as much"


def test_hashed_ways_collide(tree: Path) -> None:
    """16 GPUs of a rack send to 16 others over 16 uplinks, each drawn: some carry three or four, and all wait for the
    last. Drawn anew for each packet, they share all."""
    file = tree / "inputs" / "systems" / "meta_roce_ecmp.toml"
    hashed, sprayed = (
        run(file, overrides=[f"network.router.routing_options.select={each}"]) for each in ("hash", "random")
    )
    assert hashed.time_ns > 2 * sprayed.time_ns


def test_dimensions_of_a_cube_that_work_at_the_same_time(tree: Path) -> None:
    """Least: 2 S (1 - 1/64) over six links; one dimension first: 2 S (1 - 1/4) over its two, and the rest behind."""
    file = tree / "inputs" / "systems" / "tpu_v4_slice.toml"
    themis, first = (
        run(file, overrides=["collective.size=1 MiB", f"system.inter_dimension={each}"])
        for each in ("themis", "ascending")
    )
    size = 2**20
    assert 2 * size * (1 - 1 / 64) / 300 < themis.time_ns < first.time_ns
    assert first.time_ns >= 2 * size * (1 - 1 / 4) / 100


def test_a_twisted_slice_is_faster(tree: Path) -> None:
    file = tree / "inputs" / "systems" / "tpu_v4_twisted.toml"
    twisted = run(file)
    plain = run(file, overrides=["network.topology=tpu-v4", "network.shape=[4, 4, 8]"])
    assert 1.6 < plain.time_ns / twisted.time_ns < 1.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "size"),
    [("tpu-v4", {}, "1 GiB"), ("tpu-v5p", {}, "1 GiB"), ("gb200-nvl72", {}, "1 GiB")],
)
def test_a_whole_pod_is_bound_by_its_links(name: str, more: dict[str, Any], size: str) -> None:
    """By the closed form of messages that never meet: rings in one dimension after the other."""
    found = all_reduce(name, size, backend="analytical", **more)
    settings = network(name, **more)
    rate = float(settings.bandwidths(3)[0])
    shape, total, left = found.topology.shape, 0.0, float(2**30)
    for npus in shape:
        total += 2 * left * (npus - 1) / npus / rate
        left /= npus
    assert found.time_ns * 1e-9 == pytest.approx(total, rel=0.25)


@pytest.mark.slow
def test_the_whole_of_metas_cluster() -> None:
    """24 576 GPUs; between the pods a seventh of what the GPUs of a pod have."""
    library.load_all()
    settings = network("meta-roce", options={"children": [16, 192, 8], "parents": [16, 27]})
    topology = network_of(settings)
    assert topology.npus == 24_576
    up = np.count_nonzero(topology.link_dim == 1) / 2 / 8
    assert 192 * 16 / up == pytest.approx(7, rel=0.02)


def test_all_are_systems() -> None:
    assert all(isinstance(system, NamedSystem) for system in SYSTEMS.values())
    assert SLICES.keys() <= SYSTEMS.keys()


def test_the_page_has_a_row_for_each(tree: Path) -> None:
    page = (tree / "docs" / "systems.md").read_text(encoding="utf-8").splitlines()
    for name, system in SYSTEMS.items():
        (row,) = [line for line in page if line.startswith(f"| `{name}` |")]
        rate = "unpublished" if system.published.npu is None else format_bandwidth(system.published.npu)
        assert [cell.strip() for cell in row.split("|")][2] == str(system.npus)
        assert f"| {rate} |" in row
