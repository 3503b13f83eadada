"""The energy of a run: by kind of part, and of each link, router and NPU."""

from __future__ import annotations

from typing import Any

from pyxsim.results.dataset import Column, Dataset, add, add_rows
from pyxsim.results.result import Result

WHEN = "with `[cost]`"

_JOULES = (
    Column("dynamic", "joules", "energy of traffic or work, typical value", "float64"),
    Column("idle", "joules", "energy that is taken without traffic or work, too, typical value", "float64"),
    Column("low", "joules", "sum of both, low value", "float64"),
    Column("energy", "joules", "sum of both, typical value", "float64"),
    Column("high", "joules", "sum of both, high value", "float64"),
)

add_rows(
    "energy",
    "The energy of each kind of parts, without that of the data centre.",
    (
        Column("part", "", "links, lanes, routers, npus, hosts or memory", "text"),
        Column("count", "1", "number of parts"),
        *_JOULES,
    ),
    when=WHEN,
    coordinates=("part",),
)


def _of_parts(name: str, text: str, dim: str, *columns: Column) -> None:
    def values(result: Result) -> Any:
        return getattr(result, name)

    add(
        Dataset(
            name,
            text,
            (*columns, *_JOULES),
            values,
            (dim,),
            when=WHEN,
            present=lambda result: len(values(result)) > 0,
            coordinates=(dim,),
            restored="columns",
        )
    )


_of_parts(
    "energy_links",
    "The energy of each link, in the order of `/links_total`.",
    "link",
    Column("link", "1", "number of the link"),
    Column("bits", "bits", "bits sent over the link, whole flits"),
)
_of_parts(
    "energy_routers",
    "The energy of each router and switch.",
    "router",
    Column("router", "1", "number of the router; -1: what NPUs inject by lanes, of all routers together"),
    Column("flits", "flits", "flits that came in by links; at -1: by lanes"),
)
_of_parts(
    "energy_npus",
    "The energy of each NPU.",
    "npu",
    Column("npu", "1", "number of the NPU"),
    Column("compute", "cycles", "cycles in which the NPU computed"),
)
