"""Datasets of tables that a backend returns (`Backend.tables`): one place that stores them and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyxsim.network.protocol import BackendTable
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result
from pyxsim.results.table import Dims

TIME = Column("time", "cycles", "start of the time window", dims=("time",))
Columns = Mapping[str, Any]


def add_backend_table(
    name: str,
    text: str,
    columns: tuple[Column, ...],
    dims: Dims = ("row",),
    *,
    when: str,
    links: tuple[Column, ...] = (),
    derive: Callable[[Result, Columns], Columns | None] = lambda result, columns: {},
    attributes: Mapping[str, str] | None = None,
    json: bool = False,
) -> None:
    """Register the dataset of a table of the backend.

    Parameters
    ----------
    name, text, columns, dims, when, attributes, json
        As in `Dataset`. A table whose first dimension is `time` has one row per time window: the column `time` and the
        attribute `window_cycles` are added.
    links
        Columns that identify the links, of `links.LINK_SPECS`, for a table per link. The result has their values.
    derive
        Function of the result and the columns of the backend that returns the values of the `derived` columns; None if
        the result lacks what they depend on.
    """
    over_time = dims[0] == "time"
    described = {**({"window_cycles": "length of a window"} if over_time else {}), **(attributes or {})}

    def values(result: Result) -> Columns | None:
        table = result.backend_tables.get(name)
        derived = None if table is None else derive(result, table.columns)
        if table is None or derived is None:
            return None
        known = {column.name: getattr(result.links, column.name) for column in links if column.name != "link"}
        if links:
            known["link"] = np.arange(len(result.links))
        return {**known, **table.columns, **derived}

    spec = add(
        Dataset(
            name,
            text,
            (*((TIME,) if over_time else ()), *links, *columns),
            values,
            dims,
            when=when,
            present=lambda result: name in result.backend_tables,
            coordinates=tuple(column.name for column in links if column.name != "link"),
            attributes=described,
            attrs=lambda result: result.backend_tables[name].attrs,
            json=json,
        )
    )
    computed = {column.name for column in spec.columns if column in links or column.derived}

    @restores
    def restore(tables: StoredTables) -> dict[str, Any]:
        if name not in tables:
            return {}
        stored = tables[name]
        kept = {column: stored[column] for column in stored if column not in computed}
        attrs = {key: int(stored.attrs[key]) for key in described if key in stored.attrs}
        return {"backend_tables": {name: BackendTable(kept, attrs)}}
