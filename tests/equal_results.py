"""Whether two results are equal, from their tables in memory.

`pyxsim.results.diff` writes both as HDF5 files first and compares these, which takes several times as long as a small
run. What it does with files is tested in tests/results/test_diff.py.
"""

from __future__ import annotations

import io

import h5py

from pyxsim.results import dataset
from pyxsim.results.diff import _Comparison, _different
from pyxsim.results.result import Result
from pyxsim.results.result_file import _write_root
from pyxsim.results.table import Variable


def differences(first: Result, second: Result) -> list[str]:
    """Names of all tables, columns and values of the summary that differ, in a bit or in their descriptions.

    As in `pyxsim.diff`, values that tell how a run was computed do not count.
    """
    found = []
    with _summary(first) as one, _summary(second) as other:
        found += [each.name for each in _Comparison(one, other).diff(("first", "second")).differences]
    tables = [{name: dataset.table_of(result, name) for name in dataset.present(result)} for result in (first, second)]
    for name in {**tables[0], **tables[1]}:
        if name not in tables[0] or name not in tables[1]:
            found.append(f"/{name}")
            continue
        left, right = tables[0][name], tables[1][name]
        if (left.attrs, left.coordinates) != (right.attrs, right.coordinates):
            found.append(f"/{name}@")
        found += [
            f"/{name}/{column}"
            for column in {**left.variables, **right.variables}
            if not _same(left.variables.get(column), right.variables.get(column))
        ]
    return found


def equal(first: Result, second: Result) -> bool:
    """Whether there are no `differences`."""
    return not differences(first, second)


def _summary(result: Result) -> h5py.File:
    """A file with the attributes of a result and none of its tables."""
    file = h5py.File(io.BytesIO(), "w")
    _write_root(file, result)
    return file


def _same(one: Variable | None, other: Variable | None) -> bool:
    if one is None or other is None:
        return False
    left, right = one.data, other.data
    described = (one.dims, one.attrs, left.dtype, left.shape) == (other.dims, other.attrs, right.dtype, right.shape)
    return described and not _different(left, right).any()
