"""Schedules with a mistake: each is refused before the run, with the place of the mistake."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pyxsim.collective.schedule import ScheduleError
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series

N = 4
# Stars around rank 0, an all-gather and a ring, each with one mistake. Steps of a rank count from 0.
SOURCE = '''
from pyxsim.collective.schedule import Schedule

def forgets(kind, n):
    """Rank 0 answers before it has heard of all: rank 1 gets nothing of ranks 2 and 3."""
    s = Schedule(kind, n, blocks=1)
    for rank in range(1, n):
        s.send(rank, 0, 0, reduce=True)
        s.send(0, rank, 0)
    return s

def twice(kind, n):
    """Rank 1 contributes two times."""
    s = Schedule(kind, n, blocks=1)
    for rank in (1, *range(1, n)):
        s.send(rank, 0, 0, reduce=True)
    for rank in range(1, n):
        s.send(0, rank, 0)
    return s

def stores(kind, n):
    """What rank 1 sends is stored, not added: the contribution of rank 0 is lost."""
    s = Schedule(kind, n, blocks=1)
    s.send(1, 0, 0)
    for rank in range(2, n):
        s.send(rank, 0, 0, reduce=True)
    for rank in range(1, n):
        s.send(0, rank, 0)
    return s

def hands_on_nothing(kind, n):
    """Rank 1 hands on the block of rank 0, which it never had."""
    s = Schedule(kind, n)
    s.send(1, 2, 0)
    for rank in range(n):
        for other in range(n):
            if other != rank:
                s.send(rank, other, rank)
    return s

def leaves_out(kind, n):
    """A ring in which rank 2 does not pass on the sum that came in the first step."""
    s = Schedule(kind, n)
    for step in range(n - 1):
        for rank in range(n):
            if (step, rank) != (1, 2):
                s.send(rank, (rank + 1) % n, (rank - 1 - step) % n, reduce=True)
    return s
'''


class Mistake(NamedTuple):
    """What a refusal must contain. `words`: further words of its text."""

    function: str
    kind: str
    rank: int
    step: int | None
    missing: tuple[int, ...] = ()
    duplicate: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


MISTAKES = (
    Mistake("forgets", "all-reduce", rank=1, step=2, missing=(2, 3), words=("ranks 2, 3", "step 2 of rank 0 (-> 3)")),
    Mistake("twice", "all-reduce", rank=0, step=1, duplicate=(1,), words=("step 1 of rank 1 (-> 0)", "again")),
    Mistake("stores", "all-reduce", rank=0, step=0, missing=(0,), words=("overwritten by step 0 of rank 1 (-> 0)",)),
    Mistake("hands_on_nothing", "all-gather", rank=1, step=0, words=("step 0 of rank 1 (-> 2)",)),
    Mistake("leaves_out", "reduce-scatter", rank=0, step=0, missing=(1, 2), words=("step 0 of rank 1 (-> 2)",)),
)


def refused(mistake: Mistake) -> Found:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "broken.py"
        path.write_text(SOURCE, encoding="utf-8")
        said = _refusal(mistake, f"{path}:{mistake.function}")
    wrong = ["it ran"] if said is None else _differences(mistake, said)
    text = "" if said is None else said.problem.partition(f"{mistake.function} ")[2] or said.problem
    picture = Picture("", "mistakes that were found", [Series("pyxsim", [0], [0 if said is None else 1], "points")])
    return Found(len(wrong), picture, {"kinds": mistake.kind, "runs": "1", "NPUs": str(N)}, "; ".join([*wrong, text]))


def _refusal(mistake: Mistake, name: str) -> ScheduleError | None:
    try:
        run(
            {
                "network": {"topology": "switch", "shape": [N]},
                "system": {mistake.kind.replace("-", "_"): name},
                "collective": {"kind": mistake.kind, "size": "1 KiB"},
            }
        )
    except ScheduleError as error:
        return error
    return None


def _differences(mistake: Mistake, said: ScheduleError) -> list[str]:
    """Return what a refusal lacks or states differently."""
    found: dict[str, Any] = {key: getattr(said, key) for key in ("rank", "step", "missing", "duplicate")}
    wanted = mistake._asdict()
    wrong = [f"{key} {value}, not {wanted[key]}" for key, value in found.items() if value != wanted[key]]
    return wrong + [f"'{words}' is not in it" for words in mistake.words if words not in str(said)]


def cases() -> Iterator[Case]:
    claim = (
        "A schedule with an error is rejected before the run, with a message that names the rank, step and contribution"
    )
    source = "deliberate errors"
    for mistake in MISTAKES:
        name = f"collectives/broken-{mistake.function.replace('_', '-')}"
        yield Case(name, claim, source, 0, "faults", partial(refused, mistake), 0.1)
