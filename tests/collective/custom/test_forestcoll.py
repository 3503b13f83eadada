"""Trees of ForestColl: broadcast, add up, both; slices; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim.collective.bounds import rounds
from pyxsim.collective.checker import prove
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError
from tests.collective.custom.synthesized import chains, gpu


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize(("n", "weights", "slices"), [(2, (1,), 1), (3, (1, 2), 1), (4, (1,), 3), (5, (2, 1), 2)])
def test_trees_are_proved(tmp_path: Path, kind: str, n: int, weights: tuple[int, ...], slices: int) -> None:
    path = tmp_path / "x.xml"
    path.write_text(chains(n, weights))
    s = get_schedule(kind, f"{path}:{slices}" if slices > 1 else str(path), n)
    prove(s)
    ways = 2 if kind == "all-reduce" else 1
    assert s.blocks == n * sum(weights) * slices
    assert (~s.local).sum() == ways * n * (n - 1) * len(weights) * slices


def test_a_slice_follows_a_step_behind(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(chains(4))
    assert rounds(get_schedule("all-gather", str(path), 4)) == 3
    assert rounds(get_schedule("all-gather", f"{path}:5", 4)) == 3 + 5 - 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('nchunkspernode="1"', 'nchunkspernode="2"', r"x\.xml:1: Algo: the trees of .* have 1 chunks; allowed: 2"),
        ('nchunks="1"', 'nchunks="0"', r"x\.xml:2: tree: nchunks is '0'"),
        (f'src="{gpu(0)}"', f'src="{gpu(7)}"', r"src is \(0, 'GPU', 7\), which is the root of no tree"),
        (f'dst="{gpu(2)}"', f'dst="{gpu(1)}"', r"x\.xml:4: send: reaches a GPU twice"),
        (f'dst="{gpu(1)}"', f'dst="{gpu(2)}"', r"x\.xml:\d: .*(reaches a GPU twice|does not reach)"),
        ('nchunks="1"', 'chunks="1"', r"nchunks is missing; did you mean 'chunks'\?"),
        ("<Algo ", "<Trees ", r"not valid XML|is not an MSCCL algorithm"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "x.xml"
    text = chains(3)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        get_schedule("all-gather", str(path), 3)


def test_too_many_slices(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(chains(3, (2, 1)))
    with pytest.raises(InputError, match="allowed: at most 1365 slices"):
        get_schedule("all-gather", f"{path}:9999", 3)
