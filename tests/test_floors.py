"""The floors of docs/architecture.md: every import in pyxsim/ goes down, and the few views that are closed stay closed.

Python is read by its syntax tree, Cython line by line. Imports inside functions and under TYPE_CHECKING count: what
a file must not know it must not know later either.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

FLOORS = {
    **dict.fromkeys(("errors", "units", "registry", "plugins", "settings", "library", "rng", "textfile", "chakra"), 0),
    **dict.fromkeys(
        (
            "cache",
            "garbage",
            "raw",
            "heap",
            "byte_keys",
            "json_text",
            "paths",
            "arrays",
            "lazy_columns",
            "file_entries",
            "flat_yaml",
            "xml_elements",
            "yaml_tree",
        ),
        0,
    ),
    **dict.fromkeys(("layer_parts", "rank_files"), 0),
    **dict.fromkeys(("peak_memory", "available_memory"), 0),
    "core": 1,
    **dict.fromkeys(("topology", "routing", "traffic"), 2),
    "network": 3,
    "reference": 3.5,  # the readable router, a backend
    "collective": 4,
    "system": 5,
    "models": 5.5,  # layers and what they cost: of this, workloads are made
    "workload": 6,
    "results": 7,
    "costs": 7.1,  # what a system and a run cost
    "analysis": 7.2,  # what a result means
    "runner": 8,  # one experiment
    "study": 8.2,  # many experiments
    "synthesis": 8.2,  # collectives for one network
    "embed": 8.2,  # the network of one experiment inside another simulator
    "reports": 8.4,
    "cli": 9,
    "compat": 9.5,  # registers readers, a system layer and commands with the rooms below
    **dict.fromkeys(("__init__", "__main__"), 10),  # the face: it may show everything
}
# Rooms of one floor do not see each other, except in these directions:
NEIGHBOURS = {
    ("topology", "routing"),  # a block ships the tables that route in it; a relation knows no topology
    ("__main__", "__init__"),
}
# Lower rooms that are not seen although they are lower:
CLOSED = {
    ("collective", "network"),  # a schedule is the same on every network
    ("collective", "core"),
    ("system", "core"),  # the system layer never sees a flit
    ("workload", "core"),
}
# What a file of a shelf may use: nothing above the floor that it serves.
SHELF_FLOORS = {"topologies": 2, "routings": 2, "patterns": 2, "collectives": 4, "readers": 6}
SHELVES = {*SHELF_FLOORS, "pyxsim_library"}
# The models of delays and fluids get arrays, too: their Cython files see these rooms, and each other.
MODEL_FOLDERS = ("delay", "ethernet", "fluid")
MODEL_ROOMS = {"arrays", "errors", "raw", "heap"}
# The engine needs C, the standard library and numpy, nothing else.
CORE_OUTSIDE = {"cython", "libc", "cpython", "numpy", *sys.stdlib_module_names}


@dataclass(frozen=True)
class Import:
    """One imported module or name, with its full dotted name: `from pyxsim.units import parse_time` is
    "pyxsim.units.parse_time"."""

    file: str
    line: int
    text: str
    target: str


def absolute(module: str, level: int, path: Path) -> str:
    """The full name of a relative import: one dot is the folder of the file."""
    folder = path.parts[: len(path.parts) - level] if level else ()
    return ".".join([*folder, *([module] if module else [])])


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, those inside others too, and what holds them: handlers of errors, cases of a match."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for held in node._fields:
            if held in ("body", "orelse", "finalbody", "handlers", "cases"):
                inside = getattr(node, held)
                waiting += inside if isinstance(inside, list) else ()  # that of a lambda is an expression


def python_imports(path: Path, source: str) -> Iterator[Import]:
    lines = source.splitlines()

    def found(node: ast.AST, target: str) -> Import:
        line: int = node.lineno  # type: ignore[attr-defined]
        return Import(str(path), line, lines[line - 1].strip(), target)

    # Only calls stand in expressions, and few files have any: to walk through all of them took most of the time.
    called = "import_module" in source or "__import__" in source
    for node in ast.walk(ast.parse(source)) if called else statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield found(node, name.name)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield found(node, f"{absolute(node.module or '', node.level, path)}.{name.name}")
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield found(node, node.args[0].value)


CYTHON_FROM = re.compile(r"^\s*from\s+(\.*)([\w.]*)\s+c?import\s+(.+)")
CYTHON_IMPORT = re.compile(r"^\s*c?import\s+([\w., ]+)")
CYTHON_INCLUDE = re.compile(r"""^\s*include\s+["']""")


