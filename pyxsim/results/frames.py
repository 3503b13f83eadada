"""The tables of a result by name: `result.frames.chunks`, `result.frames["chunks"]`; of comparisons and of sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.results.comparison import PACKET, Compared, Comparison
from pyxsim.results.layout import TABLES, table_of, tables_of
from pyxsim.results.sweep import Sweep
from pyxsim.results.table import Table, Variable, html_table, needed
from pyxsim.results.traffic import TRAFFIC_KEYS, unit_of

if TYPE_CHECKING:
    import xarray as xr

    from pyxsim.results.result import Result


class Frames(Mapping[str, Table]):
    """What there is to know of a result: those tables that have something in them, by the names of the HDF5 file.

    Also as attributes: `result.frames.links`.
    """

    def __init__(self, result: Result) -> None:
        self._result = result

    def __getitem__(self, name: str) -> Table:
        return table_of(self._result, name)

    def __getattr__(self, name: str) -> Table:
        if name not in TABLES:
            raise AttributeError(f"a result has no table '{name}'")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tables_of(self._result))

    def __len__(self) -> int:
        return len(tables_of(self._result))

    def __contains__(self, name: object) -> bool:
        return name in tables_of(self._result)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})

    def __repr__(self) -> str:
        return f"Frames({', '.join(self)})"

    def _repr_html_(self) -> str:
        rows = []
        for name, table in self.items():
            sizes = " \u00d7 ".join(f"{size:,} {dim}" for dim, size in table.shape.items())
            rows.append((name, sizes, ", ".join(table.variables)))
        return html_table(("table", "rows", "columns"), rows, texts=range(3))

    def to_xarray(self) -> xr.DataTree:
        """All of them, as groups of a DataTree: the whole file, without a file."""
        tree: xr.DataTree = needed("xarray").DataTree.from_dict(
            {name: table.to_xarray() for name, table in self.items()}
        )
        return tree


def comparison_table(comparison: Comparison) -> Table:
    """Points x backends."""
    points, backends = comparison.points, list(comparison.backends)
    both = ("point", "backend")

    def grid(tell: Callable[[Compared, str], Any]) -> NDArray[np.float64]:
        rows = [[_number(tell(point, backend)) for backend in backends] for point in points]
        return np.array(rows, np.float64).reshape(len(points), len(backends))

    def time(point: Compared, backend: str) -> float | None:
        cycles = point.cycles(backend)
        return None if cycles is None else point.ns(cycles)

    def error(point: Compared, backend: str) -> float | None:
        return point.error(backend) if PACKET in backends else None

    def to_physical(point: Compared, backend: str) -> float | None:
        cycles = point.cycles(backend)
        return float(cycles / point.physical) if cycles is not None and point.physical else None

    def cpu(point: Compared, backend: str) -> float | None:
        result = point.result(backend)
        return None if result is None else result.sim_cpu_s

    physical = np.array([point.ns(point.physical) for point in points], np.float64)
    swept = list(dict.fromkeys(key for point in points for key in point.values))
    variables = {
        "point": Variable(("point",), _texts([point.label for point in points]), {"long_name": "label of the point"}),
        "backend": Variable(("backend",), _texts(backends), {"long_name": "model of the network"}),
        **{key: Variable(("point",), column([p.values.get(key) for p in points]), {}) for key in swept},
        "physical_ns": _about(("point",), physical, "time that no machine with these links can beat"),
        "time_ns": _about(both, grid(time), "simulated time"),
        "error": _about(both, grid(error), "by how much the time differs from that of packets, of the latter"),
        "to_physical": _about(both, grid(to_physical), "time over that which no machine can beat"),
        "sim_cpu_s": _about(both, grid(cpu), "CPU time of the simulation alone"),
    }
    return Table(variables, (*swept, "physical_ns"), {"title": comparison.title}, "comparison")


def sweep_table(sweep: Sweep) -> Table:
    """A row for each point of a sweep."""
    columns = {name: column(values) for name, values in sweep.columns().items()}
    dims = ("point",)
    number = Variable(dims, np.arange(len(sweep), dtype=np.int64), {"units": "1", "long_name": "number of the point"})
    variables = {name: Variable(dims, values, _known(name)) for name, values in columns.items()}
    return Table({"point": number, **variables}, tuple(sweep.axes), {"title": sweep.title}, "sweep")


def sweep_grid(sweep: Sweep) -> Table | None:
    """The numbers of a sweep over its axes as dimensions; None where its points are not all their combinations."""
    axes = {key: list(dict.fromkeys(map(_hashable, values))) for key, values in sweep.axes.items()}
    shape = tuple(map(len, axes.values()))
    places = []
    for point in sweep.points:
        values = [_hashable(point.changed.get(key)) for key in axes]
        if any(value not in known for value, known in zip(values, axes.values(), strict=True)):
            return None
        places.append(tuple(known.index(value) for value, known in zip(values, axes.values(), strict=True)))
    if not axes or len(set(places)) != len(places) or len(places) != int(np.prod(shape)):
        return None
    dims = tuple(axes)
    variables = {key: Variable((key,), column(values), {}) for key, values in axes.items()}
    for name in (*sweep.numbers, "state"):
        found = column(sweep.column(name))
        grid = np.empty(shape, found.dtype)
        grid[tuple(np.array(places).T)] = found
        variables[name] = Variable(dims, grid, _known(name))
    return Table(variables, attrs={"title": sweep.title}, name="sweep")


def column(values: Sequence[Any]) -> NDArray[Any]:
    """Values of any kind as a column: numbers with NaN for None where all are numbers, else texts."""
    if values and all(isinstance(value, bool) for value in values):
        return np.array(values, bool)
    if values and all(isinstance(value, int) for value in values) and all(abs(value) < 2**63 for value in values):
        return np.array(values, np.int64)
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([_number(value) for value in values], np.float64)
    return _texts(["" if value is None else str(value) for value in values])


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _texts(values: Sequence[str]) -> NDArray[Any]:
    return np.array(values, dtype=object)


def _hashable(value: Any) -> Any:
    """A value of an axis; a list, such as a shape, by its text."""
    return str(value) if isinstance(value, list | dict) else value


def _about(dims: tuple[str, ...], values: NDArray[Any], text: str) -> Variable:
    """Without a unit, which the name tells: xarray would turn nanoseconds into dates when it reads them from a file."""
    return Variable(dims, values, {"long_name": text})


def _known(name: str) -> dict[str, str]:
    """What is known of a number of the summary."""
    return {"units": unit_of(name), "long_name": TRAFFIC_KEYS[name]} if name in TRAFFIC_KEYS else {}
