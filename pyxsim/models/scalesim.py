"""Cycles of a systolic array as SCALE-Sim simulates it (`pip install 'pyxsim[scalesim]'`).

SCALE-Sim lists, for each cycle, the requests of every row and column of the array, and follows them through
double-buffered SRAM. So its time and memory grow with cycles times rows and columns: products beyond a limit are
rejected, and results are cached. It returns the last cycle, counted from 0: one less than `systolic.cycles` without
waiting.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import warnings
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pyxsim import cache
from pyxsim.errors import InputError
from pyxsim.models import systolic
from pyxsim.settings.npu import Array

MOST_REQUESTS = 2**26  # some minutes and three GiB
_FOLDER = "scalesim"
_INSTALL = "pip install 'pyxsim[scalesim]'"
_KEY = "system.npu.compute"


@lru_cache(maxsize=4096)
def cycles(m: int, n: int, k: int, array: Array) -> int:
    """Return the cycles of a product (m x k) (k x n) on one array. Raises InputError."""
    name = hashlib.sha256(f"{_version()} {m} {n} {k} {array.model_dump_json()}".encode()).hexdigest()
    cached = cache.recall(_FOLDER, name)
    if cached is not None and cached.isdigit():
        return int(cached)
    requests = systolic.cycles(m, n, k, array) * (array.rows + array.columns)
    if requests > MOST_REQUESTS:
        problem = f"the product {m} x {k} x {n} is too large for SCALE-Sim: {requests} requests of rows and columns"
        allowed = f"at most {MOST_REQUESTS}; compute = 'systolic' has these cycles in closed form"
        raise InputError(problem, key=_KEY, allowed=allowed)
    counted = _simulate(m, n, k, array)
    cache.remember(_FOLDER, name, str(counted))
    return counted


def _version() -> str:
    try:
        return version("scalesim")
    except PackageNotFoundError:
        raise InputError("SCALE-Sim is not installed", key=_KEY, allowed=f"after {_INSTALL}") from None


def _simulate(m: int, n: int, k: int, array: Array) -> int:
    layer = _module("single_layer_sim").single_layer_sim()
    # It writes to the terminal and uses deprecated NumPy functions.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer.set_params(
            config_obj=_config(array), topology_obj=_topology(m, n, k), layout_obj=_layout(), verbose=False
        )
        try:
            layer.run()
        except TypeError as error:
            # SCALE-Sim 3.0.0 converts arrays to numbers, which NumPy 2.4 rejects.
            problem = f"SCALE-Sim {_version()} does not run with NumPy {version('numpy')}: {error}"
            raise InputError(problem, key=_KEY, allowed=f"after {_INSTALL}") from None
        return int(layer.get_compute_report_items()[1])


def _config(array: Array) -> Any:
    config = _module("scale_config").scale_config()
    sram = array.sram
    sizes = (sram.inputs, sram.weights, sram.outputs) if sram else (64, 64, 64)
    speed = ("USER", [sram.words_per_cycle]) if sram else ("CALC", [])
    # Addresses of inputs, weights and outputs, far apart.
    config.update_from_list(
        ["pyxsim", array.rows, array.columns, *sizes, 0, 10**12, 2 * 10**12, array.dataflow, *speed]
    )
    config.ifmap_sram_bank_num = config.filter_sram_bank_num = 1
    if sram:
        config.ifmap_sram_bank_bandwidth = config.filter_sram_bank_bandwidth = sram.words_per_cycle
    return config


def _topology(m: int, n: int, k: int) -> Any:
    """A product as in SCALE-Sim's own GEMM files: an input of m rows, filters of one row."""
    topology = _module("topology_utils").topologies()
    topology.load_layer_params_from_list("gemm", ["gemm", m, k, 1, k, 1, n, 1, 1, 1, 1])
    return topology


def _layout() -> Any:
    return _module("layout_utils").layouts()


def _module(name: str) -> Any:
    return import_module(f"scalesim.{name}")