def cython_imports(path: Path, source: str) -> Iterator[Import]:
    source = re.sub(r'("""|\'\'\').*?\1', lambda text: "\n" * text.group().count("\n"), source, flags=re.DOTALL)
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("#")[0]
        text = line.strip()
        if match := CYTHON_FROM.match(code):
            dots, module, names = match.groups()
            for name in names.strip("() \\").split(","):
                target = f"{absolute(module, len(dots), path)}.{name.split(' as ')[0].strip()}"
                yield Import(str(path), number, text, target.rstrip("."))
        elif match := CYTHON_IMPORT.match(code):
            for name in match.group(1).split(","):
                yield Import(str(path), number, text, name.split(" as ")[0].strip())
        elif CYTHON_INCLUDE.match(code):
            yield Import(str(path), number, text, "include")


@cache  # several tests look at the same tree
def imports(root: Path, folder: str) -> tuple[Import, ...]:
    return tuple(each_import(root, folder))


def each_import(root: Path, folder: str) -> Iterator[Import]:
    for file in sorted((root / folder).rglob("*")):
        path = file.relative_to(root)
        if file.suffix in (".py", ".pyi"):
            yield from python_imports(path, file.read_text(encoding="utf-8"))
        elif file.suffix in (".pyx", ".pxd", ".pxi"):
            yield from cython_imports(path, file.read_text(encoding="utf-8"))


def room(path: Path) -> str:
    """The room of a file: pyxsim/topology/block.py and pyxsim/topology.py are in "topology"."""
    return path.parts[1] if len(path.parts) > 2 else path.stem


def room_of_target(target: str) -> str | None:
    """The room that an import enters; None outside pyxsim. A name taken from the package itself is in its face."""
    parts = target.split(".")
    if parts[0] != "pyxsim":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "__init__"


def fault(item: Import) -> str | None:
    """Why an import of a file in pyxsim/ is not allowed, or None."""
    here = room(Path(item.file))
    if item.target.split(".")[0] in SHELVES or item.target.startswith("pyxsim._library"):
        return "the shelves are loaded by path (pyxsim/library.py), never imported"
    if item.target == "include":
        return "no textual includes: they have no import graph"
    there = room_of_target(item.target)
    if there is None:
        if here == "core" and item.target.split(".")[0] not in CORE_OUTSIDE:
            return "the core needs C, the standard library and numpy only"
        return None
    if here not in FLOORS:
        return f"the room '{here}' has no floor: enter it in FLOORS and in docs/architecture.md"
    path = Path(item.file)
    if path.suffix in (".pyx", ".pxd") and path.parts[1] == "network":
        beside = item.target.split(".")[1:3]
        if there not in MODEL_ROOMS and not (beside[0] == "network" and beside[1] in MODEL_FOLDERS):
            return "the models of delays and fluids get arrays: they know no topology and no setting"
    if here == there or (FLOORS[here] == FLOORS[there] == 0) or (here, there) in NEIGHBOURS:
        return None
    if item.target == "pyxsim.__version__":
        return None  # a fact, known before the face is built
    if FLOORS[here] == FLOORS[there]:
        return f"'{here}' and '{there}' are on one floor (L{FLOORS[here]}) and do not see each other"
    if FLOORS[here] < FLOORS[there]:
        return f"upward: '{here}' is on L{FLOORS[here]}, '{there}' on L{FLOORS[there]}"
    if (here, there) in CLOSED:
        return f"'{here}' must not know '{there}'"
    return None


def shelf_fault(item: Import, floor: int) -> str | None:
    """Why an import of a file on a shelf is not allowed, or None."""
    if item.target.split(".")[0] in SHELF_FLOORS or item.target.startswith("pyxsim._library"):
        return "siblings on a shelf are imported as pyxsim_library.<shelf>.<name>, or they are loaded twice"
    there = room_of_target(item.target)
    if there is not None and FLOORS[there] > floor:
        return f"upward: this shelf serves L{floor}, '{there}' is on L{FLOORS[there]}"
    return None


