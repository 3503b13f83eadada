"""Comparisons in HDF5 files, and the registry of the other formats."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from fractions import Fraction
from itertools import chain, count
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pyxsim.paths import ending
from pyxsim.results.comparison import PACKET, Chain, Compared, Comparison, Entry, PacketEstimate
from pyxsim.results.hdf5 import ENDS, TEXT, VERSIONS, check_writable, put_file, reading
from pyxsim.results.provenance import provenance, settings_sha256
from pyxsim.results.result_file import read_result, write_result

Path_ = str | os.PathLike[str]
COMPARISONS = "a file written by `pyxsim compare -o`"


def check_comparison(path: Path_) -> Path:
    """Check that a comparison can be written to `path`. Raises InputError."""
    ending(path, KINDS, "a comparison")
    return check_writable(path)


def save(comparison: Comparison, path: Path_) -> None:
    """Write .h5, .json or .md, by the extension of the name. Raises InputError if that is impossible."""
    check_comparison(path)
    put_file(path, KINDS[Path(path).suffix.lower()](comparison))


def _hdf5(comparison: Comparison) -> bytes:
    image = io.BytesIO()
    with h5py.File(image, "w", libver=VERSIONS) as file:
        summary = json.dumps(comparison.json())
        file.attrs.update({**comparison.provenance, "title": comparison.title, "comparison": summary})
        file.attrs["complete"] = np.uint8(comparison.complete)
        _times(file.create_group("compare"), comparison)
        points = file.create_group("points")
        for point, name in zip(comparison.points, group_names(point.label for point in comparison.points), strict=True):
            group = points.create_group(name)
            group.attrs.update({"label": point.label, "title": point.title, "values": json.dumps(dict(point.values))})
            group.attrs["known"] = json.dumps(_known(point))
            group.attrs.update({"experiment": point.experiment_toml, "sha256": settings_sha256(point.experiment_toml)})
            for entry in point.entries:
                inside = group.create_group(entry.backend)
                inside.attrs["reason"] = entry.reason
                if entry.result is not None:
                    write_result(inside, entry.result)
    return image.getvalue()


def _known(point: Compared) -> dict[str, Any]:
    """Fields of a point besides its results, in full precision."""
    return {
        "clock_hz": str(point.clock_hz),
        "lower_bound": str(point.lower_bound),
        "loops": sorted([kind, *both] for kind, both in point.loops.items()),
        "chains": {backend: asdict(chain) for backend, chain in point.chains.items()},
        "cheap": None if point.estimate is None else asdict(point.estimate),
    }


def read(path: Path_) -> Comparison:
    """Read an .h5 file of `save`. Raises InputError if the file is no comparison."""
    with reading(path, COMPARISONS, "not a comparison that this version of pyxsim can read") as file:
        summary = read_summary(file)
        groups = {group.attrs["label"]: group for group in file["points"].values()}
        points = [_point(row, groups[row["label"]]) for row in summary["points"]]
        made = {name: str(file.attrs[name]) for name in provenance() if name in file.attrs}
        about = (
            summary["title"],
            summary["backends"],
            points,
            summary["within"],
            summary["seed"],
            summary["complete"],
            made,
        )
        return Comparison(*about)


def read_summary(file: h5py.Group) -> dict[str, Any]:
    """Return the JSON of a comparison's file. Raises KeyError, ValueError."""
    summary: dict[str, Any] = json.loads(file.attrs["comparison"])
    for point in summary["points"]:
        if "physical_ns" in point:  # the name of earlier versions
            point["lower_bound_ns"] = point.pop("physical_ns")
    return summary


def _point(row: dict[str, Any], group: h5py.Group) -> Compared:
    known = json.loads(group.attrs["known"])
    results = {name: read_result(inside) for name, inside in group.items() if "record" in inside.attrs}
    entries = [
        Entry(entry["backend"], results.get(entry["backend"]), entry["reason"] or "") for entry in row["backends"]
    ]
    experiment = str(group.attrs["experiment"])
    return Compared(
        row["label"],
        row["title"],
        Fraction(known["clock_hz"]),
        Fraction(known.get("lower_bound") or known["physical"]),  # "physical": in earlier versions
        entries,
        row["values"],
        row["variant"],
        experiment,
        {kind: (needed, flits) for kind, needed, flits in known["loops"]},
        {backend: Chain(**chain) for backend, chain in _chains(known).items()},
        None if known["cheap"] is None else PacketEstimate(**known["cheap"]),
    )


def _chains(known: dict[str, Any]) -> dict[str, Any]:
    """The chains by backend; files of earlier versions have that of packets, or None."""
    chains: dict[str, Any] = known["chains"] if "chains" in known else {PACKET: known["chain"]}
    return {backend: chain for backend, chain in chains.items() if chain is not None}


def _times(group: h5py.Group, comparison: Comparison) -> None:
    """Points x backends: times, and the lower bound."""
    labels = np.array([point.label for point in comparison.points], dtype=object)
    group.create_dataset("point", data=labels, dtype=TEXT).make_scale("point")
    names = np.array(comparison.backends, dtype=object)
    group.create_dataset("backend", data=names, dtype=TEXT).make_scale("backend")
    rows = [[_ns(point, point.cycles(name)) for name in comparison.backends] for point in comparison.points]
    times = np.array(rows, dtype=np.float64).reshape(len(labels), len(names))
    _column(group, "time_ns", times, "simulated time; NaN: the run failed", ("point", "backend"))
    bounds = np.array([_ns(point, point.lower_bound) for point in comparison.points])
    _column(group, "lower_bound_ns", bounds, "lower bound of the time on these links", ("point",))


def _ns(point: Any, cycles: Any) -> float:
    return float("nan") if cycles is None else float(point.ns(cycles))


def _column(group: h5py.Group, name: str, data: Any, text: str, dims: tuple[str, ...]) -> None:
    dataset = group.create_dataset(name, data=data)
    dataset.attrs.update({"units": "1e-9 second", "long_name": text})
    for axis, dim in enumerate(dims):
        dataset.dims[axis].attach_scale(group[dim])


def group_names(labels: Iterable[str]) -> list[str]:
    """Make names of groups from labels: slashes, which separate groups, are replaced, duplicates numbered."""
    names: dict[str, None] = {}
    for label in labels:
        plain = label.replace("/", "\u2215").strip(".") or "point"
        numbered = (f"{plain} ({number})" for number in count(2))
        names[next(name for name in chain([plain], numbered) if name not in names)] = None
    return list(names)


KINDS: dict[str, Callable[[Comparison], bytes]] = dict.fromkeys(ENDS, _hdf5)
"""Writers by file extension; `pyxsim.reports` adds .json and .md."""
Comparison.views["save"] = save
