"""Whether the answer of a model without packets is good enough, and how that is known. docs/compare.md has the rule."""

from __future__ import annotations

from dataclasses import dataclass

from pyxsim.results.attribution import WAITING
from pyxsim.results.comparison import GAPS, KNOWN, PACKET, PACKETS, Compared, by_traffic

SAFE, NOT_SAFE, UNKNOWN = "safe", "not safe", "cannot tell"
UNAWARE = "analytical"
AWARE = ("analytical-congestion", "flow")
MEASURED, WAITED, BEFORE = "measured", "waiting", "beforehand"
"""How a verdict is known: from the times of both, from what the packets waited, or before there are packets."""


@dataclass(frozen=True)
class Verdict:
    """Of one backend. `says`: SAFE, NOT_SAFE or UNKNOWN; `error`: by how much its time is off, as a share of that of
    the packets, as far as it is known; `why`: in words."""

    backend: str
    says: str
    by: str
    error: float | None = None
    why: str = ""


def verdicts(point: Compared, within: float) -> list[Verdict]:
    """Of each backend without packets that has a time: what was measured where there are packets, else the rule of
    what is known beforehand."""
    names = [name for name in point.others if point.cycles(name) is not None]
    if point.cycles(PACKET) is None:
        return [beforehand(point, name, within) for name in names]
    return [measured(point, name, within) for name in names]


def measured(point: Compared, backend: str, within: float) -> Verdict:
    """The time of a backend against that of the packets."""
    error = point.error(backend)
    assert error is not None
    why = missing(point) if backend == UNAWARE and error < 0 else ""
    return Verdict(backend, _says(error, within), MEASURED, error, why)


def by_waiting(point: Compared, within: float) -> Verdict | None:
    """The verdict on the model without congestion from the packets alone: what they waited is what it does not know."""
    packet = point.cycles(PACKET)
    if point.chain is None or not packet:
        return None
    error = point.chain.unaware / packet - 1
    return Verdict(UNAWARE, _says(error, within), WAITED, error, missing(point))


def beforehand(point: Compared, backend: str, within: float) -> Verdict:
    """The verdict on a backend before any packet is simulated.

    Not safe: it is faster by more than is allowed than what no packets can beat, or than all models that know of
    congestion. Safe: these models agree with it, what packets take more when they are alone is known to be little, the
    routes and lanes are those that the models think, messages hardly wait on their way (but for their own NPU), buffers
    and VCs keep the links busy; and all of that is off by no more than half of what is allowed, for each collective and
    message: the other half is for what is not known before there are packets.
    """
    cycles = point.cycles(backend)
    assert cycles is not None
    known = point.cheap
    least, why = float(point.physical), "its links cannot carry the bytes in that time"
    if known is not None and known.lanes > least:
        least, why = float(known.lanes), "the lanes of an NPU cannot carry its bytes in that time"
    if point.busiest is not None and known is not None and known.certain and point.busiest.cycles > least:
        least, why = float(point.busiest.cycles), "its links cannot carry the bytes in that time"
    if least and cycles < (1 - within) * least:
        return Verdict(backend, NOT_SAFE, BEFORE, cycles / least - 1, why)
    aware = [time for time in map(point.cycles, AWARE) if time]
    if len(aware) < len(AWARE):
        return Verdict(backend, UNKNOWN, BEFORE, why=f"only {' and '.join(AWARE)} together tell more")
    if cycles < (1 - within) * min(aware):
        why = "every model that knows of congestion says so"
        return Verdict(backend, NOT_SAFE, BEFORE, cycles / min(aware) - 1, why)
    if known is None:
        return Verdict(backend, UNKNOWN, BEFORE, why="packets cannot be run")
    waiting = 1 - (point.cycles(UNAWARE) or 0) / min(aware)  # as models that know of congestion say
    idle = 1 / known.covered - 1
    off = _apart(point, [*AWARE, backend]) + known.overhead + idle
    doubts = [
        *([] if known.certain else ["packets choose their ways"]),
        *([] if known.own else ["NPUs send over lanes that are not one for each link"]),
        *([] if waiting <= within or not known.meet else [f"messages wait on their way {waiting:.0%} of the time"]),
        *([] if idle <= within * MARGIN else [f"buffers and VCs keep links busy {known.covered:.0%} of the time"]),
        *([] if off <= within * MARGIN else [f"models, and packets that are alone, are {off:.0%} apart"]),
    ]
    if doubts:
        return Verdict(backend, UNKNOWN, BEFORE, why="; ".join(doubts))
    return Verdict(backend, SAFE, BEFORE, why=f"models, and packets that are alone, are {off:.1%} apart")


def _apart(point: Compared, backends: list[str]) -> float:
    """How far the times of some backends are apart at most: that of everything, and of each traffic."""
    whole = [float(point.cycles(name) or 0) for name in backends]
    rows = [whole, *([times.get(name, 0.0) for name in backends] for times in by_traffic(point).values())]
    return max((max(row) / min(row) - 1 for row in rows if min(row) > 0), default=0.0)


MARGIN = 0.5


def missing(point: Compared) -> str:
    """What the model without congestion does not know, as shares of the time of the packets, the largest first."""
    packet = point.cycles(PACKET)
    if point.chain is None or not packet:
        return ""
    unknown = {name: point.chain.spent.get(name, 0) / packet for name in (PACKETS, "source", *WAITING)}
    told = sorted(((share, name) for name, share in unknown.items() if share >= 0.005), reverse=True)
    return ", ".join(f"{SPENT[name]} {share:.0%}" for share, name in told)


SPENT = {
    GAPS: "endpoints and their queues",
    KNOWN: "bytes and wires",
    PACKETS: "headers, half-full flits and routers",
    "source": "behind other messages of the NPU",
    "vc": "no free virtual channel",
    "credit": "full buffers",
    "link": "links that send others",
    "arbitration": "others' turns",
    "queue": "behind packets of others",
}
"""What the time of packets was spent on, in words."""


def _says(error: float, within: float) -> str:
    return SAFE if abs(error) <= within else NOT_SAFE