def faults(root: Path) -> list[str]:
    """Every forbidden import of a tree, one line each: file:line: text -- why."""
    found = [(item, fault(item)) for item in imports(root, "pyxsim")]
    for shelf, floor in SHELF_FLOORS.items():
        found += [(item, shelf_fault(item, floor)) for item in imports(root, shelf)]
    return [f"{item.file}:{item.line}: {item.text} -- {why}" for item, why in found if why]


def test_every_import_goes_down(tree: Path) -> None:
    assert imports(tree, "pyxsim"), "no import was read: the test looks in the wrong place"
    found = faults(tree)
    assert not found, "\n" + "\n".join(found)


def import_graph(root: Path) -> nx.DiGraph:
    """Which file of pyxsim/ imports which, wherever the import stands. The package itself only re-exports.

    A cimport reads the .pxd of a module, so an implementation (.pyx) may use a module whose declarations need its own.
    """
    files = {path.relative_to(root) for path in (root / "pyxsim").rglob("*") if path.suffix in (".py", ".pyx", ".pxd")}
    graph = nx.DiGraph()
    for item in imports(root, "pyxsim"):
        target = Path(*item.target.split("."))
        while target.parts and not (found := sources_of(target, files)):
            target = target.parent
        own = Path(item.file).with_suffix("")
        if len(target.parts) > 1 and target not in (own, own.parent if own.name == "__init__" else own):
            graph.add_edge(Path(item.file), found)
    return graph


def sources_of(module: Path, files: set[Path]) -> Path | None:
    """The file that an import of a module reads first."""
    candidates = [*map(module.with_suffix, (".pxd", ".pyx", ".py")), module / "__init__.py"]
    return next((path for path in candidates if path in files), None)


def test_no_import_circle(tree: Path) -> None:
    groups = nx.strongly_connected_components(import_graph(tree))
    circles = [sorted(map(str, group)) for group in groups if len(group) > 1]
    assert not circles, f"modules that import each other: {circles}"


def test_no_name_of_a_file_more_than_three_times(tree: Path) -> None:
    names = Counter(path.name for path in (tree / "pyxsim").rglob("*") if path.suffix in (".py", ".pyx"))
    assert {name: count for name, count in names.items() if count > 3} == {"__init__.py": names["__init__.py"]}


# Implementations of the contracts, and the rooms that may know which one they hold.
IMPLEMENTATIONS = {
    "network": ("Backend", "OpenBackend", "PacketNetwork", "OpenNetwork", "AnalyticalNetwork", "CongestionNetwork"),
    "system": ("System", "SystemLayer", "AstraSystem"),
    "workload": ("Job", "GraphJob", "Micro", "TrainingLoop", "InTurn", "CommunicationJob"),
    "runner": ("Prepared", "PreparedTraffic"),
}


