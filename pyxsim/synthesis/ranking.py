"""Simulate candidates on the network that they are for."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError, SimulationError
from pyxsim.registry import collectives
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.lifecycle import run_experiment
from pyxsim.runner.prepare import PathLike
from pyxsim.settings import load_experiment
from pyxsim.topology import Topology
from pyxsim.units import to_cycles

SETTINGS = {kind: kind.replace("-", "_") for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}


@dataclass(frozen=True)
class Setting:
    """An experiment without its collective, and where its relative paths start."""

    data: dict[str, Any]
    overrides: tuple[str, ...]
    folder: Path
    libraries: tuple[PathLike, ...]

    def with_algorithm(self, kind: str, size: int, algorithm: str | Sequence[str]) -> dict[str, Any]:
        """Return the experiment with this collective."""
        system = {**self.data.get("system", {}), SETTINGS[kind]: algorithm}
        kept: dict[str, Any] = {name: self.data[name] for name in ("network", "npu", "seed") if name in self.data}
        return {**kept, "system": system, "collective": {"kind": kind, "size": f"{size} B"}}

    def endpoint_cycles(self, kind: str, size: int, clock: Fraction) -> int:
        """Return how long an NPU takes to send or to receive a message."""
        data = self.with_algorithm(kind, size, "direct")
        return to_cycles(load_experiment(data, self.overrides, self.libraries).system.endpoint_delay, clock)[0]


def simulate(setting: Setting, kind: str, size: int, algorithm: str | Sequence[str], backend: str) -> float | str:
    """Return the seconds of a collective, or why it cannot be simulated."""
    data = setting.with_algorithm(kind, size, algorithm)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            experiment = load_experiment(data, setting.overrides, setting.libraries)
            context = CheckpointContext(backend=backend, libraries=tuple(map(str, setting.libraries)))
            outcome = run_experiment(experiment, folder=setting.folder, context=context)
    except (InputError, SimulationError) as error:
        return str(error)
    if outcome.failure is not None:
        return str(outcome.failure)
    if not outcome.result.complete:
        raise KeyboardInterrupt
    return float(outcome.result.time_ns) * 1e-9


def simulate_text(setting: Setting, kind: str, size: int, text: str, backend: str, *, over_all: bool) -> float | str:
    """Return the seconds of a collective of a Python file, or why it cannot be simulated."""
    with tempfile.TemporaryDirectory(prefix="pyxsim-synthesize-") as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(text)
        return simulate(setting, kind, size, f"{'one-' if over_all else ''}{path}", backend)


def shelf_names(kind: str, topology: Topology, *, in_switch: bool) -> Iterable[str | list[str]]:
    """Yield the algorithms of the shelf that can do the collective: as one group, and as phases along dimensions.

    What reduces in switches only with `in_switch`; what copies there, too, needs transactions, which are not ranked.
    """
    dims = len(topology.shape)
    for entry in collectives.entries:
        if kind not in entry.info.get("kinds", KINDS) or entry.name == "multimem":
            continue
        if entry.name == "in-switch" and not in_switch:
            continue
        yield entry.name
        if dims > 1:
            yield f"one-{entry.name}"
    if in_switch and kind == "all-reduce" and dims > 1 and topology.dims[-1].name == "switch":
        yield [*("ring" for _ in range(dims - 1)), "in-switch"]
