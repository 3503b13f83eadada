"""The tables of routes that follow the links that are up: what a run will do (docs/faults.md)."""

from __future__ import annotations

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks
from pyxsim.units import plural

_NAMES = ("cycle", "links_down", "routing", "transition", "unreachable_pairs")


@checks.register("rerouting", order=35)
def rerouting(prepared: Prepared | PreparedTraffic) -> Finding | None:
    """List the epochs of the tables of routes: their times, routes, and how each follows the one before."""
    rows = [] if prepared.mode == "open" else prepared.network.planned_routes()
    if not rows:
        return None
    texts = []
    for cycle, down, routing, transition, apart in rows:
        without = f", {plural(apart, 'pair')} of NPUs without a route" if apart else ""
        text = f"{plural(down, 'link')} down, {routing}, proved free of deadlock, {_how(transition)}{without}"
        texts.append(f"from cycle {cycle:,}: {text}")
    lines = [("rerouting" if not number else "", text) for number, text in enumerate(texts)]
    return Finding(lines, {"rerouting": [dict(zip(_NAMES, row, strict=True)) for row in rows]})


def _how(transition: str) -> str:
    if transition == "at once":
        return "also with the routes before: used at once"
    return "used when the network is empty" if transition == "after draining" else "from the beginning"
