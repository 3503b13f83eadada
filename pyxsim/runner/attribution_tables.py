"""Convert the attribution records of a backend to the tables of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import MOST_TAGS
from pyxsim.network.protocol import AttributionRecords, Backend
from pyxsim.results.attribution import BLAME, LATENCY, MOST_ROWS, STAYS, Attribution

OTHERS = "others"


def attribution(network: Backend, traffic: Sequence[str]) -> Attribution | None:
    """Return the attribution of messages with the tags of this traffic; None without `output.attribution`."""
    records = network.attribution()
    if records is None:
        return None
    sent, splits = records.messages(), records.splits()
    arrived = np.flatnonzero(sent["arrived"] >= 0)
    names = traffic_names(traffic)
    tags, parts = sent["tag"][arrived], splits[arrived]
    columns = [arrived, *(sent[name][arrived] for name in ("src", "dst", "bytes")), tags]
    columns += [*(sent[name][arrived] for name in ("sent", "arrived")), *parts.T]
    left_out: dict[str, int] = {}
    return Attribution(
        traffic_names=names,
        link_names=network.link_names(),
        messages=np.bincount(tags, minlength=len(names)),
        parts=_added(tags, parts, len(names)),
        blame=_blame(records),
        latency=_bounded("latency", dict(zip(LATENCY, columns, strict=True)), left_out),
        stays=_bounded("stays", _stays(records), left_out),
        left_out=left_out,
    )


def of_open_traffic(
    network: Backend, classes: Sequence[str], messages: IntArray, parts: IntArray
) -> Attribution | None:
    """Return the attribution of open traffic; `messages`, `parts`: int64[classes], int64[classes, 9] of the
    measurement."""
    records = network.attribution()
    if records is None:
        return None
    names = traffic_names(classes)
    tags = np.minimum(np.arange(len(classes)), MOST_TAGS - 1)
    left_out: dict[str, int] = {}
    return Attribution(
        traffic_names=names,
        link_names=network.link_names(),
        messages=_added(tags, messages, len(names)),
        parts=_added(tags, parts, len(names)),
        blame=_blame(records),
        stays=_bounded("stays", _stays(records), left_out),
        left_out=left_out,
    )


def traffic_names(tags: Sequence[str]) -> list[str]:
    """Return unique names of the engine's tags: "all-reduce", "all-reduce 2"; tags beyond MOST_TAGS share one."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for name in tags[: MOST_TAGS - 1] if len(tags) > MOST_TAGS else tags:
        unique = name
        while unique in names:
            seen[name] += 1
            unique = f"{name} {seen[name] + 1}"
        names.append(unique)
    return [*names, OTHERS] if len(tags) > MOST_TAGS else names


def notes(table_set: Attribution | None) -> Iterator[str]:
    """Yield a warning for each truncated table."""
    for name, missing in table_set.left_out.items() if table_set else ():
        yield f"output.attribution: the table /{name} is limited to {MOST_ROWS:,} rows; {missing:,} more are missing"


def _blame(records: AttributionRecords) -> dict[str, IntArray]:
    waits = records.waits()
    return {name: np.asarray(waits[name], np.int64) for name in BLAME}


def _stays(records: AttributionRecords) -> dict[str, IntArray]:
    """The columns of stays: packets in the order of arrival, the stays of each in the order of its route."""
    rows = records.stays() if records.level > 1 else np.zeros((0, len(STAYS)), np.int64)
    return dict(zip(STAYS, rows.T, strict=True))


def _bounded(name: str, table: dict[str, IntArray], left_out: dict[str, int]) -> dict[str, IntArray]:
    """The first MOST_ROWS rows of a table; `left_out` gets the number of the others."""
    count = len(next(iter(table.values())))
    if count > MOST_ROWS:
        left_out[name] = count - MOST_ROWS
    return {column: values[:MOST_ROWS] for column, values in table.items()}


def _added(keys: IntArray, values: IntArray, count: int) -> IntArray:
    """The sum of the rows of each key, int64[count, ...]."""
    sums = np.zeros((count, *values.shape[1:]), np.int64)
    np.add.at(sums, keys, values)
    return sums
