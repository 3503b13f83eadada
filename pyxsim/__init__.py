"""pyxsim: a flit-level simulator of collective communication on accelerator networks.

import pyxsim

result = pyxsim.run("inputs/torus_all_reduce.toml")
result.time_ns, result.links.to_xarray(), result.plot.utilization(), result.save("out.h5")
pyxsim.load("out.h5").chunks.to_pandas()
pyxsim.check("inputs/torus_all_reduce.toml")
pyxsim.diff("out.h5", "other.h5").equal
pyxsim.compare("inputs/studies/two_jobs.toml").worst.error("flow")
pyxsim.curve("inputs/torus_uniform.toml", [0.1, 0.2, 0.3]).to_pandas()
pyxsim.sweep("inputs/sweeps/load_latency.toml", "results/load_latency").plot("load", "packet_latency", "vcs")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyxsim.analysis.load import load
    from pyxsim.errors import (
        DeadlockError,
        InputError,
        InputErrors,
        PyxsimError,
        SimulationError,
        StuckError,
        UnreachableError,
    )
    from pyxsim.results.diff import diff
    from pyxsim.results.result import Result
    from pyxsim.runner.hooks import Progress
    from pyxsim.runner.lifecycle import resume, run
    from pyxsim.runner.progress_bar import ProgressBar
    from pyxsim.settings import load_experiment
    from pyxsim.study.check import check
    from pyxsim.study.compare import compare
    from pyxsim.study.curve import curve, saturation
    from pyxsim.study.sweep import sweep

__version__ = "0.1.0"
__all__ = [
    "DeadlockError",
    "InputError",
    "InputErrors",
    "Progress",
    "ProgressBar",
    "PyxsimError",
    "Result",
    "SimulationError",
    "StuckError",
    "UnreachableError",
    "__version__",
    "check",
    "compare",
    "curve",
    "diff",
    "load",
    "load_experiment",
    "resume",
    "run",
    "saturation",
    "sweep",
]

_ERRORS = ("DeadlockError", "InputError", "InputErrors", "PyxsimError", "SimulationError", "StuckError")
_HOMES = {
    **dict.fromkeys((*_ERRORS, "UnreachableError"), "pyxsim.errors"),
    "Progress": "pyxsim.runner.hooks",
    "ProgressBar": "pyxsim.runner.progress_bar",
    "Result": "pyxsim.results.result",
    "check": "pyxsim.study.check",
    "compare": "pyxsim.study.compare",
    "curve": "pyxsim.study.curve",
    "diff": "pyxsim.results.diff",
    "load": "pyxsim.analysis.load",
    "load_experiment": "pyxsim.settings",
    "resume": "pyxsim.runner.lifecycle",
    "run": "pyxsim.runner.lifecycle",
    "saturation": "pyxsim.study.curve",
    "sweep": "pyxsim.study.sweep",
}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used: `import pyxsim` and `pyxsim --help` stay quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pyxsim' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    if _HOMES[name] != "pyxsim.errors":
        import_module("pyxsim.reports")  # adds plots and HTML to every result
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
