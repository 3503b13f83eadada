"""Results of TE-CCL: what they become, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.errors import InputError
from tests.collective.custom.synthesized import ring_flows, shared_exchange

Read = Callable[[str, str, int], CompiledSchedule]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(text: str, kind: str, n: int) -> CompiledSchedule:
        path = tmp_path / "x.json"
        path.write_text(text)
        return get_schedule(kind, str(path), n)

    return reader


@pytest.mark.parametrize(("n", "chunks", "first"), [(2, 1, 0), (3, 2, 1), (5, 1, 7)])
def test_an_all_gather_is_its_flows(read: Read, n: int, chunks: int, first: int) -> None:
    s = read(ring_flows(n, chunks, first), "all-gather", n)
    prove(s)
    sent = ~s.local
    assert s.blocks == n * chunks
    assert sent.sum() == n * (n - 1) * chunks
    assert np.array_equal(s.dst[sent], (s.src[sent] + 1) % n)


def test_the_epochs_order_a_link(read: Read) -> None:
    """A chunk of a later epoch waits for what an earlier one on its link waits for, though its own data are there."""
    changed = ring_flows(3).replace(
        "Chunk 0 from 1 traveled over 1->2 in epoch 0", "Chunk 0 from 1 traveled over 1->2 in epoch 5"
    )
    s = read(
        changed.replace("Chunk 0 from 1 traveled over 2->0 in epoch 1", "Chunk 0 from 1 traveled over 2->0 in epoch 6"),
        "all-gather",
        3,
    )
    prove(s)
    [late] = [m for m in range(len(s)) if s.src[m] == 1 and s.blocks_of(m).tolist() == [1]]
    assert [s.src[m] for m in s.waits_for(late)] == [0]


@pytest.mark.parametrize(
    ("volumes", "parts"), [([1.0], 1), ([0.25, 0.75], 4), ([0.333333, 0.666667], 3), ([0.1234567, 0.8765433], 64)]
)
def test_the_parts_of_a_chunk_take_their_paths(read: Read, volumes: list[float], parts: int) -> None:
    s = read(shared_exchange(3, volumes), "all-to-all", 3)
    prove(s)
    assert s.blocks == 9 * parts
    direct = [m for m in range(len(s)) if s.blocks_of(m)[0] == parts * (3 * int(s.src[m]) + int(s.dst[m]))]
    assert {len(s.blocks_of(m)) for m in direct} == {round(volumes[0] * parts)}


def test_a_file_has_one_kind_and_size(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(ring_flows(3))
    assert get_algorithm(str(path)).kinds == ("all-gather",)
    with pytest.raises(InputError, match=r"is for 3 GPUs, but the group has 4"):
        get_schedule("all-gather", str(path), 4)


def change(old: str, new: str) -> str:
    text = ring_flows(3)
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (change('"7-Flows"', '"7-Flow"'), r"x.json: has no flows; allowed: \"7-Flows\""),
        (change("traveled over", "went over"), r"7-Flows\[0\]: 'Chunk .*' is not a flow"),
        (change("Demand at 1", "Demand for 1"), r"8-Chunk paths: 'Demand for 1 .*' is not a demand"),
        (change("from 0 traveled over 1->2", "from 0 traveled over 1->9"), r"7-Flows\[4\]: 9 is no GPU"),
        (change("from 0 traveled over 0->1 in epoch 0", "from 2 traveled over 0->1 in epoch 0"), "does not have it"),
        (change("over 0->1 in epoch 0", "over 0->1 with volume 0.5 in epoch 0"), "has volume 0.5; allowed: whole"),
        (
            json.dumps({"7-Flows": [], "8-Chunk paths": {"Demand at 1 for chunk 0 from 0 met by epoch 0": []}}),
            "the demands on 2 GPUs are those of no collective",
        ),
        (shared_exchange(3, [0.5, 0.25]), r"the volumes of its paths are 0\.75 in total"),
        (shared_exchange(3, [1.0]).replace("0->1 with", "0->2 with", 1), r"ends at 2; allowed: 1"),
    ],
)
def test_what_is_refused(read: Read, text: str, message: str) -> None:
    kind = "all-to-all" if "with volume" in text and "from 0 traveled" not in text else "all-gather"
    with pytest.raises(InputError, match=message) as caught:
        read(text, kind, 3)
    assert "\n" not in str(caught.value)
    assert re.search(r"x\.json", str(caught.value))


def test_an_undelivered_chunk_is_not_proved(read: Read) -> None:
    flows = json.loads(ring_flows(3))
    flows["7-Flows"] = [flow for flow in flows["7-Flows"] if flow != "Chunk 0 from 0 traveled over 1->2 in epoch 1"]
    with pytest.raises(InputError, match="rank 2"):
        prove(read(json.dumps(flows), "all-gather", 3))