def test_no_contract_is_asked_for_its_class(tree: Path) -> None:
    found = []
    for path in sorted((tree / "pyxsim").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "isinstance" in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                named = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                wrong = named & {each for names in IMPLEMENTATIONS.values() for each in names}
                found += [f"{path.relative_to(tree)}:{node.lineno}: isinstance of {sorted(wrong)}"] if wrong else []
    assert not found, "a contract has a member for this:\n" + "\n".join(found)


def test_every_room_has_a_floor(tree: Path) -> None:
    rooms = {path.name if path.is_dir() else path.stem for path in (tree / "pyxsim").iterdir() if is_room(path)}
    assert rooms <= set(FLOORS), f"rooms without a floor: {sorted(rooms - set(FLOORS))}"


def is_room(path: Path) -> bool:
    return path.suffix in (".py", ".pyx") if path.is_file() else path.name not in ("__pycache__", "_library")


def test_every_room_stands_in_the_architecture_page(tree: Path) -> None:
    text = (tree / "docs" / "architecture.md").read_text(encoding="utf-8")
    present = {path.name for path in (tree / "pyxsim").iterdir() if path.is_dir() and is_room(path)}
    missing = sorted(name for name in present if f"{name}/" not in text)
    assert not missing, f"docs/architecture.md does not name {missing}"


# What the test must find, and what it must let pass: (file, source, line of the fault or None).
PLANTED = [
    ("pyxsim/topology/torus.py", "from pyxsim.units import parse_time\nfrom pyxsim.network import packet\n", 2),
    ("pyxsim/topology/torus.py", "from ..network.packet import PacketNetwork\n", 1),
    ("pyxsim/topology/torus.py", "from .. import cli\n", 1),
    ("pyxsim/topology/torus.py", "from . import block\n", None),
    ("pyxsim/topology/torus.py", "def f():\n    import pyxsim.cli.app\n", 2),
    ("pyxsim/topology/torus.py", "import importlib\nm = importlib.import_module('pyxsim.runner.lifecycle')\n", 2),
    ("pyxsim/topology/torus.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyxsim.system\n", 3),
    ("pyxsim/topology/torus.py", "from pyxsim.routing.relation import Relation\n", None),
    ("pyxsim/topology/torus.py", "try:\n    pass\nexcept OSError:\n    if 1:\n        import pyxsim.system\n", 5),
    ("pyxsim/topology/torus.py", "match 1:\n    case 1:\n        import pyxsim.system\n", 3),
    ("pyxsim/topology/torus.py", "class A:\n    with b:\n        from pyxsim import cli\n", 3),
    ("pyxsim/topology/torus.py", "for a in b:\n    pass\nelse:\n    import pyxsim.cli\n", 4),
    ("pyxsim/topology/torus.py", "try:\n    pass\nfinally:\n    import pyxsim.cli\n", 4),
    ("pyxsim/routing/relation.py", "from pyxsim.topology.block import Block\n", 1),
    ("pyxsim/results/hdf5.py", "from pyxsim import __version__\n", None),
    ("pyxsim/results/hdf5.py", "from pyxsim import run\n", 1),
    ("pyxsim/collective/plan.py", "from pyxsim.network.protocol import Backend\n", 1),
    ("pyxsim/system/endpoint.py", "from pyxsim.core.engine import Engine\n", 1),
    ("pyxsim/network/packet/packet_network.py", "from pyxsim.core.engine import Engine\n", None),
    ("pyxsim/library.py", "import topologies.ring\n", 1),
    ("pyxsim/cli/app.py", "from pyxsim._library.collectives import ring\n", 1),
    ("pyxsim/cli/app.py", "from pyxsim.runner.lifecycle import run\nimport typer\n", None),
    ("pyxsim/plumbing/pipe.py", "from pyxsim.units import parse_time\n", 1),
    ("pyxsim/core/router.pyx", "from pyxsim.core.state cimport State\nfrom pyxsim.topology.block import Block\n", 2),
    ("pyxsim/core/router.pxd", "# from pyxsim.cli import app\nfrom libc.stdint cimport int32_t\n", None),
    ("pyxsim/core/router.pyx", '"""\nimport pyxsim.cli\n"""\nfrom pyxsim.errors import DeadlockError\n', None),
    ("pyxsim/core/router.pyx", "cimport pyxsim.system.endpoint as e\n", 1),
    ("pyxsim/core/router.pyx", "from ..network.packet cimport x\n", 1),
    ("pyxsim/core/router.pyx", "from . cimport state\nfrom .state cimport State, Event\n", None),
    ("pyxsim/core/router.pyx", "import numpy as np\nimport networkx\n", 2),
    ("pyxsim/network/delay/rule.pyx", "from pyxsim.network.delay.ticks cimport Ticks\n", None),
    ("pyxsim/network/delay/rule.pyx", "from pyxsim.network.link_paths import routes\n", 1),
    ("pyxsim/network/delay/rule.pyx", "from pyxsim.settings import Network\n", 1),
    ("pyxsim/core/router.pyx", 'include "stage.pxi"\n', 1),
    ("pyxsim/core/engine.pyi", "from pyxsim.network.packet.packet_network import PacketNetwork\n", 1),
    ("topologies/torus.py", "from pyxsim.registry import topologies\nfrom pyxsim.topology.block import Block\n", None),
    ("topologies/torus.py", "from pyxsim.registry import topologies\nfrom pyxsim.collective import plan\n", 2),
    ("collectives/ring.py", "from collectives.direct import direct\n", 1),
    ("collectives/ring.py", "from pyxsim_library.collectives.direct import direct\n", None),
]


@pytest.mark.parametrize(("file", "source", "line"), PLANTED)
def test_a_planted_import_is_judged(tmp_path: Path, file: str, source: str, line: int | None) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    found = faults(tmp_path)
    if line is None:
        assert not found
    else:
        assert len(found) == 1
        assert found[0].startswith(f"{file}:{line}: {source.splitlines()[line - 1].strip()} -- ")
