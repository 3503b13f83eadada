"""What `import pyxsim` offers as Markdown, from the signatures and docstrings.

docs/python.md holds it below a mark; `python -m pyxsim.cli.python_page docs/python.md` brings the page up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from pyxsim.analysis.load import load
from pyxsim.reports.html.write_report import report
from pyxsim.reports.timeline.write_timeline import timeline
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.diff import Diff, diff
from pyxsim.results.result import Result
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
from pyxsim.settings.page import linked, write_below
from pyxsim.settings.run import Run
from pyxsim.settings.traffic import Traffic, TrafficClass
from pyxsim.study.check import CheckReport, check
from pyxsim.study.compare import compare
from pyxsim.study.curve import Saturation, curve, saturation
from pyxsim.study.describe import CollectiveFacts, TopologyFacts, describe_collective, describe_topology
from pyxsim.study.generate import GeneratedWorkload, generate
from pyxsim.study.installation import doctor
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
    report,
    timeline,
    describe_topology,
    describe_collective,
    generate,
    doctor,
)
# What these functions give back.
CLASSES = (
    Result,
    CheckReport,
    Diff,
    Comparison,
    Curve,
    Saturation,
    Sweep,
    TopologyFacts,
    CollectiveFacts,
    GeneratedWorkload,
    Progress,
    ProgressBar,
)


# The tables of an experiment; their settings are on the page of settings.
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
)


def reference() -> str:
    """All of it, a section for each name."""
    lines = [line for function in FUNCTIONS for line in _function(function)]
    lines += [line for kind in CLASSES for line in _class(kind)]
    lines += _objects()
    return linked("\n".join(lines)).strip() + "\n"


def _objects() -> Iterator[str]:
    """The typed objects of an experiment, a row for each."""
    yield from ("", "### Objects of an experiment", "", "| call | returns |", "|---|---|")
    for table in TABLES:
        said = " ".join((inspect.getdoc(table) or "").partition("\n\n")[0].split())
        yield f"| `pyxsim.{table.__name__}(...)` | {said} |"
    for name in networks.__all__:
        function = getattr(networks, name)
        own = [each.name for each in inspect.signature(function).parameters.values()]
        words = ", ".join(own[: own.index("name")])
        yield f"| `pyxsim.{name}({words}, ...)` | {' '.join((inspect.getdoc(function) or '').split())} |"


def _function(function: Callable[..., Any]) -> Iterator[str]:
    name = f"pyxsim.{function.__name__}"
    yield from ("", f"### `{name}`", "", "```py", _signature(name, function), "```", "")
    yield from _markdown(inspect.getdoc(function) or "")


def _markdown(doc: str) -> Iterator[str]:
    """A numpydoc docstring: sections with bold titles, and lists of their items."""
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
    """A line for each parameter; annotations as they are written. What is a function by default calls nothing."""
    told = inspect.signature(function)
    lines = []
    for each in told.parameters.values():
        if each.kind == each.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        given = "" if each.default is each.empty else f" = {'...' if callable(each.default) else repr(each.default)}"
        stars = "**" if each.kind == each.VAR_KEYWORD else ""
        lines.append(f"    {stars}{each.name}: {each.annotation}{given},")
    return "\n".join([f"{name}(", *lines, f") -> {told.return_annotation}"])


def _class(kind: type) -> Iterator[str]:
    yield from ("", f"### `{kind.__name__}`", "", (inspect.getdoc(kind) or "").partition("\n\n")[0], "")
    yield from ("| name | |", "|---|---|")
    for name, value in inspect.getmembers_static(kind):
        read = isinstance(value, property | cached_property)
        if not name.startswith("_") and (read or inspect.isroutine(value)):
            said = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
            yield f"| `{name}{'' if read else '()'}` | {said.replace('|', '&#124;')} |"


def main(path: Path) -> None:
    """Write the reference anew below the mark of a Markdown page."""
    write_below(path, MARK, reference())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
