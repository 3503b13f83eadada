"""Tables of routes that followed the links that are up (docs/faults.md)."""

from __future__ import annotations

from typing import Any

from pyxsim.network.protocol import BackendTable
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result

NAME = "route_epochs"


def _values(result: Result) -> dict[str, Any] | None:
    table = result.backend_tables.get(NAME)
    return None if table is None else dict(table.columns)


add(
    Dataset(
        NAME,
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
        _values,
        when="with `[network.reroute]` and links that go down",
        present=lambda result: NAME in result.backend_tables,
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The table, as the backend gave it."""
    if NAME not in tables:
        return {}
    stored = tables[NAME]
    return {"backend_tables": {NAME: BackendTable({name: stored[name] for name in stored if name != "row"})}}
