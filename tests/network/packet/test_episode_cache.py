"""Episodes that are kept across runs: nothing changes, whatever the files say."""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import cache
from pyxsim.network.packet import congruent_groups, episode_cache, folded_engine
from pyxsim.network.packet.episode_book import EpisodeBook, describe
from pyxsim.network.packet.episode_cache import KIND, MAGIC, recall_episodes, remember_episodes
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.study.sweep import sweep
from tests.equal_results import equal
from tests.examples import part_of
from tests.network.packet.random_experiments import experiment
from tests.network.packet.test_episodes import Sent, drive, messages, ring

FLITS = 1 + 6  # the column of the flits of a message


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files."""
    monkeypatch.setenv("PYXSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / KIND


def described(network: PacketNetwork) -> EpisodeBook:
    """A new book with what the cache has."""
    config = network.config
    book = EpisodeBook(describe(network.topology.routers, config.links, config.routes, config.options))
    recall_episodes(book, network._make_engine())
    return book


@settings(max_examples=part_of(200, usual=20), deadline=None)
@given(
    st.lists(messages, min_size=1, max_size=4),
    st.lists(messages, max_size=4),
    st.integers(1, 4),
    st.sampled_from([50, 10_000, 10**9]),
)
def test_recalled_episodes_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Sent], others: list[Sent], times: int, window: int
) -> None:
    """The messages of an earlier run, with some of another one between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYXSIM_CACHE", str(tmp_path_factory.mktemp("cache")))
        network = ring()
        drive(network, sent * times, 10**9, book := described(network)).outcome()
        remember_episodes(book)
        for mixed in (sent * times, (sent + others) * times, others + sent * times):
            expected = drive(network, mixed, window, None).outcome()
            book = described(network)
            assert drive(network, mixed, window, book).outcome() == expected
            remember_episodes(book)


def test_a_later_run_simulates_nothing(folder: Path) -> None:
    """Messages that overlap, and those that do not, are all replayed."""
    network = ring()
    sent = [(3000, 0, 1, 900), (9, 1, 1, 900), (30, 0, 1, 40), (3000, 0, 1, 900)] * 20
    first = drive(network, sent, 10**9, book := described(network))
    expected = first.outcome()
    assert not book.recalled_replays
    remember_episodes(book)
    again = drive(network, sent, 10**9, book := described(network))
    assert again.outcome() == expected
    assert book.replays == book.recalled_replays == 40
    assert not book.new
    totals, engine = again.outcome()["totals"], again.part.engine
    assert engine.replayed_visits == totals["router_visits"] > 0  # type: ignore[attr-defined]


def test_books_of_two_runs_are_joined(folder: Path) -> None:
    network = ring()
    books = [described(network), described(network)]
    for sent, book in zip([(100, 0, 1, 900), (100, 1, 1, 40)], books, strict=True):
        drive(network, [sent], 10**9, book).outcome()
        remember_episodes(book)
    assert len(described(network).episodes) == len(books[0].episodes) + 1 == 2


def test_files_keep_the_last_used_episodes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_cache, "MOST_KEPT", 2)
    network = ring()
    book = described(network)
    for size in (40, 900, 1800):
        drive(network, [(100, 0, 1, size)], 10**9, book).outcome()
    drive(network, [(100, 0, 1, 40)], 10**9, book).outcome()
    remember_episodes(book)
    small, _, large = [cause.rows for cause in sorted(book.episodes, key=lambda cause: int(cause.table[0, FLITS]))]
    assert {cause.rows for cause in described(network).episodes} == {small, large}


def kept(folder: Path) -> tuple[PacketNetwork, Path, list[Sent], dict[str, Any]]:
    """A network, the only file of its episodes, messages and their outcome."""
    network, sent = ring(), [(3000, 0, 1, 900), (9, 1, 1, 900), (3000, 2, 1, 40)] * 5
    expected = drive(network, sent, 10**9, book := described(network)).outcome()
    remember_episodes(book)
    (file,) = folder.iterdir()
    assert described(network).episodes
    return network, file, sent, expected


