"""The studies under inputs/studies/: they can be read, and what their pages under docs/studies/ say of them is so.

What theory knows of a point is computed here from its sizes. A study of QUICK is compared on all backends once, and all
tests look at that; of the others single points are run, and their pages are for --slow.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from fractions import Fraction
from functools import cache, partial
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from pyxsim.analysis.verdict import UNKNOWN, beforehand, by_waiting, verdicts
from pyxsim.collective.closed_form import neighbour_time, ring_all_reduce_time
from pyxsim.reports.text.comparison_tables import page as markdown
from pyxsim.results.comparison import Compared, Comparison
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.settings.points import Point, points
from pyxsim.study.compare import compare

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ROOT / "inputs" / "studies"
STUDIES = sorted(INPUTS.glob("*.toml"))
PAGES = sorted(page for page in (ROOT / "docs" / "studies").glob("*.md") if page.name != "index.md")
QUICK = {"switch_gib", "two_jobs"}
COMMAND = re.compile(r"^pyxsim compare inputs/studies/(\w+)\.toml(.*)$", re.MULTILINE)
KIB, MIB = 2**10, 2**20


@cache
def study(name: str) -> dict[str, Point]:
    return {point.label: point for point in points(INPUTS / f"{name}.toml")}


@cache
def comparison(name: str) -> Comparison:
    # The 1 GiB are for the models alone.
    backends = ["analytical", "analytical-congestion"] if name == "switch_gib" else []
    return compare(INPUTS / f"{name}.toml", backends=backends)


@cache
def compared(name: str) -> dict[str, Compared]:
    return {point.label: point for point in comparison(name).points}


@cache
def result(name: str, label: str, backend: str = "packet") -> Result:
    if name in QUICK:
        found = compared(name)[label].result(backend)
        assert found is not None
        return found
    return run(study(name)[label].experiment, backend=backend)


def packet(name: str, label: str) -> float:
    """ns on the packet backend."""
    return result(name, label).time_ns


def unaware(name: str, label: str) -> float:
    return result(name, label, "analytical").time_ns


def finish(name: str, label: str, collective: str) -> int:
    """The cycle in which one of several collectives ends."""
    (found,) = [each for each in result(name, label).collectives if each["name"] == collective]
    return int(found["end"])


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_is_read(path: Path) -> None:
    found = points(path)
    assert found
    assert all(point.experiment.collective for point in found)


def tables(page: Path) -> list[str]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return ["\n".join(block) for is_table, block in groupby(lines, key=lambda line: line.startswith("|")) if is_table]


def commands(page: Path) -> list[tuple[str, str]]:
    """The studies that a page compares, and with which options."""
    return [(match[1], match[2]) for match in COMMAND.finditer(page.read_text(encoding="utf-8"))]


def quick_or_slow(name: str, studies: Iterable[str]) -> object:
    return pytest.param(name, marks=() if QUICK.issuperset(studies) else pytest.mark.slow)


@pytest.mark.parametrize("page", [quick_or_slow(page.name, [name for name, _ in commands(page)]) for page in PAGES])
def test_a_page_has_what_its_commands_print(page: str) -> None:
    """To bring it up to date: `pyxsim compare ... -o OUT.md`, whose first table stands in the page."""
    path = ROOT / "docs" / "studies" / page
    printed = "\n".join(markdown(comparison(name)) for name, _ in commands(path))
    found = tables(path)
    assert len(found) >= len(commands(path)) > 0
    assert [table for table in found if table not in printed] == []


def test_every_study_has_a_page_and_every_page_its_place() -> None:
    assert sorted(name for page in PAGES for name, _ in commands(page)) == [path.stem for path in STUDIES]
    index = (ROOT / "docs" / "studies" / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)").findall(text)
        assert [target for target in named if not (page.parent / target).exists()] == [], page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_what_a_page_says_to_try_next_can_be_tried(page: Path) -> None:
    tries = re.findall(r"`--set ([^`]+)`", page.read_text(encoding="utf-8"))
    assert tries
    for text in tries:
        (override,) = shlex.split(text)
        name = commands(page)[-1][0]
        changed = [point.experiment for point in points(INPUTS / f"{name}.toml", [override])]
        assert changed != [point.experiment for point in study(name).values()], text


@pytest.mark.parametrize(
    "name", [quick_or_slow(path.stem, [path.stem]) for path in STUDIES if path.stem != "switch_gib"]
)
def test_the_verdicts_are_right_at_every_point(name: str) -> None:
    """What the packets waited tells of the unaware model what its time does; before there are packets nothing false."""
    found = comparison(name)
    for point in found.points:
        times = {verdict.backend: verdict.says for verdict in verdicts(point, found.within)}
        waited = by_waiting(point, found.within)
        assert waited is not None
        assert waited.says == times["analytical"], point.label
        for backend, says in times.items():
            assert beforehand(point, backend, found.within).says in {says, UNKNOWN}, (point.label, backend)


# Algorithms: 16 NPUs, S = 1 MiB at 100 GB/s, two chunks


def algorithm(network: str, size: str, name: str) -> str:
    return f"{network}, size={size}, all_reduce={name}"


@pytest.mark.parametrize(("size", "chunk"), [("16 KiB", 8 * KIB), ("1 MiB", MIB // 2)])
def test_a_ring_all_reduce_on_a_ring_is_its_closed_form(size: str, chunk: int) -> None:
    hop = partial(neighbour_time, flit=256, packet=4096, s=Fraction(256, 100), latency=200)
    assert packet("algorithms", algorithm("ring", size, "ring")) == ring_all_reduce_time(16, chunk, hop, endpoint=10)


def test_direct_exchange_on_a_ring_is_slow_and_the_unaware_model_says_the_opposite() -> None:
    ring, direct = (algorithm("ring", "1 MiB", name) for name in ("ring", "direct"))
    assert packet("algorithms", direct) > 4 * packet("algorithms", ring)
    assert unaware("algorithms", direct) < unaware("algorithms", ring) / 4
    # A block goes 1 .. 7 links one way or the other, or 8 either way: 32 blocks of S/16 cross each link, twice.
    assert packet("algorithms", direct) > 2 * 32 * MIB / 16 / 100
    assert unaware("algorithms", direct) < 2 * 32 * MIB / 16 / 100


def test_on_a_switch_all_algorithms_need_the_ports() -> None:
    ports = 2 * 15 / 16 * MIB / 100
    times = {
        name: packet("algorithms", algorithm("switch", "1 MiB", name))
        for name in ("ring", "halving-doubling", "direct")
    }
    assert all(time >= ports for time in times.values())
    assert times["direct"] < ports + 2 * 410  # two steps of two links and an endpoint each
    assert unaware("algorithms", algorithm("switch", "1 MiB", "direct")) < ports / 10


def test_of_a_small_buffer_the_number_of_steps_counts() -> None:
    steps = {"direct": 2, "halving-doubling": 8, "ring": 30}
    for name, each in steps.items():
        # Two links of 200 ns and 10 ns at the end, for each step; what the bytes take comes on top.
        assert packet("algorithms", algorithm("switch", "16 KiB", name)) > each * 410
        assert packet("algorithms", algorithm("switch", "16 KiB", name)) < each * 410 * 1.35


# Buffers: 4 x 4, S = 1 MiB, rings: 6 messages of S/2/4 and 6 of S/8/4, one after the other


@pytest.mark.parametrize("vcs", [2, 4, 16])
@pytest.mark.parametrize("buffer", [16, 64, 256])
def test_a_ring_takes_what_the_credits_take(vcs: int, buffer: int) -> None:
    flits = (6 * MIB // 8 + 6 * MIB // 32) // 256
    loop, window = 405, vcs // 2 * buffer  # half of the VCs for each side of the dateline
    time = packet("buffers", f"ring, vcs={vcs}, buffer={buffer}")
    enough = packet("buffers", "ring, vcs=16, buffer=256")
    assert time == pytest.approx(max(flits * loop / window, enough), rel=0.02 if window < 64 or window > 159 else 0.15)
    assert time >= enough


@pytest.mark.parametrize("kind", ["ring", "one-direct"])
def test_deeper_buffers_never_hurt_below_the_credit_loop(kind: str) -> None:
    for vcs in (2, 4):
        times = [packet("buffers", f"{kind}, vcs={vcs}, buffer={buffer}") for buffer in (16, 64, 256)]
        assert all(later <= earlier for earlier, later in pairwise(times))


# Two jobs


def test_jobs_that_share_no_links_do_not_meet() -> None:
    assert packet("two_jobs", "rows, both") == packet("two_jobs", "rows, A alone")


def test_columns_share_the_links_of_one_dimension() -> None:
    # In the rows each job has 6 messages of S/2/4 one after the other, and now every link has those of both.
    more = packet("two_jobs", "columns, both") - packet("two_jobs", "columns, A alone")
    assert more == pytest.approx(6 * MIB / 2 / 4 / 100, rel=0.02)


@pytest.mark.parametrize("placement", ["rows", "columns", "chessboard"])
def test_the_unaware_model_does_not_see_the_other_job(placement: str) -> None:
    assert unaware("two_jobs", f"{placement}, both") == unaware("two_jobs", f"{placement}, A alone")


# Hotspot: the parts of 56 of the 63 come over the two links of NPU 27 in its column


def test_the_hotspot_takes_what_its_last_links_take() -> None:
    assert packet("hotspot", "checkpoint alone") == pytest.approx(28 * 64 * KIB / 100, rel=0.02)


def test_the_hotspot_holds_up_those_who_do_not_go_there() -> None:
    alone = finish("hotspot", "no checkpoint", "gradients")
    times = [finish("hotspot", f"{size} KiB each", "gradients") for size in (4, 16, 64)]
    assert alone < times[0] < times[1] < times[2]
    assert times[2] > 1.8 * alone
    assert finish("hotspot", "64 KiB, 16 VCs", "gradients") < times[2]
    assert finish("hotspot", "64 KiB, in a ring", "gradients") < 1.15 * alone
    assert unaware("hotspot", "64 KiB each") == unaware("hotspot", "no checkpoint")


# Asymmetric bandwidth: 4 x 8, S = 8 MiB, each NPU with a link each way round


# With links of 200 GB/s within a package; of those between packages the fastest and the slowest are quick enough, and
# with 25 GB/s, as with 50, the package links have the most to do whatever comes first.
BETWEEN = [200, pytest.param(100, marks=pytest.mark.slow), pytest.param(50, marks=pytest.mark.slow), 25]


@pytest.mark.parametrize("slow", BETWEEN)
def test_each_plan_is_bound_by_the_dimension_that_theory_says(slow: int) -> None:
    size = 8 * MIB
    local = 2 * 3 / 4 * size / 2 / 200
    package = 2 * 7 / 8 * size / 2 / slow
    for plan, bound in (("baseline", max(local, package)), ("localBWAware", max(local, package / 4))):
        time = packet("asymmetric", f"{plan}, bandwidth={slow} GB/s")
        assert bound < time < 1.2 * bound


@pytest.mark.parametrize("slow", BETWEEN)
def test_themis_fills_both_dimensions_as_long_as_there_is_something_to_fill(slow: int) -> None:
    plain, themis = (packet("asymmetric", f"{plan}, bandwidth={slow} GB/s") for plan in ("localBWAware", "themis"))
    if gain := {200: 1.25, 100: 1.1}.get(slow):
        assert plain > gain * themis
    else:  # local first is best
        assert plain == themis


# Fat tree: 4 leaves of 8 NPUs, S = 1 MiB at 50 GB/s


@pytest.mark.parametrize(("spines", "within"), [(1, 1.02), (2, 1.15), (4, 1.5), (8, 1.8)])
def test_an_all_to_all_takes_what_the_links_up_take(spines: int, within: float) -> None:
    up, port = 8 * 24 / 32 * MIB / spines / 50, 31 / 32 * MIB / 50
    bound = max(up, port)
    assert bound < packet("fat_tree", f"all-to-all, spines={spines}") < within * bound
    assert unaware("fat_tree", f"all-to-all, spines={spines}") == unaware("fat_tree", "all-to-all, spines=8")


def test_a_tree_without_taper_loses_what_input_queues_lose() -> None:
    # Karol, Hluchyj and Morgan (1987): an input queue whose packets want random outputs passes 58.6 % of its link.
    port, label = 31 / 32 * MIB / 50, "all-to-all, spines=8"
    assert 0.5 < port / packet("fat_tree", label) < 0.6
    for override in ('network.router.injection="interleaved"', "network.router.buffer=64"):
        (point,) = [each for each in points(INPUTS / "fat_tree.toml", [override]) if each.label == label]
        assert port / run(point.experiment).time_ns > 0.75


def test_one_ring_does_not_notice_the_taper() -> None:
    times = {packet("fat_tree", f"one ring, spines={spines}") for spines in (8, 4, 2, 1)}
    assert len(times) == 1


# Chunks


@pytest.mark.slow
def test_chunks_help_until_latency_counts() -> None:
    counts = [1, 2, 4, 8, 16, 32, 64]
    best = {
        active: min(counts, key=lambda chunks: packet("chunks", f"active_chunks={active}, chunks={chunks}"))
        for active in (2, 8, 64)
    }
    assert best == {2: 4, 8: 16, 64: 64}


def test_with_many_chunks_the_unaware_model_is_faster_than_the_links() -> None:
    label = "active_chunks=64, chunks=64"
    bound = 2 * 3 / 4 * MIB / 2 / 100  # the first dimension alone, on links each way round
    assert unaware("chunks", label) < 0.6 * bound
    assert packet("chunks", label) > bound


# Shapes of 64 NPUs


def test_the_best_shape_depends_on_the_size() -> None:
    small, large = (
        [packet("shape", f"{shape}, size={size}") for shape in ("1-D", "2-D", "3-D")] for size in ("64 KiB", "4 MiB")
    )
    assert small == sorted(small, reverse=True)
    assert large == sorted(large)
    assert packet("shape", "3-D, Themis, size=4 MiB") < 0.6 * large[2]


def test_an_all_to_all_wants_many_dimensions() -> None:
    # A link of a k-ary n-cube carries k/8 of the bytes that an NPU sends, if those go evenly to all (its own too).
    shapes = {"1-D": (64, 150), "2-D": (8, 75), "3-D": (4, 50)}
    for shape, (k, bandwidth) in shapes.items():
        bound = k / 8 * 512 * KIB / bandwidth
        assert bound < packet("shape_all_to_all", f"{shape}, size=512 KiB") < 2.2 * bound
        assert unaware("shape_all_to_all", f"{shape}, size=512 KiB") < bound / 3
    for size in ("64 KiB", "512 KiB"):
        times = [packet("shape_all_to_all", f"{shape}, size={size}") for shape in shapes]
        assert times == sorted(times, reverse=True)


# The switch of the tutorial


@pytest.mark.slow  # tests/validation/test_switch.py: smaller buffers
def test_the_switch_on_packets_is_at_its_bound() -> None:
    bound = 2 * 63 / 64 * 16 * MIB / 50
    assert bound < packet("switch", "all_reduce=direct") < 1.02 * bound
    assert unaware("switch", "all_reduce=direct") < bound / 30


@pytest.mark.parametrize("name", [pytest.param("ring", marks=pytest.mark.slow), "halving-doubling"])
def test_messages_that_meet_nobody_are_no_trouble_for_the_unaware_model(name: str) -> None:
    label = f"all_reduce={name}"
    assert unaware("switch", label) == pytest.approx(packet("switch", label), rel=0.02)


def test_the_switch_of_the_tutorial_on_two_models() -> None:
    bound = 39_375_000  # 2 * 63/64 of 1 GiB at 50 GiB/s, in ns
    aware = result("switch_gib", "size=1 GiB", "analytical-congestion").time_ns
    assert aware == bound + unaware("switch_gib", "size=1 GiB")
    assert unaware("switch_gib", "size=1 GiB") == 633_217 - 1  # ASTRA-sim begins to count at 1
