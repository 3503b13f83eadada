"""What messages of a written schedule wait for: windows as messages, and channels that add nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective.checker import prove
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.channels import awaited, channels
from pyxsim.collective.custom.export import to_chakra, to_msccl
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError


def handed_on(n: int) -> CompiledSchedule:
    """Rank 0 hands on to rank 1 what each of the others sends it, each as soon as it is there; then to them all."""
    s = Schedule("all-gather", n)
    for rank in range(2, n):
        s.send(rank, 0, rank)
    s.send(1, 0, 1)
    for rank in range(2, n):
        s.send(0, 1, rank)
    s.send(0, 1, 0)
    for rank in range(2, n):
        s.send(0, rank, [block for block in range(n) if block != rank])
    return compiled(s, "handed on")


def test_a_window_is_the_last_of_so_many_messages_in_the_order_of_the_schedule() -> None:
    s = get_schedule("all-to-all", "direct:2", 5)
    found = awaited(s)
    ptr, sends = s.sends
    received_ptr, received = s.receives
    for rank in range(5):
        came = received[received_ptr[rank] : received_ptr[rank + 1]].tolist()
        waits = [found[m] for m in sends[ptr[rank] : ptr[rank + 1]].tolist()]
        assert waits == [(), (), (came[0],), (came[1],)]


@pytest.mark.parametrize(("kind", "name", "n"), [("all-reduce", "ring", 5), ("all-reduce", "double-binary-tree:32", 8)])
def test_one_channel_is_enough_where_messages_go_in_their_order(kind: str, name: str, n: int) -> None:
    s = get_schedule(kind, name, n)
    assert channels(s, awaited(s), 32) == ([0] * len(s), [])


def test_what_waits_for_different_messages_has_a_channel_of_its_own() -> None:
    s = handed_on(6)
    number, late = channels(s, awaited(s), 32)
    on_the_way = np.flatnonzero((s.src == 0) & (s.dst == 1))
    # The last one, of rank 0 itself, waits for nothing: it cannot join those that have waited.
    assert [number[m] for m in on_the_way] == [0, 1, 2, 3, 4]
    assert late == []


def test_too_few_channels_are_told(tmp_path: Path) -> None:
    s = handed_on(36)
    with pytest.warns(UserWarning, match="36 ranks: 3 messages have more .* rank 0 to rank 1: MSCCL"):
        written = to_msccl(s)
    path = tmp_path / "a.xml"
    path.write_text(written)
    prove(get_schedule("all-gather", str(path), 36))


def test_traces_of_a_larger_group_are_not_left_among_the_new_ones(tmp_path: Path) -> None:
    for n in (3, 4):
        ring = get_schedule("all-reduce", "ring", n)
        to_chakra(ring, np.ones(n, dtype=np.int64), tmp_path / "a")
    before = (tmp_path / "a.0.et").read_bytes()
    ring = get_schedule("all-reduce", "ring", 3)
    with pytest.raises(InputError, match=r"a.3.et: is of a rank that the new traces do not have.*allowed: another"):
        to_chakra(ring, np.ones(3, dtype=np.int64), tmp_path / "a")
    assert (tmp_path / "a.0.et").read_bytes() == before
    to_chakra(ring, np.ones(3, dtype=np.int64), tmp_path / "b")
