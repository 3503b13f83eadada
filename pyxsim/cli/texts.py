"""`pyxsim workload` for texts of ASTRA-sim 1: show layers, check, and convert training loops to Chakra traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.goal import is_goal_target, write_graph
from pyxsim.cli.topology import find_topology, shape_of
from pyxsim.errors import InputError, raise_all
from pyxsim.reports.text.facts import plural
from pyxsim.reports.text.text_width import bound, fitted
from pyxsim.settings import Workload
from pyxsim.settings.faults import translate
from pyxsim.settings.load import replaced_key
from pyxsim.settings.network import MAX_NPUS
from pyxsim.units import format_bytes, format_time_ns
from pyxsim.workload.export import export
from pyxsim.workload.graph import TaskGraph
from pyxsim.workload.logical_dims import LogicalDims, logical_dims
from pyxsim.workload.text_workload import CUSTOMIZED, DLRM, RECOMPUTING, TRANSFORMER, Layer, Pass, TextWorkload
from pyxsim.workload.training_loop import FORWARD, INPUTS, WEIGHTS, LoopOptions, training_loop

MAX_LAYERS = 40  # rows of the table; --json has all
POLICIES = ("LIFO", "FIFO")
_TOML = ".toml"


@dataclass(frozen=True)
class Loop:
    """Options of a training loop: its network, in one of three ways; passes and scales; the order of its
    collectives."""

    shape: str | None = None
    npus: int | None = None
    network: str | None = None
    passes: int = 1
    comm_scale: str = "1"
    compute_scale: str = "1"
    scheduling: str = POLICIES[0]

    @property
    def has_network(self) -> bool:
        """Return whether a network is given."""
        return any(option is not None for option in (self.shape, self.npus, self.network))

    def dims(self) -> tuple[int, ...]:
        """Return the NPUs per dimension. Raises InputError."""
        options = {"--shape": self.shape, "--npus": self.npus, "--network": self.network}
        chosen = [name for name, value in options.items() if value is not None]
        if len(chosen) != 1:
            problem = "a training loop requires a network" if not chosen else f"{' and '.join(chosen)} are given"
            raise InputError(problem, key=chosen[-1] if chosen else None, allowed=f"one of {', '.join(options)}")
        if self.shape is not None:
            return tuple(shape_of(self.shape))
        if self.npus is not None:
            if not 1 <= self.npus <= MAX_NPUS:
                raise InputError(f"{self.npus} NPUs", key="--npus", allowed=f"1 to {MAX_NPUS}")
            return (self.npus,)
        return _of_file(str(self.network))

    def graph(self, text: TextWorkload) -> tuple[TaskGraph, LogicalDims]:
        """Return the tasks of the NPUs, and the dimensions as the loop sees them. Raises InputError."""
        if self.scheduling not in POLICIES:
            problem = f"unknown policy '{self.scheduling}'"
            raise InputError(problem, key="--scheduling", allowed=POLICIES, given=self.scheduling)
        scales = {name: getattr(self, name) for name in ("passes", "comm_scale", "compute_scale")}
        try:
            settings = Workload.model_validate({"file": text.file, **scales})
        except ValidationError as error:
            faults = translate(error, Workload)
            raise_all([replaced_key(fault, f"--{fault.key}".replace("_", "-")) for fault in faults])
        dims = logical_dims(text, self.dims())
        order = LoopOptions(newest_first=self.scheduling == POLICIES[0])
        return training_loop(text, settings, dims, order)[0], dims


def scale_of(text: str, option: str) -> Fraction:
    """Return a factor of compute times. Raises InputError."""
    try:
        return Workload.model_validate({"file": "-", "compute_scale": text}).compute_scale
    except ValidationError as error:
        raise replaced_key(translate(error, Workload)[0], option) from None


def _of_file(name: str) -> tuple[int, ...]:
    """The NPUs per dimension of an experiment, a network of the shelf, or a network file of ASTRA-sim."""
    from pyxsim import library, plugins

    if name.endswith(_TOML) or "." not in name:
        return find_topology(name, None, (), [])[0].shape
    library.load_all()
    tables = plugins.network_files.reader(name)(name)
    if "dims" in tables:
        return tuple(dim["npus"] for dim in tables["dims"])
    return tuple(tables["shape"])


def show_text(out: CommandOutput, text: TextWorkload) -> None:
    """Print a table of the layers, and the sums over one pass."""
    parts = (FORWARD, INPUTS, WEIGHTS)
    compute = {part: sum(_of(layer, part).compute for layer in text.layers) for part in parts}
    sizes: Counter[str] = Counter()
    for part_of_layer in (_of(layer, part) for layer in text.layers for part in parts):
        if part_of_layer.kind is not None:
            sizes[part_of_layer.kind] += part_of_layer.size
    _tables(out, text, compute, sizes)
    out.put(
        {
            "parallelism": text.parallelism,
            **_head(text),
            "layers": [_json(layer) for layer in text.layers],
            "compute_ns": {_word(part): ns for part, ns in compute.items()},
            "bytes": dict(sizes),
        }
    )


def _tables(out: CommandOutput, text: TextWorkload, compute: dict[str, int], sizes: dict[str, int]) -> None:
    if out.silent:
        return
    from rich.table import Table

    facts = "".join(f", {name.replace('_', ' ')} {value}" for name, value in _head(text).items())
    out.say(f"{text.parallelism}: {plural(len(text.layers), 'layer')}{facts}", "")
    layers, customized = text.layers[:MAX_LAYERS], text.parallelism == CUSTOMIZED
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("computes", no_wrap=True)
    for column in (*compute, "update"):
        table.add_column(column, justify="right", no_wrap=True)
    if customized:
        table.add_column("parallel", no_wrap=True)
    for layer in layers:
        times = (*(_of(layer, part).compute for part in compute), layer.update)
        table.add_row(layer.name, *map(format_time_ns, times), *([layer.policy or ""] if customized else []))
    table.add_row("all", *map(format_time_ns, compute.values()))
    width = bound(out.console)
    out.say(fitted(table, width))
    sends = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("communicates", "for its", "collective", "bytes"):
        sends.add_column(column, justify="right" if column == "bytes" else "left", no_wrap=True)
    for layer in layers:
        for part in compute:
            each = _of(layer, part)
            if each.kind is not None:
                sends.add_row(layer.name, part, each.kind, format_bytes(each.size))
    for kind, size in sizes.items():
        sends.add_row("all", "", kind, format_bytes(size))
    if sends.row_count:
        out.say("", fitted(sends, width))
    if len(text.layers) > MAX_LAYERS:
        out.say("", f"  and {plural(len(text.layers) - MAX_LAYERS, 'more layer')}; --json has all of them")


def _of(layer: Layer, part: str) -> Pass:
    return {FORWARD: layer.forward, INPUTS: layer.input_gradient, WEIGHTS: layer.weight_gradient}[part]


def _word(part: str) -> str:
    return part.replace(" ", "_")


def _head(text: TextWorkload) -> dict[str, Any]:
    """The header values of the keyword."""
    header, keyword = text.header, text.parallelism
    facts: dict[str, Any] = {}
    if keyword in DLRM:
        facts["last_bottom_layer"] = header.last_bottom
    if keyword in TRANSFORMER:
        facts["model_npus"] = header.model_npus
    if keyword == RECOMPUTING:
        facts |= {"checkpoints": list(header.checkpoints), "restarts": list(header.restarts)}
    return facts


def _json(layer: Layer) -> dict[str, Any]:
    options: dict[str, Any] = {"name": layer.name}
    for part in (FORWARD, INPUTS, WEIGHTS):
        each = _of(layer, part)
        options[_word(part)] = {"compute_ns": each.compute, "collective": each.kind, "bytes": each.size}
    options["update_ns"] = layer.update
    return options if layer.policy is None else options | {"parallelism": layer.policy}


def check_text(out: CommandOutput, text: TextWorkload, loop: Loop) -> None:
    """Check the training loop on a network; reading has reported the other faults. Raises InputError."""
    options = plural(len(text.layers), "layer")
    if loop.has_network:
        graph, _ = loop.graph(text)
        out.say(f"{options}, {plural(len(graph), 'task')} for {plural(graph.npus, 'NPU')}: no faults")
        out.put({"layers": len(text.layers), "npus": graph.npus, "tasks": len(graph)})
        return
    out.say(f"{options}: no faults; with --shape, --npus or --network its training loop is checked as well")
    out.put({"layers": len(text.layers)})


def convert_text(out: CommandOutput, text: TextWorkload, target: str, loop: Loop) -> None:
    """Write the training loop on a network as traces or a GOAL schedule. Raises InputError."""
    graph, dims = loop.graph(text)
    if is_goal_target(target):
        write_graph(out, graph, target)
        return
    options = export(graph, target, dims.shape)
    out.say(f"wrote {plural(options.traces, 'trace')}, {plural(options.nodes, 'node')}: {options.files}")
    out.put({"file": options.files, "traces": options.traces, "nodes": options.nodes})
