"""Who waits for whom in a network in which nothing moves any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import networkx as nx

from pyxsim.errors import DeadlockError

_SHOWN = 12


def deadlock_error(
    cycle: int,
    stuck: Iterable[Mapping[str, int]],
    link_name: Callable[[int], str],
    message_name: Callable[[int], str],
    *,
    ordered: bool = False,
) -> DeadlockError:
    """The error that names the circle of waiting VCs: each holds a packet that waits for the next.

    `stuck`: what `Engine.waiting` says of every front flit. A packet that holds an output VC waits for room in
    it; one that holds none waits for any VC of its range; if packets are `ordered`, one waits for those before it at
    the same port and for the same output.
    """
    holders = {(entry["link"], entry["vc"]): entry for entry in stuck}
    graph = nx.DiGraph()
    for place, entry in holders.items():
        numbers = [entry["holds"]] if entry["holds"] >= 0 else range(entry["low"], entry["high"])
        graph.add_edges_from((place, (entry["wants"], vc)) for vc in numbers if (entry["wants"], vc) in holders)
        if ordered:
            age = (entry["front"], entry["vc"])
            graph.add_edges_from(
                (place, other)
                for other, before in holders.items()
                if (other[0], before["wants"]) == (place[0], entry["wants"]) and (before["front"], before["vc"]) < age
            )
    try:
        circle = [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        circle = list(holders)
    names = [f"{link_name(link)} VC {vc} ({message_name(holders[link, vc]['message'])})" for link, vc in circle]
    shown = " -> ".join(names[:_SHOWN]) + (f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    what = f"deadlock in cycle {cycle}: {len(holders)} VCs hold flits and nothing can move"
    return DeadlockError(f"{what}; waiting for each other: {shown}", names)
