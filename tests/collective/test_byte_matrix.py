"""All-to-all-v: what each phase moves against brute force, the proof byte by byte, the bound on all backends."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.collective.bounds import phase_bytes, sent_bytes
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.plan import make_plan, positions
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.errors import InputError
from tests.examples import part_of

SHAPES = [(2,), (4,), (2, 3), (3, 2), (2, 2, 2), (4, 1, 2)]
ALGORITHMS = ["direct", "ring", "bruck"]
TOML = """
[network]
topology = "switch"
shape = [4]
bandwidth = "100 GB/s"
latency = "200 ns"
[system]
all_to_all = "direct"
[collective]
kind = "all-to-all"
"""


@st.composite
def matrices(draw: Any, npus: int) -> ByteMatrix:
    entries = st.integers(0, 9) | st.just(0)
    return ByteMatrix(draw(st.lists(st.lists(entries, min_size=npus, max_size=npus), min_size=npus, max_size=npus)))


@settings(max_examples=part_of(200, 8))
@given(st.data())
def test_each_phase_moves_what_brute_force_says(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    npus = math.prod(shape)
    matrix = data.draw(matrices(npus))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    plan = make_plan("all-to-all", 0, shape, data.draw(st.sampled_from(ALGORITHMS)), order=order, matrix=matrix)
    # Brute force: each pair's bytes hop along the dimensions in order, to the coordinate of their destination.
    at = {(s, d): s for s in range(npus) for d in range(npus)}
    for phase in plan.phases:
        between = np.zeros((npus, npus), np.int64)
        own = positions(shape, phase.dims)
        weight = math.prod(shape[: phase.dims[0]])
        for (s, d), here in at.items():
            there = here + (int(own[d]) - int(own[here])) * weight
            between[here, there] += matrix.rows[s, d]
            at[s, d] = there
        for number, group in enumerate(phase.groups.tolist()):
            assert phase.exchanged[number].tolist() == between[np.ix_(group, group)].tolist()
        assert phase.bytes_in.tolist() == between.sum(axis=1).tolist()
        assert phase.bytes_out.tolist() == between.sum(axis=0).tolist()
        off = between.sum() - np.trace(between)
        assert phase_bytes(phase) * npus == off
    assert all(here == d for (_, d), here in at.items())
    prove_plan(plan)


@settings(max_examples=part_of(100, 8))
@given(st.data())
def test_direct_sends_each_pair_once(data: st.DataObject) -> None:
    matrix = data.draw(matrices(5))
    plan = make_plan("all-to-all", 0, (5,), "direct", matrix=matrix)
    off = matrix.rows - np.diag(np.diag(matrix.rows))
    assert sent_bytes(plan)[:, 0].tolist() == off.sum(axis=1).tolist()
    parts = [matrix.part(i, 3) for i in range(3)]
    assert (sum(part.rows for part in parts) == matrix.rows).all()
    assert matrix.lower_bound_bytes() == max(off.sum(axis=0).max(), off.sum(axis=1).max())


def test_equal_entries_are_the_plain_collective() -> None:
    plain = make_plan("all-to-all", 4 * 96, (2, 2), "ring")
    equal = make_plan("all-to-all", 0, (2, 2), "ring", matrix=ByteMatrix(np.full((4, 4), 96)))
    assert (sent_bytes(plain) == sent_bytes(equal)).all()


def experiment(matrix: str, *more: str) -> pyxsim.Experiment:
    return pyxsim.Experiment.from_toml(TOML + f"matrix = {matrix}\n" + "\n".join(more))


ROWS = [[1000, 64000, 0, 4000], [0, 0, 0, 0], [4000, 100_000, 1, 7], [0, 30_000, 3, 0]]
QUOTED = "[" + ", ".join("[" + ", ".join(f'"{size} B"' for size in row) + "]" for row in ROWS) + "]"
BUSIEST = 64_000 + 100_000 + 30_000  # what NPU 1 receives


def test_bound_on_all_backends() -> None:
    # 194,000 bytes cross the link to NPU 1 at 100 bytes per ns. The first byte of the bound takes two hops of 200 ns.
    bound = BUSIEST / 100 + 400
    times = {backend: pyxsim.run(experiment(QUOTED), backend=backend) for backend in ("packet", "flow")}
    times["analytical-congestion"] = pyxsim.run(experiment(QUOTED), backend="analytical-congestion")
    for name, result in times.items():
        assert result.lower_bound_ns == pytest.approx(bound, abs=1), name
        assert 1 <= result.time_cycles / bound <= 1.02, name
        assert result.collectives[0]["kind"] == "all-to-all-v"
    # Without contention the longest message decides: 100,000 bytes, and both hops.
    alone = pyxsim.run(experiment(QUOTED), backend="analytical")
    assert alone.time_cycles == pytest.approx(100_000 / 100 + 400, abs=25)


@pytest.mark.parametrize("backend", ["packet", "reference"])
def test_a_torus_delivers_every_byte(backend: str) -> None:
    text = TOML.replace("switch", "torus").replace("[4]", "[2, 2]").replace('"direct"', '"ring"')
    result = pyxsim.run(pyxsim.Experiment.from_toml(text + f"matrix = {QUOTED}\n"), backend=backend)
    # NPU = x + 2y. Along x: 0-1 and 2-3 exchange the columns of their neighbor; along y what they then hold.
    along_x = [64000 + 4000, 0 + 0, 100_000 + 7, 0 + 3]
    along_y = [0 + 0, 4000 + 0, 4000 + 0, 100_000 + 30_000]
    assert result.dimensions["bytes"].tolist() == [sum(along_x), sum(along_y)]


def test_a_file_and_a_run_without_any_bytes_between_npus(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("\n".join(",".join(map(str, row)) for row in ROWS))
    (tmp_path / "e.toml").write_text(TOML + 'matrix = "m.csv"\n')
    result = pyxsim.run(tmp_path / "e.toml", backend="flow")
    assert result.time_cycles == pyxsim.run(experiment(QUOTED), backend="flow").time_cycles
    (tmp_path / "m.csv").write_text("5 0 0 0\n0 0 0 0\n0 0 0 0\n0 0 0 0\n")
    assert pyxsim.run(tmp_path / "e.toml", backend="packet").time_cycles == 0


@pytest.mark.parametrize(
    ("matrix", "more", "line"),
    [
        ('[["1 B", "2 B"], ["1 B"]]', "", "matrix: 2 rows with 1 or 2 entries; allowed: as many entries"),
        ('[["1 B", "2 B"], ["1 B", "2 B"]]', "", "the matrix is 2x2, but the collective has 4 NPUs"),
        ('[["0 B", "0 B"], ["0 B", "0 B"]]', "", "all entries are zero"),
        (QUOTED, 'size = "1 KiB"', "cannot be combined with `size`"),
        ('"no.csv"', "", "no.csv"),
        (QUOTED, "[output]\ncarry = true", "output.carry"),
        (QUOTED.replace('"4000 B"', "true"), "", "is not a size"),
    ],
)
def test_faults(matrix: str, more: str, line: str) -> None:
    with pytest.raises(InputError) as error:
        pyxsim.run(experiment(matrix, more))
    assert line in str(error.value)


def test_boost_and_other_kinds_are_refused() -> None:
    text = TOML.replace("[system]", "[system]\nboost = true")
    with pytest.raises(InputError, match="different amounts"):
        pyxsim.run(pyxsim.Experiment.from_toml(text + f"matrix = {QUOTED}\n"))
    with pytest.raises(InputError, match="all-reduce has no matrix"):
        pyxsim.Experiment.from_toml(TOML.replace("all-to-all", "all-reduce") + f"matrix = {QUOTED}\n")
