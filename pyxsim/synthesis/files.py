"""Forests and paths as files: for the shelf of collectives, and for other programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyxsim.collective.custom.export import to_msccl
from pyxsim.collective.custom.export_plan import to_forestcoll, to_mscclpp, to_tacos
from pyxsim.collective.custom.forest import FOREST_KINDS, Forest
from pyxsim.collective.custom.paths import Paths
from pyxsim.errors import InputError
from pyxsim.synthesis.link_graph import LinkGraph

FORMATS = {"python": ".py", "msccl": ".xml", "forestcoll": ".xml", "mscclpp": ".json", "tacos": ".csv"}
_SUFFIXES = {".py": "python", ".xml": "msccl", ".json": "mscclpp", ".csv": "tacos"}
MOST_STEPS = 200_000  # messages of a schedule that is written as steps of threadblocks

_PYTHON = '''"""{title}"""

from {module} import {form}
from pyxsim.registry import collectives

# {lines}
{rows} = """
{text}
"""


@collectives.register("{name}", kinds={kinds})
def synthesized(kind, n, slices={slices}):
    return {form}.of_text({n}, {units}, {rows}).schedule(kind, slices, "{name}", n)
'''

_IN_SWITCH = '''"""{title}"""

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


@collectives.register("{name}", kinds=("all-reduce",))
def synthesized(kind, n, slices={slices}):
    schedule = Schedule(kind, n, blocks=slices)
    for part in range(slices):
        schedule.reduce_in_network(range(n), part)
    return schedule
'''


@dataclass(frozen=True)
class Described:
    """A schedule to write.

    Attributes
    ----------
    forest
        Its trees, or the paths of an all-to-all; None: one switch reduces.
    kind, size
        The collective, and bytes as in its settings.
    slices
        Equal parts of each unit.
    title
        What the file says about itself.
    """

    forest: Forest | Paths | None
    kind: str
    size: int
    slices: int
    name: str
    title: str


def check_format(file: str, form: str | None, kind: str) -> str:
    """Return the format of an output file. Raises InputError for one that does not fit its name or the kind."""
    suffix = Path(file).suffix.lower()
    if form is not None and form not in FORMATS:
        raise InputError(f"unknown format '{form}'", key="--format", allowed=list(FORMATS), given=form)
    if suffix not in _SUFFIXES or (form is not None and FORMATS[form] != suffix):
        allowed = ", ".join(_SUFFIXES) if form is None else f"a name that ends in {FORMATS[form]}"
        raise InputError("is not the name of a collective file", file=file, allowed=allowed)
    form = form or _SUFFIXES[suffix]
    kinds = {
        "python": FOREST_KINDS,
        "msccl": FOREST_KINDS,
        "tacos": ("all-gather",),
        "mscclpp": FOREST_KINDS[:3],
        "forestcoll": FOREST_KINDS[:3],
    }[form]
    if kind not in kinds:
        raise InputError(f"{form} has no {kind}", file=file, allowed=", ".join(kinds))
    return form


def file_text(form: str, what: Described, graph: LinkGraph) -> str:
    """Return the text of a file. Raises InputError for what the format cannot express."""
    return _WRITERS[form](what, graph)


def python_text(what: Described) -> str:
    """Return a Python file for the shelf of collectives."""
    if what.forest is None:
        return _IN_SWITCH.format(title=what.title, name=what.name, slices=what.slices)
    form = type(what.forest)
    return _PYTHON.format(
        title=what.title,
        module=form.__module__,
        form=form.__name__,
        lines=form.lines,
        rows=form.noun.split()[-1].upper(),
        text=what.forest.text(),
        name=what.name,
        kinds=repr(
            (what.kind,) if what.kind == "all-to-all" else tuple(k for k in what.forest.kinds if k != "all-to-all")
        ),
        slices=what.slices,
        n=what.forest.n,
        units=what.forest.units,
    )


def used_as(form: str, file: str, slices: int) -> str:
    """Return the name of the file in the settings, with the slices where the file does not have them."""
    return f"{file}:{slices}" if form == "forestcoll" and slices > 1 else file


def _plan(what: Described, form: str) -> Forest | Paths:
    if what.forest is None:
        raise InputError(f"{form} has no reduction in the network", allowed="a file .py")
    if form != "forestcoll" and (messages := what.forest.messages(what.kind, what.slices)) > MOST_STEPS:
        allowed = f"at most {MOST_STEPS}: --slices, or a file .py"
        raise InputError(f"{messages} messages are too many for {form}", allowed=allowed)
    return what.forest


def _trees(what: Described, form: str) -> Forest:
    plan = _plan(what, form)
    assert isinstance(plan, Forest)  # no such format has all-to-all
    return plan


def _msccl(what: Described, graph: LinkGraph) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # channels: the file is proved on its own
        return to_msccl(_plan(what, "msccl").schedule(what.kind, what.slices, what.name))


def _tacos(what: Described, graph: LinkGraph) -> str:
    src, dst, route = graph.pairs
    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    ways = [[link for link in way if link >= 0] for way in route.tolist()]
    late = {pair: float(graph.latency[way].sum()) * 1e9 for pair, way in zip(pairs, ways, strict=True)}
    wide = {pair: float(graph.rate[way].min()) * graph.unit / 1e9 for pair, way in zip(pairs, ways, strict=True)}
    forest = _trees(what, "tacos")
    return to_tacos(forest, what.size // forest.units, late, wide)


_WRITERS: dict[str, Callable[[Described, LinkGraph], str]] = {
    "python": lambda what, graph: python_text(what),
    "msccl": _msccl,
    "mscclpp": lambda what, graph: to_mscclpp(_trees(what, "mscclpp"), what.kind, what.slices, what.name),
    "forestcoll": lambda what, graph: to_forestcoll(_trees(what, "forestcoll")),
    "tacos": _tacos,
}
