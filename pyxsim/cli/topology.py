"""`pyxsim topology`: print bounds and proofs of a network; write its picture or graph."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import by_hand, placed
from pyxsim.cli.systems import rounded_rate, system_facts, system_rows
from pyxsim.errors import InputError, bundle, raise_all, single_faults
from pyxsim.network.capacity import capacity_of
from pyxsim.registry import topologies
from pyxsim.reports.files import check_plot, save_picture
from pyxsim.reports.text.facts import plural
from pyxsim.results.hdf5 import check_writable
from pyxsim.runner.proofs import link_list_faults
from pyxsim.settings import Network, load_experiment, read_toml
from pyxsim.settings.load import LOADS
from pyxsim.study.describe.topology_facts import TopologyFacts, facts_of
from pyxsim.topology import Topology
from pyxsim.topology.build import network_of
from pyxsim.topology.exported import FORMATS, form_of, graph_text, restored, write_graph

SHAPE = re.compile(r"\d{1,9}(?:(?: ?, ?\d{1,9})*|(?:[xX]\d{1,9})*)", re.ASCII)
SHAPES = "NPUs per dimension, such as 4,4,4 or 4x4x4"
WORD = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII)


def show_topology(
    out: CommandOutput,
    name: str,
    *,
    shape: str | None = None,
    overrides: Iterable[str] = (),
    libraries: Iterable[str] = (),
    export: str | None = None,
    file: str | None = None,
) -> None:
    """Run `pyxsim topology`. Raises InputError.

    `name`: one of the shelf, optionally with options in the same text ("dragonfly p=2 a=4 h=2"), or a file.
    """
    if not name.strip():
        raise InputError(
            "is not the name of a topology", key="NAME_OR_FILE", allowed="a topology of the shelf, or a file"
        )
    name, *words = name.split() if WORD.search(name.partition(" ")[2]) or not _is_path(name) else [name]
    write = _writer(out, name, export, file)
    libraries = list(libraries)
    topology, network, notes = find_topology(name, shape, (*map(override_of, words), *overrides), libraries)
    facts = facts_of(topology, network)
    system = _system_of(name, network, libraries)
    capacity = capacity_of(topology, network)
    if write is not None:
        with warnings.catch_warnings(record=True) as lost:
            warnings.simplefilter("always", RuntimeWarning)
            write(topology, network)
        notes += [str(each.message) for each in lost]
    out.say(*(f"warning: {note}" for note in notes))
    rows = [] if system is None else list(system_rows(system, facts.npus, capacity))
    if capacity.all_gather is not None:
        rows.insert(0, ("all-gather", f"at most {rounded_rate(capacity.all_gather)} at each NPU: the bottleneck cut"))
    _show(out, facts, rows)
    if file is not None:
        out.say("", f"wrote {file}")
    out.put({**asdict(facts), "capacity": asdict(capacity), "system": system, "file": file})


def _system_of(name: str, network: Network, libraries: list[str]) -> dict[str, Any] | None:
    """The facts of the system that a name or an experiment selects; None if it selects none."""
    files = library.data_files(extra_dirs=libraries)
    system = name if name in files else network.name
    return next(iter(system_facts({system: files[system]})), None) if system in files else None


def find_topology(
    name: str, shape: str | None, overrides: tuple[str, ...], libraries: list[str]
) -> tuple[Topology, Network, list[str]]:
    """Return the topology of a name or an experiment file, its settings, and warnings.

    The file needs no collective, traffic or workload.
    """
    library.load_all(libraries)
    systems = library.data_files(extra_dirs=libraries)
    on_shelf = name in topologies or name in systems
    if not on_shelf and not _is_path(name):
        raise topologies.unknown(name, *systems, "a file .toml")
    data: dict[str, Any] = {"network": {"topology": name}} if on_shelf else read_toml(name)
    if shape is not None and isinstance(data.get("network"), dict):
        data["network"]["shape"] = shape_of(shape)
    if on_shelf or not any(data.get(table) is not None for table in LOADS):
        data["collective"] = {"kind": "all-reduce", "size": "1 B"}
    try:
        network = load_experiment(data, overrides, libraries).network
        folder = Path() if on_shelf else Path(name).parent
        network, notes = restored(network, folder)
        topology = network_of(network, folder)
        raise_all(list(link_list_faults(network, topology)))
        return topology, network, notes
    except InputError as error:
        if shape is not None or on_shelf:
            error = bundle([_as_typed(fault, overrides) for fault in single_faults(error)])
        file = str(systems[name]) if name in systems else "" if on_shelf else name
        raise (placed(error, file, overrides) if file else error) from None


def _as_typed(fault: InputError, overrides: tuple[str, ...]) -> InputError:
    """A fault of the shape as a fault of the option --shape."""
    key, dimension = re.fullmatch(r"(.*?)(?:\[(\d+)\])?", fault.key or "", re.DOTALL).groups()  # type: ignore[union-attr]
    if key != "network.shape" or by_hand(key, overrides):
        return fault
    renamed = copy(fault)
    renamed.key = "--shape"
    if dimension is not None:
        renamed.problem = f"dimension {dimension}: {fault.problem}"
    elif isinstance(fault.allowed, str) and fault.allowed.startswith("a list of numbers"):
        renamed.allowed = SHAPES
    return renamed


def override_of(word: str) -> str:
    """An option as a setting: "k=4" becomes network.options.k=4, "routing=valiant" network.router.routing."""
    match = WORD.fullmatch(word)
    if match is None:
        allowed = "options such as k=4 after the name, or --shape 4,4"
        raise InputError(f"'{word}' is not an option of a topology", key="topology", allowed=allowed)
    key, value = match.groups()
    if SHAPE.fullmatch(value) and not value.isdecimal():
        value = f"[{','.join(re.split('[,xX]', value))}]"
    return f"network.router.routing={value}" if key == "routing" else f"network.options.{key}={value}"


def _is_path(name: str) -> bool:
    return name.endswith(".toml") or "/" in name or Path(name).exists()


def shape_of(text: str) -> list[int]:
    """Parse NPUs per dimension: "4,4,4" or "4x4x4". Raises InputError."""
    text = text.strip()
    if SHAPE.fullmatch(text) is None:
        both = "," in text and "x" in text.lower() and SHAPE.fullmatch(re.sub("[xX]", ",", text)) is not None
        raise InputError(
            f"'{text}' {'mixes commas and x' if both else 'is not a shape'}", key="--shape", allowed=SHAPES
        )
    return [int(part) for part in re.split("[,xX]", text)]


def _show(out: CommandOutput, facts: TopologyFacts, more: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    low, high = facts.degree
    degree = f"{low}" if low == high else f"{low} to {high}"
    cut = "the minimum over all even cuts" if facts.bisection_exact else "the minimum over the cuts tried"
    shared = facts.routers < facts.npus
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in facts.kinds.items()) if len(facts.kinds) > 1 else ""
    rows = [
        ("topology", f"{facts.name} {' x '.join(map(str, facts.shape))}"),
        ("NPUs", f"{facts.npus:,}"),
        *([("routers", f"{facts.routers:,} with NPUs")] if shared else []),
        *([("switches", f"{facts.switches:,}")] if facts.switches else []),
        ("links", f"{facts.links:,} (directed){': ' + kinds if kinds else ''}"),
        (
            "degree",
            f"{plural(high, 'link') if low == high else degree + ' links'} from each {'router' if shared else 'NPU'}",
        ),
        ("bisection", f"{plural(facts.bisection, 'link')}, counting both directions; {cut}"),
    ]
    if facts.mean_hops is not None and facts.channel_load is not None and facts.throughput is not None:
        least = "" if facts.load_exact else "at least "
        rows += [
            ("mean hops", f"{facts.mean_hops:.4g} links under uniform traffic, {facts.max_hops} at most"),
            (
                "channel load",
                f"{least}{facts.channel_load:.4g} flits on the busiest link per flit injected by every NPU",
            ),
            ("throughput", f"at most {facts.throughput:.4g} flits per NPU and cycle under uniform traffic"),
        ]
    others = [name for name in facts.routings if name != facts.routing]
    rows.append(("routing", facts.routing + (f"; also {', '.join(others)}" if others else "")))
    rows.append(("VC classes", f"{facts.vc_classes}; a link needs at least this many VCs"))
    rows.append(("deadlock", facts.deadlock or facts.unreachable or "none, proved for all pairs"))
    if facts.mean_hops is None and facts.unreachable is None:
        rows.append(("routes", "along one dimension only, as collectives use"))
    rows += more
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, value in rows:
        table.add_row(label, Text(value, overflow="fold"))
    out.say(table)


def _writer(
    out: CommandOutput, name: str, export: str | None, file: str | None
) -> Callable[[Topology, Network], None] | None:
    """Return the function that writes the output file, or None. Raises InputError before any computation."""
    if export is not None and export not in FORMATS:
        raise InputError(f"unknown format '{export}'", key="--export", allowed=FORMATS, given=export)
    if file is not None and os.path.realpath(file) == os.path.realpath(name):
        raise InputError("cannot be written, because it is an input", file=file, allowed="another name")
    form = export or (form_of(file) if file is not None else "")
    if form in FORMATS:
        if file is not None:
            suffix = Path(file).suffix.lower()
            if suffix != FORMATS[form]:
                allowed = f"a name that ends in {FORMATS[form]}"
                raise InputError(f"is not a file name for {form}", file=file, allowed=allowed)
            check_writable(file)
        elif out.json:
            raise InputError(
                "requires -o FILE together with --json, because stdout has one JSON object", key="--export"
            )
        if file is None:
            return lambda topology, network: out.write(graph_text(topology, network, form))
        return lambda topology, network: write_graph(topology, network, file, form)
    if file is not None:
        check_plot(file, tuple(FORMATS.values()))
        return lambda topology, _: _write_picture(topology, file)
    return None


def _write_picture(topology: Topology, file: str) -> None:
    from pyxsim.reports.plots.network_drawing import draw

    save_picture(draw(topology), Path(file))
