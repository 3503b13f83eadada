"""Run cases in separate processes, several at a time, and draw their pictures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from pyxsim.errors import PyxsimError
from validation.case import Case, Outcome
from validation.catalogue import every_case

Tick = Callable[[Outcome], None]
PATIENCE = 0.5  # seconds between checks for Ctrl-C


def run_cases(
    cases: Sequence[Case], *, workers: int = 1, pictures: Path | None = None, tick: Tick = lambda _: None
) -> list[Outcome]:
    """Return the outcomes of the cases in their order. `pictures`: their folder; `tick` is called after each case."""
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    found: dict[str, Outcome] = {}
    for outcome in _outcomes(cases, workers, pictures):
        found[outcome.name] = outcome
        tick(outcome)
    return [found[case.name] for case in cases]


def _outcomes(cases: Sequence[Case], workers: int, pictures: Path | None) -> Iterator[Outcome]:
    order = sorted(cases, key=lambda case: -case.seconds)
    if workers == 1:
        for case in order:
            yield run_case(case.name, pictures)
        return
    # New processes, not forks: a lock that a thread holds would stay locked in a fork.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        left: set[Future[Outcome]] = {pool.submit(run_case, case.name, pictures) for case in order}
        while left:
            done, left = wait(left, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_case(name: str, pictures: Path | None = None) -> Outcome:
    """Run one case. An error of the case is an outcome; a bug in the program is raised."""
    case = every_case()[name]
    start = time.perf_counter()
    told = (case.name, case.claim, case.source, case.bound, case.unit)
    try:
        found = case.run()
    except (PyxsimError, AssertionError) as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(*told, math.nan, time.perf_counter() - start, {}, error=text)
    outcome = Outcome(*told, found.measured, time.perf_counter() - start, dict(found.cells), found.note)
    if pictures is not None:
        from validation.draw import draw

        draw(found.picture, outcome, pictures / picture_name(name))
    return outcome


def picture_name(name: str) -> str:
    """Return the path of a case's picture."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name.replace("/", "--")) + ".svg"


def most_workers() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
