"""Tables of layers: GEMMs as ASTRA-sim's workload generator and SCALE-Sim read them, convolutions as SCALE-Sim does.

    Layer,m,n,k[,CustomizedParallelization]
    Layer name,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides[,Batch Size]

Commas or tabs, any case, with or without a comma at the end of lines. A column without a name ends the table: columns
to the right of it are notes. Lines that begin with # are comments; of those at the top, the first describes the model,
and one that begins with "source:" names its source. Columns of pyxsim: Block (layers of one number stay together),
Extra (parameters besides the matrix), Moved (elements read and written besides the product).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import NoReturn

from pyxsim.errors import InputError, raise_all
from pyxsim.models.layer import Elements, Gemm, Kind, Layer, Model, Split
from pyxsim.textfile import read_text

_MOST = 2**31 - 1
_GEMM = ("m", "n", "k")
_CONVOLUTION = ("ifmap height", "ifmap width", "filter height", "filter width", "channels", "num filter", "strides")
_OWN = ("block", "extra", "moved")
_FURTHER = {
    _GEMM: ("customizedparallelization", "sparsity", *_OWN),
    _CONVOLUTION: ("batch size", "sparsity", *_OWN),
}
_SPELLINGS = {"channel": "channels", "num filters": "num filter", "stride": "strides"}
_PARALLEL = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
_DENSE = "1:1"
_DEPTHWISE = "DP"  # SCALE-Sim: layers with this in their name have filters per channel
_HEADERS = "'Layer,m,n,k', or 'Layer name,IFMAP Height,IFMAP Width,Filter Height,...' in the first line"


@dataclass(frozen=True)
class _Row:
    """A line of a table: its place, the name of the layer, the other cells by column."""

    place: str
    name: str
    cells: dict[str, str]

    def refuse(self, problem: str, allowed: str | Sequence[str], given: str | None = None) -> NoReturn:
        raise InputError(f"layer '{self.name}': {problem}", file=self.place, allowed=allowed, given=given)

    def whole(self, column: str, default: int | None = None) -> int:
        """Return a whole number; columns of pyxsim may be 0."""
        text = self.cells.get(column, "")
        if not text and default is not None:
            return default
        least = 0 if column in _OWN else 1
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= _MOST):
            self.refuse(f"invalid value '{text}' in the column '{column}'", f"a whole number from {least} to {_MOST}")
        return int(text)

    def word(self, column: str, words: Sequence[str]) -> str:
        """Return one of some words, or nothing."""
        text = self.cells.get(column, "")
        if text and text not in words:
            self.refuse(f"invalid value '{text}' in the column '{column}'", words, text)
        return text


def read_table(path: str | Path) -> Model:
    """Return the model of a file. Raises InputError with the line of each wrong layer."""
    file = str(path)
    comments, lines = _lines(read_text(path, "a table of layers"), file)
    if not lines:
        raise InputError("has no layers", file=file, allowed=_HEADERS)
    number, header = lines[0]
    kind, columns = _columns(header, f"{file}:{number}")
    rows, faults = [], []
    for number, cells in lines[1:]:
        try:
            rows.append(_row(cells, columns, f"{file}:{number}"))
        except InputError as error:
            faults.append(error)
    layer_rows = [row for row in rows if row is not None]
    batch = _batch(layer_rows, kind, faults)
    layers = []
    for row in layer_rows:
        try:
            layers.append(_gemm(row, batch) if kind is _GEMM else _convolution(row))
        except InputError as error:
            faults.append(error)
    raise_all(list({str(fault): fault for fault in faults}.values()))  # a cell may be read twice
    if not layers:
        raise InputError("has no layers", file=file, allowed="one line per layer below the first line")
    about = [line for line in comments if not line.startswith("source:")]
    return Model(
        name=Path(path).stem,
        layers=tuple(layers),
        sample="an image" if kind is _CONVOLUTION else "a row of the inputs",
        batch=batch,
        help=about[0] if about else "",
        source=next((line.removeprefix("source:").strip() for line in comments if line.startswith("source:")), ""),
    )


def _lines(text: str, file: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The comments, and the other lines as numbered rows of cells."""
    comments, lines = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            comments.append(line.removeprefix("#").strip())
        elif line.strip():
            delimiter = "\t" if "\t" in line and "," not in line else ","
            try:
                cells = next(csv.reader([line], delimiter=delimiter))
            except csv.Error as error:
                raise InputError(f"cannot be read as a table: {error}", file=f"{file}:{number}") from None
            lines.append((number, [cell.strip() for cell in cells]))
    return comments, lines