def test_a_damaged_file_is_ignored_and_replaced(folder: Path) -> None:
    network, file, sent, expected = kept(folder)
    whole = file.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [b"", whole[:-1], whole[: len(MAGIC)], whole + b"x", b"pyxsim episodes 2\n" + whole[len(MAGIC) :]]
    for place in rng.integers(0, len(whole), 60).tolist():
        damaged.append(whole[:place] + bytes([whole[place] ^ (1 << int(rng.integers(8)))]) + whole[place + 1 :])
    for data in damaged:
        file.write_bytes(data)
        book = described(network)
        assert not book.episodes
    assert drive(network, sent, 10**9, book).outcome() == expected
    remember_episodes(book)
    assert len(described(network).episodes) == len(book.episodes)


def forged(file: Path, **arrays: Any) -> None:
    """Replace arrays of a file, with a digest that fits."""
    data = zlib.decompress(file.read_bytes()[len(MAGIC) + 32 :])
    with np.load(io.BytesIO(data)) as found:
        table = {**{name: found[name] for name in found.files}, **arrays}
    target = io.BytesIO()
    np.savez(target, **{name: values for name, values in table.items() if values is not None})
    body = zlib.compress(target.getvalue())
    file.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)


@pytest.mark.parametrize(
    "arrays",
    [
        {"rows": None},
        {"description": np.frombuffer(b"1 routers", np.uint8)},
        {"deciding": np.zeros(3, np.uint8), "deciding_end": np.array([1, 2, 3])},
        {"gap": np.array(["x"], object)},
        {"gap": np.zeros(1)},
        {"gap": np.array([-1])},
        {"begin": np.array([9])},
        {"end": np.array([-1])},
        {"origin": np.zeros(0, np.int64)},
        {"settles": np.zeros((2, 1), np.int64)},
        {"rows": np.zeros((1, 4), np.int64)},
        {"rows_end": np.array([2])},
        {"arrivals": np.array([[7, 1]])},
        {"counted": np.zeros((1, 3), np.int64)},
        {"peaks": np.zeros((1, 1), np.int32)},
        {"peaks": np.zeros((2, 1), np.int64)},
    ],
)
def test_a_file_with_other_arrays_is_ignored(folder: Path, arrays: dict[str, Any]) -> None:
    network = ring()
    drive(network, [(100, 0, 1, 900)], 10**9, book := described(network)).outcome()
    remember_episodes(book)
    (file,) = folder.iterdir()
    forged(file)
    assert len(described(network).episodes) == 1
    forged(file, **arrays)
    assert not described(network).episodes


def test_objects_in_a_file_are_not_loaded(folder: Path) -> None:
    """Data never runs as code: NumPy refuses pickles."""
    network, file, _, _ = kept(folder)
    forged(file, gap=np.array([folder], object))
    assert not described(network).episodes


def test_a_state_that_its_episode_does_not_reach_is_an_error(folder: Path) -> None:
    """It cannot come from a damaged file, as the digest fits."""
    network, file, sent, _ = kept(folder)
    data = zlib.decompress(file.read_bytes()[len(MAGIC) + 32 :])
    with np.load(io.BytesIO(data)) as found:
        deciding, first = found["deciding"].copy(), int(found["deciding_end"][0])
    deciding[first:] ^= 1
    forged(file, deciding=deciding)
    with pytest.raises(RuntimeError, match="another state than the cache says"):
        drive(network, [*sent[:2], (3000, 1, 1, 1800)], 10**9, described(network)).outcome()


def test_another_version_of_the_engine_uses_other_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, *_ = kept(folder)
    monkeypatch.setattr(episode_cache, "_version", lambda: b"another")
    assert not described(network).episodes


def test_networks_with_other_parameters_use_other_files(folder: Path) -> None:
    kept(folder)
    assert not described(ring(router={"buffer": 3})).episodes
    assert described(ring()).episodes


def test_the_least_recently_used_files_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYXSIM_CACHE", str(tmp_path))
    for age, name in enumerate(("old", "used", "new")):
        cache.remember_bytes("kind", name, bytes(100))
        moment = 10**9 + age
        os.utime(tmp_path / "kind" / name, (moment, moment))
    assert cache.recall_bytes("kind", "old") == bytes(100)  # now the last used one
    cache.trim("kind", 250)
    assert sorted(path.name for path in (tmp_path / "kind").iterdir()) == ["new", "old"]
    cache.trim("kind", 0)
    assert not list((tmp_path / "kind").iterdir())


