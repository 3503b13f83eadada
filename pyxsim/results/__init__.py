"""Results: the data of runs, comparisons, curves and sweeps, their datasets and files."""

from __future__ import annotations

from pyxsim.results import comparison_file, datasets, result_file
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.links import LinkTable
from pyxsim.results.result import Result

__all__ = ["LinkTable", "Result", "check_writable", "comparison_file", "datasets", "result_file"]
