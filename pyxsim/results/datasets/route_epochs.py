"""Epochs of the routing tables, which follow the links that are up, and their weights (docs/faults.md)."""

from __future__ import annotations

from pyxsim.results.backend_dataset import add_backend_table
from pyxsim.results.dataset import Column

add_backend_table(
    "route_epochs",
    "One row per epoch of the routing tables.",
    (
        Column("changed", "cycles", "cycle in which the set of links that are up changed"),
        Column("used", "cycles", "first cycle in which all routers use the tables; -1: not before the end of the run"),
        Column("links_down", "1", "links that are down"),
        Column("routing", "1", "description of the routes", "text"),
        Column("transition", "1", "transition from the previous routes ([faults.md](faults.md))", "text"),
        Column("packets_rerouted", "1", "packets that waited for one link, and after the change for another"),
        Column("packets_lost", "1", "packets that were dropped before the next epoch"),
        Column("unreachable_pairs", "1", "pairs of NPUs (source, destination) without a route"),
    ),
    when="with `[network.reroute]` and links that go down",
)
add_backend_table(
    "route_weights",
    "One row per candidate link of a router with several to a destination, in each weighted epoch that was used; the "
    "first 2^20 rows.",
    (
        Column("epoch", "1", "row of `route_epochs`"),
        Column("link", "1", "number of the link"),
        Column("destination", "1", "router of the destination"),
        Column("weight", "1", "share of the router's packets to this destination", "float64"),
    ),
    when='with `select = "weighted"` in `[network.reroute]`',
)