# -- runs --


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold small runs, too."""
    monkeypatch.setattr(congruent_groups, "LEAST_FLIT_HOPS", 0)
    monkeypatch.setattr(folded_engine, "FEWEST_RUNS", 1 << 60)
    monkeypatch.setattr(folded_engine, "MOST_PARTS", 1000)
    monkeypatch.setattr(PacketNetwork, "wants_lines", lambda self, nbytes: False)


def told(**changes: Any) -> dict[str, Any]:
    return experiment("torus", [4, 4], output={"window": "1 ms", "seed": 1}, **changes)


def cached(experiment: dict[str, Any]) -> Result:
    return run({**experiment, "run": {"episodes": "cache"}})


@pytest.mark.usefixtures("small_runs", "folder")
@pytest.mark.parametrize("window", ["300 ns", "1 ms"])
@pytest.mark.parametrize("kind", ["ring", "direct"])
def test_runs_with_the_cache_are_equal_to_the_bit(window: str, kind: str) -> None:
    given = told(system={"all_reduce": kind})
    given["output"]["window"] = window
    whole = run({**given, "run": {"skip": False}})
    first, second = cached(given), cached(given)
    assert equal(first, whole)
    assert equal(second, whole)
    assert first.json()["cached_episodes"] == 0
    assert 0 < second.json()["cached_episodes"] <= second.json()["episodes"]
    assert " from the cache" in text(second)
    assert " from the cache" not in text(first)


@pytest.mark.usefixtures("small_runs")
def test_without_the_setting_nothing_is_kept(folder: Path) -> None:
    result = run(told())
    assert not folder.exists()
    assert result.json()["cached_episodes"] == 0


@pytest.mark.usefixtures("small_runs")
def test_without_a_folder_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYXSIM_CACHE", "")
    assert cached(told()).json()["cached_episodes"] == cached(told()).json()["cached_episodes"] == 0
    assert not folder.exists()


@pytest.mark.usefixtures("folder")
def test_points_of_a_sweep_share_episodes(tmp_path: Path) -> None:
    """Twice the chunks of twice the bytes are more messages of the same size."""
    axes = {"zip": {"system.chunks": [2, 4], "collective.size": ["32 MiB", "64 MiB"]}}
    given = {**told(network={"flit": "256 B", "packet": "4 KiB"}), "sweep": axes}
    found = sweep({**given, "run": {"episodes": "cache"}}, tmp_path / "kept", workers=1)
    alone = sweep(given, tmp_path / "alone", workers=1)
    assert found.column("time_ns") == alone.column("time_ns")
    first, second = (point.result().json()["cached_episodes"] for point in found.points)
    assert first == 0 < second


def one_of_many(seed: int) -> tuple[bool, int]:
    """In a process of its own: run messages with the cache and without; return whether both are equal."""
    network, rng = ring(), np.random.default_rng(seed)
    equal = True
    for _ in range(6):
        sent = [
            (int(rng.choice([9, 3000])), int(rng.integers(3)), 1, int(rng.choice([40, 900, 1800]))) for _ in range(12)
        ]
        book = described(network)
        equal &= drive(network, sent, 10**9, book).outcome() == drive(network, sent, 10**9, None).outcome()
        remember_episodes(book)
    return equal, len(book.episodes)


def test_several_processes_at_once(folder: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        outcomes = list(pool.map(one_of_many, range(4)))
    assert all(equal for equal, _ in outcomes)
    assert described(ring()).episodes
    assert [path.suffix for path in folder.iterdir()] == [""]  # no draft is left


def test_a_replay_that_is_simulated_after_all_stays_one_of_the_cache(folder: Path) -> None:
    """A window ends in the third of the episodes (cycles 9000 to 10,500: 900 flits of 5 / 3 cycles), which is known."""
    network, sent = ring(), [(3000, 0, 1, 900)] * 4
    drive(network, sent, 10**9, book := described(network)).outcome()
    remember_episodes(book)
    (file,) = folder.iterdir()
    before = file.read_bytes()
    again = drive(network, sent, 5000, book := described(network))
    assert again.outcome() == drive(network, sent, 5000, None).outcome()
    assert book.recalled_replays == book.replays == 3
    assert not book.new
    remember_episodes(book)
    assert file.read_bytes() == before
