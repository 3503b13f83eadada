"""Users' collectives: the shelf's algorithms written as MSCCL and Chakra files, and run from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pyxsim.collective.custom.export import to_chakra, to_msccl
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.plan import whole_bytes
from pyxsim.errors import InputError
from pyxsim.settings.algorithms import KINDS, ROOTED, algorithm_key
from validation.case import Case, Found, Picture, exact
from validation.families.algorithms import ALGORITHMS, can
from validation.machines import WIRES, Tables, name_of, simulated

RANKS = (3, 4, 8)
SIZE = 8 * 3 * 7 * 64  # of equal blocks for these ranks
CELLS = {"kinds": "", "NPUs": "3, 4, 8"}


def experiment(network: Tables, kind: str, name: str, *, carry: bool, root: int | None = None) -> Tables:
    collective: Tables = {"kind": kind}
    if kind != "barrier":
        collective["size"] = f"{SIZE} B"
    if root is not None:
        collective["root"] = root
    system = {algorithm_key(kind): name}
    return {"network": {**WIRES, **network}, "system": system, "collective": collective, "output": {"carry": carry}}


def networks(n: int) -> Iterator[tuple[Tables, str]]:
    yield {"topology": "switch", "shape": [n]}, "packet"
    yield {"topology": "fully-connected", "shape": [n]}, "analytical"


def msccl() -> Found:
    """Count the NPUs without the right result, and the files whose bytes differ from the shelf's."""
    faults = runs = 0
    bytes_of: list[tuple[float, float]] = []
    kinds = set()
    with TemporaryDirectory() as folder:
        for algorithm, kind, n in _every():
            try:
                text = to_msccl(get_schedule(kind, algorithm, n))
            except InputError:
                continue  # these files cannot express barriers and in-switch reductions
            path = Path(folder) / f"{algorithm.replace(':', '-')} {kind} {n}.xml"
            path.write_text(text, encoding="utf-8")
            for network, backend in networks(n):
                root = n - 1 if kind in ROOTED else None
                told, own = (
                    simulated(experiment(network, kind, name, carry=True, root=root), backend)
                    for name in (str(path), algorithm)
                )
                bytes_of.append((own.counts["bytes_delivered"], told.counts["bytes_delivered"]))
                faults += told.carried != n or bytes_of[-1][0] != bytes_of[-1][1]
                runs += 1
                kinds.add(kind)
    picture = exact(bytes_of, "bytes")[1]
    return Found(faults, picture, {**CELLS, "runs": str(runs), "kinds": _in_order(kinds), "networks": "2"})


def chakra() -> Found:
    """Traces have sizes and an order: without endpoint delays they take the nanoseconds of the shelf's algorithm."""
    pairs: list[tuple[float, float]] = []
    seen = set()
    kinds = set()
    with TemporaryDirectory() as folder:
        for algorithm, kind, n in _every():
            schedule = get_schedule(kind, algorithm, n)
            if (schedule.join >= 0).any() or kind == "barrier" or schedule.window is not None:
                continue  # a trace cannot express in-switch reductions and windows
            blocks = schedule.blocks // (n if kind == "all-to-all" else 1)
            size = whole_bytes(kind, SIZE, n)
            files = Path(folder) / f"{algorithm.replace(':', '-')} {kind} {n}"
            to_chakra(schedule, np.full(schedule.blocks, size // blocks), files)
            for network, backend in networks(n):
                told, own = (
                    simulated(experiment(network, kind, name, carry=False), backend)
                    for name in (f"{files}.*.et", algorithm)
                )
                pairs.append((float(own.time_ns), float(told.time_ns)))
                seen.add(name_of(network))
                kinds.add(kind)
    worst, picture = exact(pairs, "ns")
    cells = {"runs": str(len(pairs)), "kinds": _in_order(kinds), "networks": str(len(seen))}
    return Found(worst, Picture(picture.x, picture.y, picture.series), {**CELLS, **cells})


def _every() -> Iterator[tuple[str, str, int]]:
    for algorithm in ALGORITHMS:
        for kind in KINDS:
            if can(algorithm, kind):
                yield from ((algorithm, kind, n) for n in RANKS)


def _in_order(kinds: set[str]) -> str:
    return ", ".join(kind for kind in KINDS if kind in kinds)


def cases() -> Iterator[Case]:
    claim = "If the shipped algorithms run from MSCCL files, the carried data are correct, and the bytes are the same"
    source = "NumPy's result for the same random data"
    yield Case("collectives/custom-msccl", claim, source, 0, "wrong runs", msccl, 10)
    claim = "If the shipped algorithms run from Chakra traces, they take the same time"
    yield Case("collectives/custom-chakra", claim, "the shipped algorithms themselves", 0, "ns", chakra, 10)
