"""The reference of all datasets as Markdown, from their specs.

docs/output.md contains it; `python -m pyxsim.results.page docs/output.md` updates the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pyxsim.results import dataset
from pyxsim.results.dataset import Dataset
from pyxsim.settings.page import write_below

MARK = "<!-- every dataset: written by pyxsim.results.page from here on -->\n"
TYPES = {"number": "int64 or float64", "uint": "uint32 or uint64"}


def reference() -> str:
    """Return a section for each built-in dataset: its rows, variables and attributes."""
    return "\n".join(line for spec in dataset.every() if not spec.computed for line in _section(spec)).strip() + "\n"


def _section(spec: Dataset) -> Iterator[str]:
    when = f" Only {spec.when}." if spec.when else ""
    yield from ("", f"### `/{spec.name}`", "", f"{spec.text}{when}", "")
    yield from ("| variable | dimensions | type | unit | |", "|---|---|---|---|---|")
    labels: dict[str, list[str]] = {}
    for column in spec.columns:
        dims = ", ".join(column.dims or spec.dims)
        optional = " (not always)" if column.optional else ""
        kind = TYPES.get(column.dtype, column.dtype)
        yield f"| `{column.name}` | {dims} | {kind} | {column.units} | {column.text}{optional} |"
        if column.labels:
            labels.setdefault(column.labels, []).append(f"`{column.name}`")
    for name, columns in labels.items():
        yield f"| `{name}` | {name} | text | | texts of {' and '.join(columns)} |"
    attributes = [f"`{name}`, {text}" for name, text in spec.attributes.items()]
    yield from ("", f"Attributes: {'; '.join([*attributes, '`clock_hz`'])}.")


def main(path: Path) -> None:
    """Write the reference below the mark of a Markdown page."""
    write_below(path, MARK, reference())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
