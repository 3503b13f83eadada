"""Tables of routes that followed the links that are up (docs/faults.md)."""

from __future__ import annotations

from pyxsim.results.backend_dataset import add_backend_table
from pyxsim.results.dataset import Column

add_backend_table(
    "route_epochs",
    "One row per epoch of the tables of routes: from when on which routes are used.",
    (
        Column("changed", "cycles", "when the links that are up changed"),
        Column("used", "cycles", "from when on all routers use the tables; -1: not before the end of the run"),
        Column("links_down", "1", "links that are down"),
        Column("routing", "1", "the routes", "text"),
        Column("transition", "1", "how they follow those before ([faults.md](faults.md))", "text"),
        Column("packets_rerouted", "1", "packets that waited for one link, and then for another"),
        Column("packets_lost", "1", "packets lost up to the next epoch, as they arrived where they are dropped"),
        Column("unreachable_pairs", "1", "pairs of NPUs (source, destination) without a route"),
    ),
    when="with `[network.reroute]` and links that go down",
)
