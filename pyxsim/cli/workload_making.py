"""`pyxsim workload expand`, `learn` and `synthesize`, and the options of `convert` that scale times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import count
from pyxsim.cli.texts import scale_of
from pyxsim.errors import InputError
from pyxsim.reports.text.facts import plural
from pyxsim.settings.network import MAX_NPUS
from pyxsim.units import format_time_ns
from pyxsim.workload.export import export
from pyxsim.workload.making.devices import TimeScale, scaled_graph, time_scale
from pyxsim.workload.making.expand import expand
from pyxsim.workload.making.layout import Layout
from pyxsim.workload.making.learn import learn
from pyxsim.workload.making.model import read_model, write_model
from pyxsim.workload.making.sources import CLOCK, read_all, read_one
from pyxsim.workload.making.synthesize import synthesize

_ANY_NETWORK = ()  # the dimensions of traces that name none


@dataclass(frozen=True)
class Devices:
    """Options that scale times."""

    from_device: str | None = None
    to_device: str | None = None
    precision: str | None = None
    compute_scale: str | None = None

    def scale(self) -> TimeScale | None:
        """Return the scale; None for no change. Raises InputError."""
        return time_scale(self.from_device, self.to_device, self.precision, self._factor())

    def refuse_devices(self, name: str) -> None:
        """Raise InputError if devices are given."""
        options = {"--from-device": self.from_device, "--to-device": self.to_device, "--precision": self.precision}
        for key, value in options.items():
            if value is not None:
                raise InputError(f"has no effect on {name}", key=key, allowed="with Chakra traces, for Chakra traces")

    def refuse(self, name: str) -> None:
        """Raise InputError if anything is given."""
        self.refuse_devices(name)
        if self.compute_scale is not None:
            raise InputError(
                f"has no effect on {name}", key="--compute-scale", allowed="with texts, or from traces to traces"
            )

    def _factor(self) -> Fraction | None:
        """The value of --compute-scale."""
        return None if self.compute_scale is None else scale_of(self.compute_scale, "--compute-scale")


def rank_list(text: str | None) -> list[int] | None:
    """Return the ranks of an option such as 0,8,16. Raises InputError."""
    if text is None:
        return None
    ranks = [count(each.strip(), "--ranks", 0, MAX_NPUS) for each in text.split(",")]
    if len(set(ranks)) < len(ranks):
        raise InputError(f"{text} has a rank twice", key="--ranks", allowed="different ranks, one of each stage")
    return ranks


def expand_workload(
    out: CommandOutput,
    name: str,
    target: str,
    *,
    npus: int,
    tensor: int | None = None,
    ranks: Sequence[int] | None = None,
    groups: str | None = None,
    devices: Devices | None = None,
) -> None:
    """`pyxsim workload expand`. Raises InputError; an error leaves no partial file."""
    scale = (devices or Devices()).scale()
    sources = [read_one(name, rank, groups) for rank in ranks] if ranks else [read_one(name, None, groups)]
    expanded = expand(sources, npus, tensor)
    graph = expanded.graph if scale is None else scaled_graph(expanded.graph, scale, name)
    written = export(graph, target, _ANY_NETWORK, CLOCK)
    before, after = expanded.before, expanded.after
    out.say(
        f"{plural(before.ranks, 'rank')} ({_by(before)}) as {plural(after.ranks, 'rank')} ({_by(after)})",
        *(f"warning: {text}" for text in expanded.warnings),
        _wrote(written.traces, written.nodes, written.files),
    )
    out.put(
        {
            "file": written.files,
            "groups": None if written.groups is None else str(written.groups),
            "traces": written.traces,
            "nodes": written.nodes,
            "before": _axes(before),
            "after": _axes(after),
            "warnings": list(expanded.warnings),
        }
    )


def learn_workload(out: CommandOutput, names: Sequence[str], target: str, *, order: int = 4) -> None:
    """`pyxsim workload learn`. Raises InputError; an error leaves no partial file."""
    model = learn([read_all(name) for name in names], order)
    write_model(model, target)
    facts = {
        "traces": len(model.traces),
        "families": len(model.families),
        "symbols": len(model.symbols),
        "contexts": len(model.transitions),
    }
    out.say(
        f"learned {plural(len(model.traces), 'job')}: {plural(len(model.families), 'kind')} of tasks, "
        f"{plural(len(model.symbols), 'symbol')}, {plural(len(model.transitions), 'context')}",
        f"wrote {target}",
    )
    out.put({"file": target, **facts, "keeps": list(model.keeps)})


def synthesize_workload(out: CommandOutput, name: str, target: str, *, npus: int | None = None, seed: int = 1) -> None:
    """`pyxsim workload synthesize`. Raises InputError; an error leaves no partial file."""
    drawn = synthesize(read_model(name), npus, seed)
    written = export(drawn.graph, target, _ANY_NETWORK, CLOCK)
    busy = drawn.time_ps / 1000
    out.say(
        f"{plural(drawn.layout.ranks, 'rank')} ({_by(drawn.layout)}), {format_time_ns(round(busy))} of tasks per rank",
        *(
            [f"warning: left out {plural(drawn.dropped, 'drawn task')} without a partner or a group"]
            if drawn.dropped
            else []
        ),
        _wrote(written.traces, written.nodes, written.files),
    )
    out.put(
        {
            "file": written.files,
            "groups": None if written.groups is None else str(written.groups),
            "traces": written.traces,
            "nodes": written.nodes,
            "layout": _axes(drawn.layout),
            "dropped": drawn.dropped,
        }
    )


def _wrote(traces: int, nodes: int, files: str) -> str:
    return f"wrote {plural(traces, 'trace')}, {plural(nodes, 'node')}: {files}"


def _by(layout: Layout) -> str:
    sizes = [*layout.axes, *([layout.stages] if layout.stages > 1 else [])]
    return " x ".join(map(str, sizes)) + (" stages" if layout.stages > 1 else "")


def _axes(layout: Layout) -> dict[str, object]:
    return {"axes": list(layout.axes), "stages": layout.stages}
