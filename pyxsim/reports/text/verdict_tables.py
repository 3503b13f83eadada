"""Why packets waited at links: tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyxsim.reports.text.facts import percent
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.attribution import NO_TRAFFIC, PARTS, HotLink
from pyxsim.results.comparison import PACKET, Compared

COUNT = 10
LOOP = "round trip"
REASONS = {
    "credit": "the downstream buffer was full",
    LOOP: "credits were on their way back",
    "vc": "no downstream virtual channel was free",
    "link": "the link was busy with other messages",
    "arbitration": "other packets won arbitration",
    "queue": "they were behind other packets in the same buffer",
    "fault": "the link was down or slowed, or sent flits again",
}
"""Reasons why packets wait, by cause."""
SHORT = {
    "credit": "buffer full",
    LOOP: "credits on their way",
    "vc": "no free VC",
    "link": "link in use",
    "arbitration": "lost arbitration",
    "queue": "head of line",
    "fault": "fault",
}
LITTLE = 0.05  # share of the waiting at a link below which a cause is not mentioned


def hottest(point: Compared, count: int = COUNT) -> list[HotLink]:
    """Return the links and lanes at which the packets of a point waited longest."""
    result = point.result(PACKET)
    return result.hot_links(count) if result is not None else []


def causes(point: Compared, link: HotLink) -> dict[str, int]:
    """Return cycles by cause, largest first; waiting for credits without a culprit counts as their round trip."""
    cycles_by_cause = dict(link.causes)
    result = point.result(PACKET)
    assert result is not None
    assert result.attribution is not None
    waits = result.attribution.waits
    credit = PARTS.index("credit")
    loop = (waits["link"] == link.link) & (waits["cause"] == credit) & (waits["culprit"] == -1)
    if cycles := int(waits["cycles"][loop].sum()):
        cycles_by_cause["credit"] -= cycles
        cycles_by_cause[LOOP] = cycles
    return {name: cycles for name, cycles in sorted(cycles_by_cause.items(), key=lambda each: -each[1]) if cycles}


def total_waiting(point: Compared) -> int:
    """Return the cycles that all packets of a point waited in the network."""
    result = point.result(PACKET)
    if result is None or result.attribution is None:
        return 0
    return int(result.attribution.waits["cycles"].sum())


def sheet(point: Compared) -> Sheet:
    """Return a table with a row per link where packets waited longest."""
    whole = max(1, total_waiting(point))
    rows = [
        [
            f"{link.name} (+{len(link.like)})" if link.like else link.name,
            "-" if np.isnan(link.busy) else percent(link.busy),
            number(link.waiting, 3),
            percent(link.cycles * (1 + len(link.like)) / whole),
            _shares({SHORT[name]: cycles for name, cycles in causes(point, link).items()}),
            _shares(link.victims),
            _shares(link.culprits),
        ]
        for link in hottest(point)
    ]
    head = ("waited at (+: links like it)", "busy", "at a time", "of all", "because", "victims", "for")
    return Sheet(head, rows, ("because", "victims", "for"))


def _shares(cycles: Mapping[str, int], most: int = 2) -> str:
    """The largest entries with their percentages: "buffer full 60, head of line 20"; a single one without."""
    if len(cycles) == 1:
        return next(iter(cycles))
    whole = sum(cycles.values())
    return ", ".join(f"{name} {100 * waited / whole:.0f}" for name, waited in list(cycles.items())[:most])


def sentence(point: Compared, link: HotLink) -> str:
    """Return a sentence about the waiting at a link."""
    parts = []
    for name, cycles in causes(point, link).items():
        share = cycles / link.cycles
        if share >= LITTLE:
            parts.append(f"{share:.0%} because {REASONS[name]}{_needed(point, link) if name == LOOP else ''}")
    busy = "" if np.isnan(link.busy) else f" (busy {percent(link.busy)} of the time)"
    culprits = _who({name: cycles for name, cycles in link.culprits.items() if name != NO_TRAFFIC})
    of = f" because of {culprits}" if culprits else ""
    return f"{link.title}{busy}: packets of {_who(link.victims)} waited {link.cycles:,} cycles{of}: {'; '.join(parts)}."


def link_json(point: Compared, link: HotLink) -> dict[str, Any]:
    """Return the waiting at a link as JSON."""
    return {
        "link": link.name,
        "busy": None if np.isnan(link.busy) else link.busy,
        "like": len(link.like),
        "cycles": link.cycles,
        "waiting": link.waiting,
        "share": link.cycles * (1 + len(link.like)) / max(1, total_waiting(point)),
        "causes": causes(point, link),
        "victims": link.victims,
        "culprits": link.culprits,
        "why": sentence(point, link),
    }


def _needed(point: Compared, link: HotLink) -> str:
    result = point.result(PACKET)
    if result is None or link.link >= len(result.links):
        return ""
    needed, flits = point.loops.get(int(result.links.dim[link.link]), (0, 0))
    return f" (its VCs hold {flits} flits, {needed} cover the round trip)" if needed > flits else ""


def _who(cycles: Mapping[str, int]) -> str:
    whole = sum(cycles.values())
    names = [name for name, cycle in cycles.items() if cycle >= LITTLE * whole]
    return " and ".join(names[:3])
