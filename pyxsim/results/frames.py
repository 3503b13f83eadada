"""The datasets of a result by name: `result.frames["chunks"]`, `result.frames.chunks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyxsim.results import dataset
from pyxsim.results.table import Table, html_table, needed

if TYPE_CHECKING:
    import xarray as xr


class Frames(Mapping[str, Table]):
    """The datasets of a result that have content, by name and as attributes: `result.frames.links`."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def __getitem__(self, name: str) -> Table:
        return dataset.table_of(self._result, name)

    def __getattr__(self, name: str) -> Table:
        if name.startswith("_") or name not in dataset.names(self._result):
            raise AttributeError(f"a result has no table '{name}'")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dataset.present(self._result))

    def __len__(self) -> int:
        return len(dataset.present(self._result))

    def __contains__(self, name: object) -> bool:
        return name in dataset.present(self._result)

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
        """Return all datasets as a DataTree, as in the HDF5 file."""
        tree: xr.DataTree = needed("xarray").DataTree.from_dict(
            {name: table.to_xarray() for name, table in self.items()}
        )
        return tree
