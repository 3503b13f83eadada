"""What faults and retry did at each link (docs/faults.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyxsim.network.protocol import BackendTable
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.datasets.links import LINK, LINK_SPECS, WINDOW
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result

WHEN = "with faults that lose flits, bit errors, or `[network.retry]`"
PLACES = LINK_SPECS[:2]
TEXTS = {
    "errors": ("flits", "flits that arrived with a wrong bit"),
    "flits_lost": ("flits", "flits that were on the wire as the link went down, and were lost"),
    "resent": ("flits", "flits sent again"),
    "timeouts": ("1", "times at which no answer came in time"),
    "stall_replay": ("cycles", "cycles in which a flit waited because the replay buffer was full"),
}
MEAN = Column("replay_mean", "flits", "flits in the replay buffer on average over time", "float64")


def _present(name: str) -> Callable[[Result], bool]:
    return lambda result: name in result.backend_tables


def _values(name: str) -> Callable[[Result], dict[str, Any] | None]:
    def values(result: Result) -> dict[str, Any] | None:
        table = result.backend_tables.get(name)
        if table is None:
            return None
        return {"link": np.arange(len(result.links)), "name": result.links.name, **table.columns}

    return values


def _attrs(name: str) -> Callable[[Result], Mapping[str, Any]]:
    return lambda result: result.backend_tables[name].attrs


def _columns(dims: tuple[str, ...]) -> list[Column]:
    return [Column(name, units, text, dims=dims) for name, (units, text) in TEXTS.items()]


add(
    Dataset(
        "link_faults",
        "Errors, losses and retries of each link over the whole run.",
        (
            *PLACES,
            *_columns(LINK),
            Column("replay_max", "flits", "most flits in the replay buffer", dims=LINK),
            Column(MEAN.name, MEAN.units, MEAN.text, MEAN.dtype, LINK),
        ),
        _values("link_faults"),
        LINK,
        when=WHEN,
        present=_present("link_faults"),
        coordinates=("name",),
    )
)
add(
    Dataset(
        "link_fault_windows",
        "Errors, losses and retries of each link in each time window.",
        (
            Column("time", "cycles", "start of the time window", dims=("time",)),
            *PLACES,
            *_columns(WINDOW),
            Column(MEAN.name, MEAN.units, MEAN.text, MEAN.dtype, WINDOW),
        ),
        _values("link_fault_windows"),
        WINDOW,
        when=WHEN,
        present=_present("link_fault_windows"),
        coordinates=("name",),
        attributes={"window_cycles": "length of a window"},
        attrs=_attrs("link_fault_windows"),
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """Both tables, as the backend gave them."""
    restored = {}
    for name in {"link_faults", "link_fault_windows"} & set(tables):
        stored = tables[name]
        columns = {column: stored[column] for column in stored if column not in ("link", "name")}
        attrs = {key: int(stored.attrs[key]) for key in ("window_cycles",) if key in stored.attrs}
        restored[name] = BackendTable(columns, attrs)
    return {"backend_tables": restored}
