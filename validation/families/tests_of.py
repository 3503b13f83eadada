"""Claims with random cases in the tests of the source tree: runs these tests and counts their examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from pyxsim.errors import InputError
from validation.case import Case, Found, Picture, Series
from validation.reference import TREE

TIMEOUT = 7200  # seconds
_COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped)")
_EXAMPLES = re.compile(r"(\d+) passing(?: examples)?, (\d+) failing")

CLAIMS: dict[str, tuple[str, str, tuple[str, ...], float]] = {
    "engine": (
        "The engine launches every flit in the cycle of the reference, the second implementation of docs/router.md",
        "tests/reference",
        ("tests/core/test_oracle.py",),
        300,
    ),
    "order": (
        "The order in which routers and lanes are visited has no effect, and no buffer slot is lost or created",
        "tests/reference",
        ("tests/reference/test_order.py",),
        100,
    ),
    "machine": (
        "Random experiments over all topologies, routing algorithms and routers keep the invariants",
        "tests/core, tests/runner",
        ("tests/core/test_invariants.py", "tests/runner/test_invariants.py"),
        200,
    ),
    "system": (
        "The system layer passes on every message in the same cycle as the second implementation of docs/system.md",
        "tests/reference, tests/system",
        ("tests/system/test_oracle.py", "tests/system/test_no_deadlock.py"),
        60,
    ),
    "carry": (
        "The carried data are correct in any legal order of events, and errors are detected",
        "tests/system",
        ("tests/system/test_data_carrier.py",),
        5,
    ),
    "folding": (
        "Congruent groups, NPU 0 for all, and replayed episodes give every dataset of a run of every group and cycle",
        "tests/network, tests/system",
        (
            "tests/network/packet/test_folding.py",
            "tests/network/packet/test_episodes.py",
            "tests/system/test_lockstep.py",
        ),
        2000,
    ),
    "queues": (
        "Messages that queue for links arrive in the same cycle as in a slow byte-by-byte model with exact fractions, "
        "and a single message takes the time of the formula, on every topology",
        "tests/network",
        tuple(f"tests/network/delay/test_{name}.py" for name in ("cut_through", "ticks", "congestion")),
        60,
    ),
    "proof": (
        "The deadlock proof agrees with a slow proof, and rejected routes do deadlock",
        "tests/routing",
        ("tests/routing/test_deadlock.py", "tests/routing/test_slow.py", "tests/routing/test_counterexamples.py"),
        100,
    ),
}


def files() -> list[str]:
    """Return the files of tests that `make validate` leaves to this family, so that none runs twice."""
    return [path for _, _, paths, _ in CLAIMS.values() for path in paths]


def carried_out(name: str) -> Found:
    """Return the number of tests that fail, and the examples that they tried."""
    files = [path for path in CLAIMS[name][2] if (TREE / path).is_file()]
    if not files:
        raise InputError("the tests are not here", file=str(TREE / "tests"), allowed="run it in the source tree")
    words = [sys.executable, "-m", "pytest", "--slow", "-q", "--hypothesis-show-statistics", "-p", "no:cacheprovider"]
    environment = {**os.environ, "CI": "true"}  # the same examples in every run
    done = subprocess.run(
        [*words, *files], cwd=TREE, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    counts = {what: int(count) for count, what in _COUNTS.findall(done.stdout.strip().splitlines()[-1])}
    examples = sum(int(good) for good, _ in _EXAMPLES.findall(done.stdout))
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode and not failed:
        raise InputError(f"pytest ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    picture = Picture("", "random cases", [Series("tried", [0], [examples], "points")])
    cells = {"tests": str(counts.get("passed", 0)), "random cases": f"{examples:,}"}
    return Found(failed, picture, cells)


def cases() -> Iterator[Case]:
    for name, (claim, source, _, seconds) in CLAIMS.items():
        yield Case(f"oracle/{name}", claim, source, 0, "failed tests", partial(carried_out, name), seconds)


FAMILY = ("oracle", "Second implementations and random cases", ("tests", "random cases"), cases)
