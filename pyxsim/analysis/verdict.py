"""The verdict whether a backend without packets is accurate enough, by the rule of docs/compare.md."""

from __future__ import annotations

from dataclasses import dataclass

from pyxsim.results.comparison import FRAMES, GAPS, KNOWN, PACKET, PACKETS, Compared, by_traffic

SAFE, NOT_SAFE, UNKNOWN = "safe", "not safe", "cannot tell"
UNAWARE = "analytical"
AWARE = ("analytical-congestion", "flow")
MEASURED, WAITED, BEFORE = "measured", "waiting", "beforehand"
"""The basis of a verdict: both times, the waiting of packets, or estimates before packets are simulated."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one backend.

    Attributes
    ----------
    says
        SAFE, NOT_SAFE or UNKNOWN.
    by
        MEASURED, WAITED or BEFORE.
    error
        Relative error of its time against that of packets; None if unknown.
    why
        The reason, in words.
    """

    backend: str
    says: str
    by: str
    error: float | None = None
    why: str = ""


def verdicts(point: Compared, within: float) -> list[Verdict]:
    """Return the verdict on each backend without packets that has a time: measured if packets were simulated."""
    names = [name for name in point.others if point.cycles(name) is not None]
    if point.cycles(PACKET) is None:
        return [beforehand(point, name, within) for name in names]
    return [measured(point, name, within) for name in names]


def measured(point: Compared, backend: str, within: float) -> Verdict:
    """Compare the time of a backend with that of packets."""
    error = point.error(backend)
    assert error is not None
    why = unmodelled(point) if backend == UNAWARE and error < 0 else ""
    return Verdict(backend, _says(error, within), MEASURED, error, why)


def by_waiting(point: Compared, within: float) -> Verdict | None:
    """Return the verdict on the model without congestion from the waiting of packets alone; None without it."""
    packet = point.cycles(PACKET)
    if point.chain is None or not packet:
        return None
    error = point.chain.unaware / packet - 1
    return Verdict(UNAWARE, _says(error, within), WAITED, error, unmodelled(point))


def beforehand(point: Compared, backend: str, within: float) -> Verdict:
    """Return the verdict on a backend before any packet is simulated.

    Not safe: its time is below a lower bound, or below all models of congestion, by more than `within`. Safe: these
    models agree with it, the overhead of uncongested packets is small, routes and lanes are those of the models,
    messages hardly wait for others, buffers and VCs keep the links busy; and the sum of these errors is at most half of
    `within` for each collective and message. The other half covers what is unknown without packets.
    """
    cycles = point.cycles(backend)
    assert cycles is not None
    estimate = point.estimate
    minimum, why = float(point.lower_bound), "its links cannot carry the bytes in that time"
    if estimate is not None and estimate.lanes > minimum:
        minimum, why = float(estimate.lanes), "the lanes of an NPU cannot carry its bytes in that time"
    if point.busiest is not None and estimate is not None and estimate.certain and point.busiest.cycles > minimum:
        minimum, why = float(point.busiest.cycles), "its links cannot carry the bytes in that time"
    if minimum and cycles < (1 - within) * minimum:
        return Verdict(backend, NOT_SAFE, BEFORE, cycles / minimum - 1, why)
    aware = [time for time in map(point.cycles, AWARE) if time]
    if len(aware) < len(AWARE):
        return Verdict(backend, UNKNOWN, BEFORE, why=f"a verdict requires both {' and '.join(AWARE)}")
    if cycles < (1 - within) * min(aware):
        why = "every model of congestion gives a longer time"
        return Verdict(backend, NOT_SAFE, BEFORE, cycles / min(aware) - 1, why)
    if estimate is None:
        return Verdict(backend, UNKNOWN, BEFORE, why="the packet backend cannot run it")
    waiting = 1 - (point.cycles(UNAWARE) or 0) / min(aware)  # in the models of congestion
    idle = 1 / estimate.covered - 1
    error = _spread(point, [*AWARE, backend]) + estimate.overhead + idle
    doubts = [
        *([] if estimate.certain else ["packets choose between routes"]),
        *([] if estimate.own else ["NPUs do not have one lane per link"]),
        *(
            []
            if waiting <= within or not estimate.meet
            else [f"messages wait in the network {waiting:.0%} of the time"]
        ),
        *(
            []
            if idle <= within * MARGIN
            else [f"buffers and VCs keep links busy only {estimate.covered:.0%} of the time"]
        ),
        *([] if error <= within * MARGIN else [f"models and uncontended packets differ by {error:.0%}"]),
    ]
    if doubts:
        return Verdict(backend, UNKNOWN, BEFORE, why="; ".join(doubts))
    return Verdict(backend, SAFE, BEFORE, why=f"models and uncontended packets differ by {error:.1%}")


def _spread(point: Compared, backends: list[str]) -> float:
    """The largest relative difference between the times of backends, of the whole run and of each traffic."""
    whole = [float(point.cycles(name) or 0) for name in backends]
    rows = [whole, *([times.get(name, 0.0) for name in backends] for times in by_traffic(point).values())]
    return max((max(row) / min(row) - 1 for row in rows if min(row) > 0), default=0.0)


MARGIN = 0.5
"""Share of the allowed error that the known errors may use."""


def unmodelled(point: Compared, backend: str = PACKET) -> str:
    """Return what the model without congestion leaves out, as shares of the time of a fabric, the largest first."""
    whole, chain = point.cycles(backend), point.chains.get(backend)
    if chain is None or not whole:
        return ""
    shares = {name: cycles / whole for name, cycles in chain.spent.items() if name not in (GAPS, KNOWN)}
    largest = sorted(((share, name) for name, share in shares.items() if share >= 0.005), reverse=True)
    return ", ".join(f"{SPENT[name]} {share:.0%}" for share, name in largest)


SPENT = {
    GAPS: "endpoints and their queues",
    KNOWN: "bytes and wires",
    PACKETS: "headers, padding and routers",
    FRAMES: "headers and store-and-forward",
    "source": "behind other messages of the NPU",
    "vc": "no free virtual channel",
    "credit": "full buffers",
    "link": "busy links",
    "arbitration": "lost arbitration",
    "queue": "head-of-line blocking",
    "fault": "faults and retry of links",
    "pause": "PFC pauses of the NPU",
    "window": "windows and credit",
    "rate": "rate limits",
    "resent": "packets sent again",
    "queues": "queues and timeouts",
    "held": "windows and queues",
}
"""Labels of the parts of the time of packets."""


def _says(error: float, within: float) -> str:
    return SAFE if abs(error) <= within else NOT_SAFE
