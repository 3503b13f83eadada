"""Generate the reference of the Python interface as Markdown, from signatures and docstrings.

docs/python.md has it below a mark; `python -m pyxsim.cli.python_page docs/python.md` updates the page.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

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
from pyxsim.costs import DesignCost, RunEnergy, StepCost, energy
from pyxsim.embed.build_library import BuiltLibrary, build_library
from pyxsim.embed.simulator import Simulator, Statistics
from pyxsim.reports.html.write_report import report
from pyxsim.reports.timeline.write_timeline import timeline
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.diff import Diff, diff
from pyxsim.results.result import Result
from pyxsim.results.search import SearchResult
from pyxsim.results.sweep import Sweep
from pyxsim.runner.hooks import Progress
from pyxsim.runner.lifecycle import resume, run
from pyxsim.runner.progress_bar import ProgressBar
from pyxsim.settings import (
    Collective,
    Dimension,
    Experiment,
    Message,
    Network,
    Output,
    RouterSettings,
    System,
    Workload,
    load_experiment,
    networks,
)
from pyxsim.settings.cost import Cost
from pyxsim.settings.page import linked, write_below
from pyxsim.settings.run import Run
from pyxsim.settings.traffic import Traffic, TrafficClass
from pyxsim.study.check import CheckReport, check
from pyxsim.study.compare import compare
from pyxsim.study.cost import cost
from pyxsim.study.curve import Saturation, curve, saturation
from pyxsim.study.describe import (
    CollectiveFacts,
    TopologyFacts,
    describe_collective,
    describe_topology,
    export_topology,
)
from pyxsim.study.generate import GeneratedWorkload, generate
from pyxsim.study.installation import doctor
from pyxsim.study.jobs import jobs
from pyxsim.study.new_project import NewProject, new
from pyxsim.study.search import search
from pyxsim.study.sweep import sweep

MARK = "<!-- every name: written by pyxsim.cli.python_page from here on -->\n"
FUNCTIONS: tuple[Callable[..., Any], ...] = (
    run,
    check,
    resume,
    load_experiment,
    load,
    diff,
    compare,
    curve,
    saturation,
    sweep,
    search,
    cost,
    energy,
    jobs,
    report,
    timeline,
    describe_topology,
    export_topology,
    describe_collective,
    synthesize,
    generate,
    show_workload,
    check_workload,
    collect_workload,
    convert_workload,
    expand_workload,
    learn_workload,
    synthesize_workload,
    collect_workload,
    list_,
    new,
    build_library,
    doctor,
    # Of wings, which no room below imports.
    *(getattr(sys.modules["pyxsim"], name) for name in ("astra", "booksim", "htsim")),
    validate,
    bench,
)
# The classes that these functions return, and the simulator that others drive.
CLASSES = (
    Result,
    CheckReport,
    Diff,
    Comparison,
    Curve,
    Saturation,
    Sweep,
    SearchResult,
    DesignCost,
    StepCost,
    RunEnergy,
    TopologyFacts,
    CollectiveFacts,
    GeneratedWorkload,
    NewProject,
    Progress,
    ProgressBar,
    Simulator,
    Statistics,
    BuiltLibrary,
)


# The tables of an experiment; docs/settings.md lists their settings.
TABLES = (
    Experiment,
    Network,
    Dimension,
    RouterSettings,
    System,
    Collective,
    Message,
    Traffic,
    TrafficClass,
    Workload,
    Output,
    Run,
    Cost,
)


def reference() -> str:
    """Return the reference, with a section for each name."""
    lines = [line for function in FUNCTIONS for line in _function(function)]
    lines += [line for kind in CLASSES for line in _class(kind)]
    lines += _objects()
    return linked("\n".join(lines)).strip() + "\n"


def _objects() -> Iterator[str]:
    """The table of the typed objects of an experiment."""
    yield from ("", "### Objects of an experiment", "", "| call | returns |", "|---|---|")
    for table in TABLES:
        summary = " ".join((inspect.getdoc(table) or "").partition("\n\n")[0].split())
        yield f"| `pyxsim.{table.__name__}(...)` | {summary} |"
    for name in networks.__all__:
        function = getattr(networks, name)
        parameters = [parameter.name for parameter in inspect.signature(function).parameters.values()]
        required = ", ".join(parameters[: parameters.index("name")])
        yield f"| `pyxsim.{name}({required}, ...)` | {' '.join((inspect.getdoc(function) or '').split())} |"


def _function(function: Callable[..., Any]) -> Iterator[str]:
    name = f"pyxsim.{function.__name__}"
    yield from ("", f"### `{name}`", "", "```py", _signature(name, function), "```", "")
    yield from _markdown(inspect.getdoc(function) or "")


def _markdown(doc: str) -> Iterator[str]:
    """Convert a numpydoc docstring to Markdown: bold titles of sections, and lists of their items."""
    lines = doc.splitlines()
    items = code = False
    for number, line in enumerate(lines):
        under = lines[number + 1] if number + 1 < len(lines) else ""
        if line and under and set(under) == {"-"}:
            items, code = line in ("Parameters", "Raises", "Attributes"), line == "Examples"
            yield f"**{line}**"
        elif line and set(line) == {"-"} and number:
            yield ""
        elif items and line and not line.startswith(" "):
            yield "- " + ", ".join(f"`{name.strip()}`" for name in line.split(","))
        elif items and line:
            yield f"  {line.strip()}"
        else:
            yield f"    {line}" if code and line else line


def _signature(name: str, function: Callable[..., Any]) -> str:
    """Format a signature with a line per parameter; a default that is a function is shown as "..."."""
    signature = inspect.signature(function)
    lines = []
    for parameter in signature.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        default = (
            ""
            if parameter.default is parameter.empty
            else f" = {'...' if callable(parameter.default) else repr(parameter.default)}"
        )
        stars = "**" if parameter.kind == parameter.VAR_KEYWORD else ""
        lines.append(f"    {stars}{parameter.name}: {parameter.annotation}{default},")
    return "\n".join([f"{name}(", *lines, f") -> {signature.return_annotation}"])


def _class(kind: type) -> Iterator[str]:
    yield from ("", f"### `{kind.__name__}`", "", (inspect.getdoc(kind) or "").partition("\n\n")[0], "")
    yield from ("| name | |", "|---|---|")
    for name, value in inspect.getmembers_static(kind):
        read = isinstance(value, property | cached_property)
        if not name.startswith("_") and (read or inspect.isroutine(value)):
            summary = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
            yield f"| `{name}{'' if read else '()'}` | {summary.replace('|', '&#124;')} |"


def main(path: Path) -> None:
    """Update the reference below the mark of a Markdown page."""
    write_below(path, MARK, reference())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
