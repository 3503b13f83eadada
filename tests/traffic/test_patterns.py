"""Patterns: their definitions by hand, and that draws follow the matrix they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.traffic import PatternContext as Context
from pyxsim.traffic import make_pattern, patterns
from tests.in_turn import in_turn

SQUARE = Context(16, (4, 4))


def table(name: str, place: Context = SQUARE, **options: Any) -> list[int]:
    """The destinations of a pattern that is a permutation."""
    found = make_pattern(name, place, options).destinations(rng(), np.arange(place.npus))
    return [int(dst) for dst in found]


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def test_permutations_by_hand() -> None:
    # Node 6 of 16 is 0110 in bits, and (2, 1) on a square.
    assert table("bit-complement")[6] == 0b1001
    assert table("bit-reverse")[0b0010] == 0b0100
    assert table("bit-reverse")[0b0111] == 0b1110
    assert table("shuffle")[0b1001] == 0b0011
    assert table("shuffle")[0b0110] == 0b1100
    assert table("transpose")[0b0110] == 0b1001
    assert table("transpose") == [4 * (i % 4) + i // 4 for i in range(16)]
    # ceil(4/2) - 1 = 1: on a 4x4 network tornado and neighbor are the same; on 8x8 it is +3, +3.
    assert table("tornado") == table("neighbor")
    assert table("neighbor")[0] == 5
    assert table("neighbor")[15] == 0
    assert table("tornado", Context(64, (8, 8)))[0] == 3 + 8 * 3
    assert table("tornado", Context(15, (5, 3)))[14] == (4 + 2) % 5 + 5 * ((2 + 1) % 3)
    assert table("transpose", Context(9, (9,))) == [0, 3, 6, 1, 4, 7, 2, 5, 8]


@in_turn("name", ["bit-complement", "bit-reverse", "shuffle", "transpose", "tornado", "neighbor"])
@in_turn("place", [SQUARE, Context(64, (4, 4, 4)), Context(4, (2, 2)), Context(1, (1,))])
def test_every_node_receives_from_one(name: str, place: Context) -> None:
    assert sorted(table(name, place)) == list(range(place.npus))


def test_random_permutations_depend_on_the_seed_alone() -> None:
    assert sorted(table("random-permutation")) == list(range(16))
    assert table("random-permutation") == table("random-permutation", Context(16, (2, 8)))
    assert table("random-permutation", seed=5) == table("random-permutation", Context(16, (16,), seed=5))
    assert table("random-permutation", seed=5) != table("random-permutation", seed=6)


DRAWN: list[tuple[str, dict[str, Any]]] = [
    ("uniform", {}),
    ("uniform-other", {}),
    ("diagonal", {}),
    ("asymmetric", {}),
    ("adversarial", {}),
    ("adversarial", {"group": 2, "offset": 3}),
    ("hotspot", {"nodes": [3]}),
    ("hotspot", {"nodes": [3, 7], "rates": [1, 3]}),
    ("hotspot", {"nodes": [3, 7], "share": 0.25}),
]


@pytest.mark.parametrize(("name", "options"), DRAWN, ids=lambda value: str(value))
def test_draws_follow_the_matrix(name: str, options: dict[str, Any]) -> None:
    follows_its_matrix(make_pattern(name, SQUARE, options), 16)


def follows_its_matrix(pattern: Any, npus: int, each: int = 20_000) -> None:
    matrix = pattern.matrix()
    src = np.repeat(np.arange(npus), each)
    counts = np.zeros((npus, npus))
    np.add.at(counts, (src, pattern.destinations(rng(), src)), 1 / each)
    assert counts[matrix == 0].max(initial=0) == 0
    # Five times the standard deviation of a share.
    assert (np.abs(counts - matrix) <= 5 * np.sqrt(matrix * (1 - matrix) / each) + 1e-12).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1)


def test_matrices_by_hand() -> None:
    assert make_pattern("uniform", SQUARE).matrix()[2, 2] == 1 / 16
    assert make_pattern("uniform-other", SQUARE).matrix()[2].tolist() == [*[1 / 15] * 2, 0, *[1 / 15] * 13]
    diagonal = make_pattern("diagonal", SQUARE).matrix()
    assert (diagonal[15, 15], diagonal[15, 0]) == (2 / 3, 1 / 3)
    asymmetric = make_pattern("asymmetric", SQUARE).matrix()
    assert np.flatnonzero(asymmetric[11]).tolist() == [3, 11]
    # The last dimension of 4x4 is made of groups of four nodes; all of a group sends to the next one.
    adversarial = make_pattern("adversarial", SQUARE).matrix()
    assert np.flatnonzero(adversarial[5]).tolist() == [8, 9, 10, 11]
    assert np.flatnonzero(adversarial[15]).tolist() == [0, 1, 2, 3]
    hotspot = make_pattern("hotspot", SQUARE, {"nodes": [3, 7], "rates": [1, 3], "share": 0.5}).matrix()[0]
    np.testing.assert_allclose(hotspot[[3, 7, 8]], [0.125 + 0.5 / 16, 0.375 + 0.5 / 16, 0.5 / 16])


def test_a_dragonfly_is_adversarial_by_its_groups() -> None:
    # 2 NPUs at each of 4 routers of 9 groups, as the shape tells.
    pattern = make_pattern("adversarial", Context(72, (2, 4, 9))).matrix()
    assert np.flatnonzero(pattern[0]).tolist() == list(range(8, 16))
    assert np.flatnonzero(pattern[71]).tolist() == list(range(8))


@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_a_matrix_from_a_file(tmp_path: Path, suffix: str) -> None:
    traffic = np.array([[0, 3, 1], [0, 0, 0], [2, 2, 4.0]])
    path = tmp_path / f"traffic{suffix}"
    if suffix == ".npy":
        np.save(path, traffic)
    else:
        path.write_text("# who sends to whom\n0, 3, 1\n0 0 0\n\n2;2;4\n", encoding="utf-8")
    pattern = make_pattern("matrix", Context(3, (3,), tmp_path), {"file": path.name})
    np.testing.assert_allclose(pattern.matrix(), [[0, 0.75, 0.25], [0, 0, 0], [0.25, 0.25, 0.5]])
    # All of the traffic together is the load: node 2 sends twice as much as node 0, node 1 nothing.
    np.testing.assert_allclose(pattern.rates(), [1, 0, 2])
    src = np.repeat([0, 2], 10_000)
    found = pattern.destinations(rng(), src)
    assert set(found[src == 0].tolist()) == {1, 2}
    assert abs((found[src == 0] == 1).mean() - 0.75) < 0.03
    assert abs((found[src == 2] == 2).mean() - 0.5) < 0.03


@given(st.integers(2, 40), st.integers(0, 2**32))
def test_matrices_are_followed_to_the_last_column(npus: int, seed: int) -> None:
    from pyxsim.traffic.matrix import MatrixPattern

    draws = np.random.default_rng(seed)
    traffic = draws.random((npus, npus)) * (draws.random((npus, npus)) < 0.3)
    traffic[:, draws.integers(npus)] += 1e-9
    src = draws.integers(npus, size=500)
    found = MatrixPattern(traffic).destinations(rng(seed), src)
    assert (traffic[src, found] > 0).all()


HAS = "the network has"
FAULTS: list[tuple[str, Context, dict[str, Any], str]] = [
    (
        "bit-reverse",
        Context(12, (12,)),
        {},
        f"pattern: bit-reverse requires a power-of-two number of NPUs; {HAS} 12",
    ),
    (
        "shuffle",
        Context(12, (12,)),
        {},
        f"pattern: shuffle requires a power-of-two number of NPUs; {HAS} 12",
    ),
    (
        "bit-complement",
        Context(12, (12,)),
        {},
        f"pattern: bit-complement requires a power-of-two number of NPUs; {HAS} 12",
    ),
    (
        "transpose",
        Context(8, (8,)),
        {},
        f"pattern: transpose requires a square number of NPUs; {HAS} 8",
    ),
    ("uniform-other", Context(1, (1,)), {}, "pattern: this pattern requires at least 2 NPUs; the network has 1"),
    (
        "tornado",
        Context(40, (8, 8)),
        {},
        "pattern: this pattern requires dimensions; 40 NPUs do not form a grid of 8x8",
    ),
    (
        "adversarial",
        SQUARE,
        {"group": 16},
        "pattern_options.group: all NPUs are in one group; allowed: a number of nodes below the number of NPUs",
    ),
    (
        "adversarial",
        SQUARE,
        {"offset": 0},
        "pattern_options.offset: an offset of 0 returns to the same group; the network has 4 groups; "
        "allowed: a number that is not a multiple of 4",
    ),
    (
        "adversarial",
        SQUARE,
        {"offset": 4},
        "pattern_options.offset: an offset of 4 returns to the same group; the network has 4 groups; "
        "allowed: a number that is not a multiple of 4",
    ),
    ("adversarial", SQUARE, {"group": 3}, "pattern_options.group: 16 NPUs cannot be divided into groups of 3"),
    ("hotspot", SQUARE, {}, "pattern_options.nodes: is missing; the pattern 'hotspot' requires it"),
    (
        "hotspot",
        SQUARE,
        {"nodes": [16]},
        "pattern_options.nodes: 16 is out of range; allowed: whole numbers from 0 to 15",
    ),
    ("hotspot", SQUARE, {"nodes": 3}, "pattern_options.nodes: 3 is not a list; allowed: a list such as [0, 5]"),
    (
        "hotspot",
        SQUARE,
        {"nodes": [1, 2], "rates": [1]},
        "pattern_options.rates: 1 rates for 2 nodes; allowed: one per node",
    ),
    (
        "hotspot",
        SQUARE,
        {"node": [1]},
        "pattern_options.node: the pattern 'hotspot' has no such option; allowed: nodes, rates, share; "
        "did you mean 'nodes'?",
    ),
]


@pytest.mark.parametrize(("name", "place", "options", "text"), FAULTS)
def test_faults(name: str, place: Context, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        make_pattern(name, place, options)
    assert str(caught.value) == text


def test_an_unknown_pattern() -> None:
    with pytest.raises(InputError, match=r"pattern: unknown traffic pattern 'tornadoe'; .* did you mean 'tornado'\?"):
        make_pattern("tornadoe", SQUARE)
    assert patterns.canonical("neighbour") == "neighbor"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", "1 2\n3\n", "a.csv:2: the row has 1 entries, but the first one has 2"),
        ("a.csv", "1 2\n3 x\n", "a.csv:2: '3 x' is not a row of numbers"),
        ("a.csv", "1 2 3\n3 1 2\n", "a.csv: the traffic matrix is 2x3; allowed: 2x2, one row per NPU"),
        ("a.csv", "1 -2\n3 1\n", "a.csv: entry 1 of row 0 is -2; allowed: finite numbers that are not negative"),
        ("a.csv", "0 0\n0 0\n", "a.csv: all entries are zero"),
        ("a.csv", "\n", "a.csv: is empty; allowed: a row of numbers per NPU"),
        ("a.npy", "no NumPy", "a.npy: not a NumPy file of numbers"),
        ("a.xlsx", "", "a.xlsx: unknown format of a traffic matrix; allowed: file names in .csv, .txt, .npy"),
    ],
)
def test_faults_of_matrix_files(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        make_pattern("matrix", Context(2, (2,), tmp_path), {"file": name})
    assert str(caught.value) == f"pattern_options.file: {tmp_path}/{problem}"


def test_a_missing_matrix(tmp_path: Path) -> None:
    for name in ("there.csv", "there.npy"):
        with pytest.raises(InputError, match=rf"{name}: .*[Nn]o such file"):
            make_pattern("matrix", Context(2, (2,), tmp_path), {"file": name})
