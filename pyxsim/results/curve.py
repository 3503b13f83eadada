"""Load-latency curves: the same traffic at several loads."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pyxsim.paths import ending
from pyxsim.results.hdf5 import ENDS, VERSIONS, check_writable, put_file, reading
from pyxsim.results.provenance import provenance, settings_sha256
from pyxsim.results.sweep import WARNINGS, WARNINGS_TEXT, warning_lines
from pyxsim.results.table import Framed, Table, Variable
from pyxsim.results.traffic import TRAFFIC_KEYS, unit_of
from pyxsim.results.views import Viewed
from pyxsim.textfile import csv_text

KINDS = (*ENDS, ".json", ".csv")


@dataclass(eq=False, repr=False)
class Curve(Framed, Viewed):
    """A load-latency curve.

    Attributes
    ----------
    points
        One dict per load in ascending order, with the keys of a traffic summary and `warnings`; a failed load has
        `offered_load` and `error` only.
    throughput_bound
        Load at which the busiest link or lane is saturated.
    title, experiment_toml, seed, complete, provenance
        As of a Result.
    """

    title: str
    points: list[dict[str, Any]]
    throughput_bound: float | None = None
    experiment_toml: str = ""
    seed: int = 1
    complete: bool = True
    provenance: dict[str, str] = field(default_factory=provenance)

    def __post_init__(self) -> None:
        self.points = sorted(self.points, key=lambda point: float(point["offered_load"]))

    def __repr__(self) -> str:
        return f"Curve({self.title}: {len(self.points)} loads)"

    @property
    def saturation(self) -> tuple[float | None, float | None]:
        """The highest unsaturated load below all saturated ones, and the lowest saturated load; None without one."""
        known = [point for point in self.points if "error" not in point]
        saturated = [float(point["offered_load"]) for point in known if point["saturated"]]
        high = min(saturated, default=None)
        stable = [float(point["offered_load"]) for point in known if not point["saturated"]]
        return max((load for load in stable if high is None or load < high), default=None), high

    @property
    def warnings(self) -> list[str]:
        """Each warning once, with the loads that have it unless all loads do."""
        return warning_lines([(f"load {point['offered_load']:g}", point.get(WARNINGS, ())) for point in self._run])

    @property
    def _run(self) -> list[dict[str, Any]]:
        return [point for point in self.points if "error" not in point]

    def column(self, key: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a number of every point; NaN if a point does not have it."""
        return np.array([_number(point.get(key)) for point in self.points], dtype=np.float64)

    def table(self) -> Table:
        """Return a row per load, with the numbers that any load has."""
        dims = ("offered_load",)
        known = {key: self.column(key) for key in TRAFFIC_KEYS}
        variables = {
            key: Variable(dims, values, {"units": unit_of(key), "long_name": TRAFFIC_KEYS[key]})
            for key, values in known.items()
            if key == "offered_load" or np.isfinite(values).any()
        }
        warnings = np.array(["; ".join(point.get(WARNINGS, ())) for point in self.points], dtype=object)
        variables[WARNINGS] = Variable(dims, warnings, {"long_name": WARNINGS_TEXT})
        errors = np.array([str(point.get("error", "")) for point in self.points], dtype=object)
        if errors.any():
            variables["error"] = Variable(dims, errors, {"long_name": "reason why the simulation of the load failed"})
        bound = {} if self.throughput_bound is None else {"throughput_bound": self.throughput_bound}
        return Table(variables, attrs={"title": self.title, **bound}, name="load-latency curve")

    def json(self) -> dict[str, Any]:
        """Return the curve as one JSON object."""
        low, high = self.saturation
        return {
            "points": self.points,
            "throughput_bound": self.throughput_bound,
            "saturation_low": low,
            "saturation_high": high,
            "warnings": self.warnings,
            "seed": self.seed,
            "complete": self.complete,
            "version": self.provenance.get("version", ""),
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot latency over load with its intervals; takes and returns matplotlib Axes."""
        return self.view("plot", ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .h5, .json or .csv, by the extension of the name. Raises InputError if that is impossible."""
        target = check_curve(path)
        put_file(path, {".json": self._json, ".csv": self._csv}.get(target.suffix.lower(), self._hdf5)())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Curve:
        """Read an .h5 file of `save`; failed loads have no numbers. Raises InputError."""
        allowed = "a file written by `pyxsim curve -o`"
        with reading(path, allowed, "not a readable load-latency curve") as file:
            return _read(file)

    def _json(self) -> bytes:
        whole = {**self.json(), "title": self.title, "experiment": self.experiment_toml, **self.provenance}
        return (json.dumps(whole, indent=1) + "\n").encode()

    def _csv(self) -> bytes:
        out = io.StringIO()
        known = (*TRAFFIC_KEYS, "error")
        keys = [key for key in known if any(_plain(point.get(key)) is not None for point in self.points)]
        keys.insert(len(keys) - ("error" in keys), WARNINGS)
        writer = csv.DictWriter(out, keys, extrasaction="ignore", restval="", lineterminator="\n")
        writer.writeheader()
        rows = [{**point, WARNINGS: "; ".join(point.get(WARNINGS, ()))} for point in self.points]
        writer.writerows({key: _cell(row.get(key)) for key in keys} for row in rows)
        return out.getvalue().encode()

    def _hdf5(self) -> bytes:
        image = io.BytesIO()
        with h5py.File(image, "w", libver=VERSIONS) as file:
            file.attrs.update({**self.provenance, "title": self.title, "experiment": self.experiment_toml})
            file.attrs.update({"sha256": settings_sha256(self.experiment_toml), "complete": np.uint8(self.complete)})
            group = file.create_group("curve")
            loads = group.create_dataset("offered_load", data=self.column("offered_load"))
            loads.attrs.update({"units": "flits/cycle", "long_name": TRAFFIC_KEYS["offered_load"]})
            loads.make_scale("offered_load")
            for key, text in TRAFFIC_KEYS.items():
                values = self.column(key)
                if key != "offered_load" and len(values) and np.isfinite(values).any():
                    group.create_dataset(key, data=values).dims[0].attach_scale(loads)
                    group[key].attrs["long_name"] = text
            texts = ["\n".join(point.get(WARNINGS, ())) for point in self.points]
            warnings = group.create_dataset(WARNINGS, data=texts, dtype=h5py.string_dtype())
            warnings.dims[0].attach_scale(loads)
            warnings.attrs["long_name"] = f"{WARNINGS_TEXT}, one per line"
            group.attrs["throughput_bound"] = math.nan if self.throughput_bound is None else self.throughput_bound
        return image.getvalue()


def _read(file: h5py.File) -> Curve:
    columns = {key: dataset[()] for key, dataset in file["curve"].items() if key in TRAFFIC_KEYS}
    bound = float(file["curve"].attrs["throughput_bound"])
    rows = [
        {key: float(values[i]) for key, values in columns.items() if values[i] == values[i]}
        for i in range(len(columns["offered_load"]))
    ]
    points = [
        {**row, "saturated": bool(row["saturated"])} if "saturated" in row else {**row, "error": "failed"}
        for row in rows
    ]
    if WARNINGS in file["curve"]:
        for point, text in zip(points, file["curve"][WARNINGS].asstr()[()], strict=True):
            point.update({} if "error" in point else {WARNINGS: text.splitlines()})
    return Curve(
        str(file.attrs["title"]),
        points,
        None if math.isnan(bound) else bound,
        str(file.attrs["experiment"]),
        complete=bool(file.attrs["complete"]),
        provenance={key: str(file.attrs[key]) for key in provenance() if key in file.attrs},
    )


def check_curve(path: str | os.PathLike[str]) -> Path:
    """Check that a curve can be written to `path`. Raises InputError."""
    ending(path, KINDS, "a curve")
    return check_writable(path)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else None


def _cell(value: Any) -> Any:
    return csv_text(value) if isinstance(value, str) else _plain(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
