"""How credits returned at each link and VC (docs/credits.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyxsim.network.protocol import BackendTable
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.datasets.links import LINK, LINK_SPECS, WINDOW
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result

WHEN = "with `[network.credits]`"
PLACES = LINK_SPECS[:2]
VC = (*LINK, "vc")
TABLES = ("link_credits", "link_credit_windows", "vc_credits")
TEXTS = {
    "messages": ("1", "messages with credits of the link, on the link in the opposite direction"),
    "riding": ("flits", "flits of the opposite direction that carried credits of the link"),
    "returned": ("flits", "credits that started back, lost ones that were sent again included"),
    "lost": ("flits", "credits destroyed on their way back"),
}
SHARE = ("1", "share of the time of the link that messages with credits of the opposite direction took")


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
        "link_credits",
        "How the credits of each link returned, over the whole run.",
        (
            *PLACES,
            *_columns(LINK),
            Column("restored", "flits", "lost credits that were sent again", dims=LINK),
            Column("credits_per_message", "flits", "credits per message or flit that carried some", "float64", LINK),
            Column("share", *SHARE, "float64", LINK),
        ),
        _values("link_credits"),
        LINK,
        when=WHEN,
        present=_present("link_credits"),
        coordinates=("name",),
    )
)
add(
    Dataset(
        "link_credit_windows",
        "How the credits of each link returned in each time window.",
        (
            Column("time", "cycles", "start of the time window", dims=("time",)),
            *PLACES,
            *_columns(WINDOW),
            Column("share", *SHARE, "float64", WINDOW),
        ),
        _values("link_credit_windows"),
        WINDOW,
        when=WHEN,
        present=_present("link_credit_windows"),
        coordinates=("name",),
        attributes={"window_cycles": "length of a window"},
        attrs=_attrs("link_credit_windows"),
    )
)
add(
    Dataset(
        "vc_credits",
        "How the credits of each VC of each link returned, over the whole run.",
        (
            *PLACES,
            Column("vc", "1", "number of the VC on its link", dims=("vc",)),
            Column("messages", "1", "messages and flits that carried credits of the VC", dims=VC),
            Column("returned", "flits", "credits that started back", dims=VC),
            Column("lost", "flits", "credits destroyed on their way back", dims=VC),
            Column("restored", "flits", "lost credits that were sent again", dims=VC),
            Column("without_credits", "cycles", "time in which the sender had no credit of the VC", dims=VC),
        ),
        _values("vc_credits"),
        VC,
        when=WHEN,
        present=_present("vc_credits"),
        coordinates=("name",),
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """All tables, as the backend gave them."""
    restored = {}
    for name in set(TABLES) & set(tables):
        stored = tables[name]
        columns = {column: stored[column] for column in stored if column not in ("link", "name")}
        attrs = {key: int(stored.attrs[key]) for key in ("window_cycles",) if key in stored.attrs}
        restored[name] = BackendTable(columns, attrs)
    return {"backend_tables": restored}
