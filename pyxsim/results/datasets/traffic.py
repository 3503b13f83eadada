"""Measurements of open traffic."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result
from pyxsim.results.traffic import TRAFFIC_KEYS, Traffic, unit_of

BATCH, CLASS = ("batch",), ("class",)


def _values(result: Result) -> dict[str, Any] | None:
    traffic = result.traffic
    if traffic is None:
        return None
    return {
        **{f"batch_{key}": np.asarray(values) for key, values in traffic.batches.items()},
        "npu": np.arange(len(traffic.accepted)),
        "accepted": traffic.accepted,
        **{f"class_{key}": values for key, values in traffic.classes.items()},
        "latency": traffic.latency,
        "packets": traffic.packets,
    }


def _attrs(result: Result) -> dict[str, Any]:
    summary = {key: value for key, value in result.traffic.summary.items() if key != "classes"}  # type: ignore[union-attr]
    plain = {key: np.nan if value is None else value for key, value in summary.items()}
    record = {"summary": result.traffic.summary, "notes": result.traffic.notes}  # type: ignore[union-attr]
    return {
        **{key: np.uint8(value) if isinstance(value, bool) else value for key, value in plain.items()},
        "record": json.dumps(record),
    }


def _batch(name: str, units: str, text: str) -> Column:
    return Column(f"batch_{name}", units, text, "number", BATCH, optional=True)


def _class(name: str, units: str, text: str, dtype: str = "number") -> Column:
    return Column(f"class_{name}", units, text, dtype, CLASS, optional=True)


add(
    Dataset(
        "traffic",
        "Batches of the measurement, accepted load of each NPU, and each class with a histogram of its latency.",
        (
            Column("batch", "1", "number of the batch", dims=BATCH),
            _batch("start", "cycles", "first cycle of the batch"),
            _batch("generated", "flits/cycle", "flits created per node and cycle"),
            _batch("accepted", "flits/cycle", "flits delivered per node and cycle"),
            _batch("packets", "1", "packets created in the batch that were delivered"),
            _batch("latency", "cycles", "mean latency of these packets"),
            _batch("backlog", "flits", "flits created and not yet delivered at the end of the batch"),
            Column("npu", "1", "NPU", "int32", ("npu",)),
            Column("accepted", "flits/cycle", "flits per cycle delivered to the NPU", "float64", ("npu",)),
            Column("class", "1", "number of the class", dims=CLASS),
            _class("name", "", "name of the class", "text"),
            _class("virtual_network", "1", "virtual network of the class"),
            _class("priority", "1", "priority of the class"),
            *(_class(key, unit_of(key), text) for key, text in TRAFFIC_KEYS.items()),
            Column("latency", "cycles", "distinct packet latencies", dims=("latency",)),
            Column("packets", "1", "measured packets of the class with this latency", optional=True),
        ),
        _values,
        ("class", "latency"),
        when="with open traffic",
        present=lambda result: result.traffic,
        coordinates=("class_name",),
        attributes={"record": "the JSON keys of open traffic and the notes, as JSON"},
        attrs=_attrs,
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """Measurements of open traffic."""
    if "traffic" not in tables:
        return {}
    table = tables["traffic"]
    record = json.loads(table.attrs["record"])

    def columns(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): table[name] for name in table if name.startswith(prefix)}

    traffic = Traffic(
        summary=record["summary"],
        classes={name: values.tolist() for name, values in columns("class_").items()},
        batches=columns("batch_"),
        accepted=table["accepted"],
        latency=table["latency"],
        packets=table["packets"],
        notes=record["notes"],
    )
    return {"traffic": traffic}
