"""pyxsim: a flit-level simulator of collective communication on accelerator networks.

import pyxsim

result = pyxsim.run("inputs/torus_all_reduce.toml")
network = pyxsim.Torus([4, 4, 4], bandwidth="100 GB/s")
pyxsim.run(pyxsim.Experiment(network=network, collective=pyxsim.Collective(kind="all-reduce", size="1 MiB")))
result.time_ns, result.links.to_xarray(), result.plot.utilization(), result.save("out.h5")
pyxsim.load("out.h5").chunks.to_pandas()
pyxsim.check("inputs/torus_all_reduce.toml")
pyxsim.diff("out.h5", "other.h5").equal
pyxsim.compare("inputs/studies/two_jobs.toml").worst.error("flow")
pyxsim.curve("inputs/torus_uniform.toml", [0.1, 0.2, 0.3]).to_pandas()
pyxsim.sweep("inputs/sweeps/load_latency.toml", "results/load_latency").plot("load", "packet_latency", "vcs")
"""

# ruff: noqa: F405  topologies come with the star import

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyxsim.analysis.load import load
    from pyxsim.cli.functions import (
        bench,
        check_workload,
        collect_workload,
        convert_workload,
        expand_workload,
        learn_workload,
        list_,
        show_workload,
        synthesize,
        synthesize_workload,
        validate,
    )
    from pyxsim.compat.astra.function import astra
    from pyxsim.compat.booksim.command_run import booksim
    from pyxsim.compat.htsim.command_run import htsim
    from pyxsim.costs.energy import energy
    from pyxsim.embed.build_library import build_library
    from pyxsim.embed.simulator import Simulator
    from pyxsim.errors import (
        DeadlockError,
        InputError,
        InputErrors,
        PyxsimError,
        SimulationError,
        StuckError,
        UnreachableError,
    )
    from pyxsim.reports.html.write_report import report
    from pyxsim.reports.timeline.write_timeline import timeline
    from pyxsim.results.diff import diff
    from pyxsim.results.result import Result
    from pyxsim.runner.hooks import Progress
    from pyxsim.runner.lifecycle import resume, run
    from pyxsim.runner.progress_bar import ProgressBar
    from pyxsim.settings import load_experiment
    from pyxsim.settings.collective import Collective, Message
    from pyxsim.settings.cost import Cost
    from pyxsim.settings.experiment import Experiment
    from pyxsim.settings.network import Dimension, Network
    from pyxsim.settings.networks import *  # noqa: F403
    from pyxsim.settings.output import Output
    from pyxsim.settings.router import RouterSettings
    from pyxsim.settings.run import Run
    from pyxsim.settings.system import System
    from pyxsim.settings.traffic import Traffic, TrafficClass
    from pyxsim.settings.workload import Workload
    from pyxsim.study.check import check
    from pyxsim.study.compare import compare
    from pyxsim.study.cost import cost
    from pyxsim.study.curve import curve, saturation
    from pyxsim.study.describe import describe_collective, describe_topology, export_topology
    from pyxsim.study.generate import generate
    from pyxsim.study.installation import doctor
    from pyxsim.study.jobs import jobs
    from pyxsim.study.new_project import new
    from pyxsim.study.search import search
    from pyxsim.study.sweep import sweep

