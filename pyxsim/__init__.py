"""pyxsim: a flit-level simulator of collective communication on accelerator networks.

import pyxsim

result = pyxsim.run("inputs/torus_all_reduce.toml")
result.time_ns, result.links.to_xarray(), result.plot.utilization(), result.save("out.h5")
pyxsim.load("out.h5").chunks.to_pandas()
pyxsim.diff("out.h5", "other.h5").equal
pyxsim.compare("inputs/studies/two_jobs.toml").worst.error("flow")
pyxsim.sweep("inputs/sweeps/load_latency.toml", "results/load_latency").plot("load", "packet_latency", "vcs")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyxsim.analysis.load import load
    from pyxsim.results.diff import diff
    from pyxsim.results.result import Result
    from pyxsim.runner.lifecycle import resume, run
    from pyxsim.settings import load_experiment
    from pyxsim.study.compare import compare
    from pyxsim.study.sweep import sweep

__version__ = "0.1.0"
__all__ = ["Result", "__version__", "compare", "diff", "load", "load_experiment", "resume", "run", "sweep"]


def __getattr__(name: str) -> Any:
    """The names above, imported when they are first asked for: `import pyxsim` and `pyxsim --help` stay quick."""
    if name not in __all__:
        raise AttributeError(f"module 'pyxsim' has no attribute '{name}'")
    from importlib import import_module

    from pyxsim.analysis.load import load
    from pyxsim.results.diff import diff
    from pyxsim.results.result import Result
    from pyxsim.runner.lifecycle import resume, run
    from pyxsim.settings import load_experiment
    from pyxsim.study.compare import compare
    from pyxsim.study.sweep import sweep

    import_module("pyxsim.reports")  # teaches every result to plot and to show itself
    found = (Result, compare, diff, load, load_experiment, resume, run, sweep)
    globals().update({each.__name__: each for each in found})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
