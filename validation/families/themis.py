"""Themis: its speed-up over ascending dimensions, in ASTRA-sim and here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from validation.case import Case, Found, Picture, Series
from validation.machines import Tables, simulated

UPDATE = 0.005  # us that the workload layer of ASTRA-sim 1 adds after a collective
MEASURED = "measurements in inputs/reference/astra1.json"
PUBLISHED = "the ASTRA-sim 2 tutorial at ASPLOS 2023, 3-D switch of 8 x 8 x 8"


class Setup(NamedTuple):
    """An all-reduce in 64 chunks, and ASTRA-sim's microseconds: ascending, and with Themis."""

    network: Tables
    system: Tables
    size: str
    themis: Tables
    ascending_us: float
    themis_us: float
    source: str


def network(block: str, npus: int, bandwidths: tuple[int, ...]) -> Tables:
    dims = [{"block": block, "npus": npus, "bandwidth": f"{rate} GiB/s", "latency": "1 ns"} for rate in bandwidths]
    return {"clock": "1 GHz", "dims": dims}


# Two links of 32, 16 and 16 GiB/s, which ASTRA-sim 1 counts as one of 64, 32 and 32 with one queue.
TORUS = network("ring", 4, (64, 32, 32))
SWITCHES = network("switch", 8, (50, 50, 50))
RING: Tables = {"chunks": 64, "queues": 1, "endpoint_delay": "1 ns", "all_reduce": "ring"}
HALVING: Tables = {"chunks": 64, "queues": 1, "endpoint_delay": "10 ns", "all_reduce": "halving-doubling"}
SMALLEST: Tables = {"intra_dimension": "smallest-first"}
SETUPS: dict[str, Setup] = {
    "torus-4x4x4": Setup(TORUS, RING, "64 MiB", {}, 1465.477, 967.681, MEASURED),
    "torus-4x4x4-smallest-first": Setup(TORUS, RING, "64 MiB", SMALLEST, 1465.477, 979.2, MEASURED),
    "switch-8x8x8": Setup(SWITCHES, HALVING, "1 GiB", SMALLEST, 35008.129, 13635.871, PUBLISHED),
}


def all_reduce(setup: Setup, **system: object) -> float:
    """Its microseconds."""
    tables = {
        "network": setup.network,
        "system": {**setup.system, **system},
        "collective": {"kind": "all-reduce", "size": setup.size},
    }
    return float(simulated(tables, "analytical").time_ns) / 1000


def gain(name: str) -> Found:
    """Return the difference of the speed-up from ASTRA-sim's, with the semantics of pyxsim."""
    setup = SETUPS[name]
    ours = (all_reduce(setup), all_reduce(setup, inter_dimension="themis", **setup.themis))
    theirs = (setup.ascending_us, setup.themis_us)
    wanted, found = (ascending / themis for ascending, themis in (theirs, ours))
    cells = _cells(theirs, ours) | {"gain": f"{found:.4f}, there {wanted:.4f}"}
    return Found(100 * abs(found / wanted - 1), _picture(theirs, ours), cells)


def every_policy() -> Found:
    """The same torus with the semantics of ASTRA-sim 1: the recorded microseconds, to their last digit."""
    known: Mapping[str, tuple[float, Tables]] = {
        "ascending": (1465.477, {}),
        "round-robin": (1285.283, {"inter_dimension": "round-robin"}),
        "themis": (967.681, {"inter_dimension": "themis"}),
    }
    theirs, ours = [], []
    for wanted, system in known.values():
        setup = SETUPS["torus-4x4x4"]
        more = {"compat": "astra-sim-1", "local_memory_bandwidth": "500000 GB/s", **system}
        theirs.append(wanted)
        ours.append(all_reduce(setup, **more) + UPDATE)
    worst = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
    return Found(round(1000 * worst), _picture(theirs, ours), {**_cells(theirs, ours), "gain": ", ".join(known)})


def _cells(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, str]:
    both = {"ASTRA-sim (us)": theirs, "pyxsim (us)": ours}
    return {whose: ", ".join(f"{time:.3f}" for time in times) for whose, times in both.items()}


def _picture(theirs: Sequence[float], ours: Sequence[float]) -> Picture:
    places = list(range(len(theirs)))
    series = [Series("ASTRA-sim", places, theirs, "limit"), Series("pyxsim", places, ours, "points")]
    return Picture("ascending, then the others", "us", series)


def cases() -> Iterator[Case]:
    claim = "The speed-up of Themis over ascending dimensions equals that in ASTRA-sim, with the semantics of pyxsim"
    for name, setup in SETUPS.items():
        yield Case(f"themis/{name}", claim, setup.source, 2, "%", partial(gain, name), 3)
    claim = "With compat = astra-sim-1, all three orders of dimensions end in the same nanosecond as in ASTRA-sim 1"
    yield Case("themis/torus-4x4x4-compat", claim, MEASURED, 0, "ns", every_policy, 3)


FAMILY = ("themis", "Themis", ("ASTRA-sim (us)", "pyxsim (us)", "gain"), cases)