__version__ = "0.1.0"
__all__ = [
    "Butterfly",
    "Collective",
    "ConcentratedMesh",
    "Cost",
    "DeadlockError",
    "Dimension",
    "Dragonfly",
    "Experiment",
    "FoldedClos",
    "FullyConnected",
    "GarnetSwitch",
    "GarnetTorus",
    "Graph",
    "HyperX",
    "InputError",
    "InputErrors",
    "KAryNTree",
    "LeafSpine",
    "Mesh",
    "Message",
    "Network",
    "Output",
    "Progress",
    "ProgressBar",
    "PyxsimError",
    "RailOptimized",
    "RandomRegular",
    "Result",
    "Ring",
    "RouterSettings",
    "Run",
    "SimulationError",
    "Simulator",
    "SlimFly",
    "StuckError",
    "Switch",
    "System",
    "Torus",
    "Traffic",
    "TrafficClass",
    "Tree4",
    "TwistedTorus",
    "UnreachableError",
    "Workload",
    "__version__",
    "astra",
    "bench",
    "booksim",
    "build_library",
    "check",
    "check_workload",
    "collect_workload",
    "compare",
    "convert_workload",
    "cost",
    "curve",
    "describe_collective",
    "describe_topology",
    "diff",
    "doctor",
    "energy",
    "expand_workload",
    "export_topology",
    "generate",
    "htsim",
    "jobs",
    "learn_workload",
    "list_",
    "load",
    "load_experiment",
    "new",
    "report",
    "resume",
    "run",
    "saturation",
    "search",
    "show_workload",
    "sweep",
    "synthesize",
    "synthesize_workload",
    "timeline",
    "validate",
]

_TABLES = {
    "collective": ("Collective", "Message"),
    "cost": ("Cost",),
    "experiment": ("Experiment",),
    "network": ("Dimension", "Network"),
    "output": ("Output",),
    "router": ("RouterSettings",),
    "run": ("Run",),
    "system": ("System",),
    "traffic": ("Traffic", "TrafficClass"),
    "workload": ("Workload",),
}
# Errors are in pyxsim.errors; the other names of `__all__` are topologies, in pyxsim.settings.networks.
_HOMES = {
    **{name: f"pyxsim.settings.{file}" for file, names in _TABLES.items() for name in names},
    **dict.fromkeys(
        (
            "bench",
            "check_workload",
            "collect_workload",
            "convert_workload",
            "expand_workload",
            "learn_workload",
            "list_",
            "show_workload",
            "synthesize",
            "synthesize_workload",
            "validate",
        ),
        "pyxsim.cli.functions",
    ),
    "astra": "pyxsim.compat.astra.function",
    "booksim": "pyxsim.compat.booksim.command_run",
    "htsim": "pyxsim.compat.htsim.command_run",
    "Progress": "pyxsim.runner.hooks",
    "ProgressBar": "pyxsim.runner.progress_bar",
    "Result": "pyxsim.results.result",
    "Simulator": "pyxsim.embed.simulator",
    "build_library": "pyxsim.embed.build_library",
    "check": "pyxsim.study.check",
    "compare": "pyxsim.study.compare",
    "cost": "pyxsim.study.cost",
    "curve": "pyxsim.study.curve",
    "diff": "pyxsim.results.diff",
    "describe_collective": "pyxsim.study.describe",
    "describe_topology": "pyxsim.study.describe",
    "doctor": "pyxsim.study.installation",
    "energy": "pyxsim.costs.energy",
    "export_topology": "pyxsim.study.describe",
    "generate": "pyxsim.study.generate",
    "report": "pyxsim.reports.html.write_report",
    "timeline": "pyxsim.reports.timeline.write_timeline",
    "jobs": "pyxsim.study.jobs",
    "load": "pyxsim.analysis.load",
    "load_experiment": "pyxsim.settings",
    "new": "pyxsim.study.new_project",
    "resume": "pyxsim.runner.lifecycle",
    "run": "pyxsim.runner.lifecycle",
    "saturation": "pyxsim.study.curve",
    "search": "pyxsim.study.search",
    "sweep": "pyxsim.study.sweep",
}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used: `import pyxsim` and `pyxsim --help` stay quick."""
    if name not in __all__:
        raise AttributeError(f"module 'pyxsim' has no attribute '{name}'")
    is_error = name.endswith(("Error", "Errors"))
    home = _HOMES.get(name, "pyxsim.errors" if is_error else "pyxsim.settings.networks")
    value = getattr(import_module(home), name)
    if any(name in names for names in _TABLES.values()):
        value = import_module("pyxsim.settings.typed").documented(value)
    elif name in _HOMES:
        import_module("pyxsim.reports")  # adds plots and HTML to every result
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
