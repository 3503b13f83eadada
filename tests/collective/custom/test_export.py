"""Schedules written as MSCCL XML and as Chakra traces: what is read again sends the same, and is proved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective.checker import prove
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.export import to_chakra, to_msccl
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.collective.schedule import Schedule
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError

CASES = [
    (kind, name, n)
    for name, kinds in (
        ("ring", tuple(KINDS)),
        ("direct", tuple(KINDS)),
        ("halving-doubling", ("all-reduce", "reduce-scatter", "all-gather")),
    )
    for kind in kinds
    for n in (2, 3, 8)
]


def sent(s: CompiledSchedule, size: int) -> dict[tuple[int, int], list[int]]:
    """The bytes of the messages from one rank to another, the small ones first."""
    found: dict[tuple[int, int], list[int]] = {}
    bytes_of = s.message_bytes(block_sizes(s.kind, s.n, s.blocks, size))
    for m in np.flatnonzero(~s.local).tolist():
        found.setdefault((int(s.src[m]), int(s.dst[m])), []).append(int(bytes_of[m]))
    return {link: sorted(sizes) for link, sizes in found.items()}


@pytest.mark.parametrize(("kind", "name", "n"), CASES)
def test_from_msccl_and_back(tmp_path: Path, kind: str, name: str, n: int) -> None:
    if kind not in get_algorithm(name).kinds:
        pytest.skip(f"{name} has no {kind}")
    s = get_schedule(kind, name, n)
    if kind == "barrier":
        with pytest.raises(InputError, match="MSCCL has no barrier; allowed: all-reduce"):
            to_msccl(s)
        return
    path = tmp_path / "a.xml"
    path.write_text(to_msccl(s))
    again = get_schedule(kind, str(path), n)
    prove(again)
    one, other = sent(s, 1_000_003), sent(again, 1_000_003)
    assert {link: sum(sizes) for link, sizes in one.items()} == {link: sum(sizes) for link, sizes in other.items()}
    if name != "halving-doubling":  # its messages have gaps between their chunks: several steps each
        assert one == other


@pytest.mark.parametrize(("kind", "name", "n"), CASES)
def test_from_traces_and_back(tmp_path: Path, kind: str, name: str, n: int) -> None:
    if kind not in get_algorithm(name).kinds:
        pytest.skip(f"{name} has no {kind}")
    s = get_schedule(kind, name, n)
    sizes = block_sizes(s.kind, n, s.blocks, 1_000_003)
    to_chakra(s, sizes, tmp_path / "a", reduction_micros=3)
    again = get_schedule(kind, str(tmp_path / "a.*.et"), n)
    prove(again)
    assert sent(again, 1) == sent(s, 1_000_003)
    reductions = 0 if again.extra_ns is None else int((again.extra_ns == 3000).sum())
    assert reductions == s.reduce.sum()


def test_scratch_places_and_local_steps(tmp_path: Path) -> None:
    s = Schedule("all-reduce", 2, blocks=2, cells=4)
    for rank in range(2):
        s.send(rank, 1 - rank, (0, 1), put=(2, 3))
    for rank in range(2):
        s.local(rank, (2, 3), (0, 1), reduce=True)
    written = to_msccl(compiled(s, "mine & yours"))
    assert 'name="mine &amp; yours"' in written
    path = tmp_path / "a.xml"
    path.write_text(written)
    again = get_schedule("all-reduce", str(path), 2)
    prove(again)
    assert sent(again, 11) == {(0, 1): [11], (1, 0): [11]}


def test_what_cannot_be_written(tmp_path: Path) -> None:
    s = Schedule("all-reduce", 3)
    s.reduce_in_network(range(3), range(3))
    with pytest.raises(InputError, match="MSCCL has no reduction in the network"):
        to_msccl(compiled(s))
    with pytest.raises(InputError, match="Chakra traces have no reduction in the network"):
        to_chakra(compiled(s), np.ones(3, dtype=np.int64), tmp_path / "a")
    to_chakra(get_schedule("all-reduce", "ring", 3), np.ones(3, dtype=np.int64), tmp_path / "a")
    with pytest.raises(InputError, match="MSCCL has no messages without data"):
        to_msccl(get_schedule("all-reduce", str(tmp_path / "a.*.et"), 3))