def _columns(header: list[str], place: str) -> tuple[tuple[str, ...], list[str]]:
    """The kind of table, and its columns after the name."""
    names = [" ".join(cell.lower().split()) for cell in header[1:]]
    if "" in names:
        names = names[: names.index("")]
    names = [_SPELLINGS.get(name, name) for name in names]
    if names[:2] == ["ifmap width", "ifmap width"]:  # a mistake in tables of SCALE-Sim, which reads by position
        names[0] = "ifmap height"
    kind = next((kind for kind in (_GEMM, _CONVOLUTION) if set(kind) <= set(names)), None)
    if kind is None:
        raise InputError(f"'{', '.join(header)[:60]}' is not a header of a table", file=place, allowed=_HEADERS)
    known = (*kind, *_FURTHER[kind])
    raise_all(
        [
            InputError(f"unknown column '{name}'", file=place, allowed=known, given=name)
            if name not in known
            else InputError(f"the column '{name}' occurs twice", file=place)
            for number, name in enumerate(names)
            if name not in known or name in names[:number]
        ]
    )
    return kind, names


def _row(cells: list[str], columns: list[str], place: str) -> _Row | None:
    """A line by column; None for an empty one."""
    if not any(cells):
        return None
    row = _Row(place, cells[0], dict(zip(columns, cells[1:], strict=False)))
    if not row.name:
        raise InputError("a layer has no name", file=place, allowed="a name in the first column")
    if (ratio := row.cells.get("sparsity", "") or _DENSE) != _DENSE:
        row.refuse(f"invalid value '{ratio}' in the column 'sparsity'", f"{_DENSE}, a dense product")
    return row


def _batch(rows: Sequence[_Row], kind: tuple[str, ...], faults: list[InputError]) -> int:
    """The batch size of the table."""
    try:
        if kind is _GEMM:
            return max(1, gcd(*(row.whole("m") for row in rows)))
        batches = [row.whole("batch size", 1) for row in rows]
        for row, batch in zip(rows, batches, strict=True):
            if batch != batches[0]:
                row.refuse(f"the batch is {batch}, but {batches[0]} in the first layer", "one batch for all layers")
        return batches[0] if batches else 1
    except InputError as error:
        faults.append(error)
        return 1


def _gemm(row: _Row, batch: int) -> Layer:
    rows, n, k = row.whole("m") // batch, row.whole("n"), row.whole("k")
    gemm = Gemm(row.name, rows, n, k, split=Split.COLUMN)
    parallel = row.word("customizedparallelization", _PARALLEL)
    return _layer(row, Kind.LINEAR, gemm, inputs=rows * k, outputs=rows * n, parallel=parallel)


def _convolution(row: _Row) -> Layer:
    height, width, channels = row.whole("ifmap height"), row.whole("ifmap width"), row.whole("channels")
    tall, wide, filters = row.whole("filter height"), row.whole("filter width"), row.whole("num filter")
    stride = row.whole("strides")
    if tall > height or wide > width:
        row.refuse(
            f"a filter of {tall} x {wide} exceeds its input of {height} x {width}", "a filter that fits into its input"
        )
    # As in SCALE-Sim: a last partial step counts, too.
    pixels = -(-(height - tall + stride) // stride) * -(-(width - wide + stride) // stride)
    inputs = height * width * channels
    apart = channels if _DEPTHWISE in row.name else 1
    gemm = Gemm(
        row.name,
        pixels,
        filters,
        tall * wide * channels // apart,
        count=apart,
        split=Split.COLUMN,
        left=inputs // apart,
    )
    return _layer(row, Kind.CONVOLUTION, gemm, inputs=inputs, outputs=pixels * filters * apart)


def _layer(row: _Row, kind: Kind, gemm: Gemm, *, inputs: int, outputs: int, parallel: str = "") -> Layer:
    """A layer that is one product; tensor parallelism divides its outputs."""
    return Layer(
        row.name,
        kind,
        inputs=inputs,
        outputs=outputs,
        gemms=(gemm,),
        parameters=Elements(divided=gemm.n * gemm.k * gemm.count + row.whole("extra", 0)),
        backward_sum=inputs,
        gathered=outputs,
        moved=Elements(divided=row.whole("moved", 0)),
        kept=Elements(whole=2 * inputs),
        block=row.whole("block") if row.cells.get("block") else -1,
        parallel=parallel,
    )
