"""The steps, messages and proof of a collective algorithm."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.collective.arrays import I64
from pyxsim.collective.bounds import lower_bound_bytes, waves
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.lookup import get_algorithm, get_schedule, located
from pyxsim.collective.plan import whole_bytes
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError
from pyxsim.results.table import Facts
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import PathLike, prepare
from pyxsim.settings import Collective, Experiment, Network, folder_of, load_experiment, resolved_toml
from pyxsim.settings.types import listed
from pyxsim.topology.build import network_of
from pyxsim.topology.exported import restored
from pyxsim.units import parse_bytes

DEFAULT_NPUS = 8
MOST_SIMULATED = 20_000  # messages of an algorithm that is simulated on a network: a few seconds


@dataclass(frozen=True, repr=False)
class CollectiveFacts(Facts):
    """One algorithm for one kind of collective on one group.

    Parameters
    ----------
    size
        Bytes of the buffer; None where a file fixes the size of every message.
    steps
        Messages that must follow each other.
    window
        Messages of a rank that may be unanswered; None without a limit.
    sent, received
        Bytes of every rank.
    least
        Bytes that the busiest rank must send or receive with any algorithm; None as `size`.
    unproved
        Why nothing is proved about the data; "" if it is.
    message_bytes
        int64[messages]: bytes of every message of `schedule`.
    on
        What it takes on a network; None without one.
    """

    name: str
    kind: str
    npus: int
    size: int | None
    steps: int
    messages: int
    blocks: int
    window: int | None
    sent: list[int]
    received: list[int]
    least: float | None
    proved: bool
    unproved: str
    schedule: CompiledSchedule = field(repr=False)
    message_bytes: I64 = field(repr=False)
    on: OnNetwork | None = None

    def json(self) -> dict[str, Any]:
        """Return the facts and every message as one JSON object."""
        facts = {name: value for name, value in vars(self).items() if name not in ("schedule", "message_bytes", "on")}
        on = None if self.on is None else vars(self.on)
        return {**facts, "on": on, "schedule": message_rows(self.schedule, self.message_bytes)}


@dataclass(frozen=True)
class OnNetwork:
    """A collective on a network.

    Parameters
    ----------
    network
        Its name and shape.
    optimum_ns
        The time below which no algorithm gets; None if what the algorithm computes is not proved.
    limit
        What limits that time.
    flow_ns
        The time of this algorithm with the flow backend; None with more than MOST_SIMULATED messages.
    """

    network: str
    optimum_ns: float | None
    limit: str
    flow_ns: float | None

    @property
    def share(self) -> float | None:
        """How much of what is possible at all the algorithm reaches."""
        return self.optimum_ns / self.flow_ns if self.optimum_ns and self.flow_ns else None


def describe_collective(
    name: str,
    npus: int | None = None,
    *,
    kind: str | None = None,
    size: str | int = "1 MiB",
    libraries: Iterable[PathLike] = (),
    on: Experiment | Network | PathLike | None = None,
    shape: Sequence[int] | None = None,
) -> CollectiveFacts:
    """Prove an algorithm, count its steps and bytes, and list its messages.

    Parameters
    ----------
    name
        The algorithm: "ring", "direct:4", or a file.
    npus
        NPUs of the group; 8 by default, or those of `on`.
    kind
        The collective; all-reduce by default, or the first that the algorithm can do.
    size
        The buffer of one NPU.
    libraries
        Folders with algorithms of your own.
    on
        A network that carries the collective, one group of all NPUs: a Network such as `pyxsim.Torus([4, 4])`, the name
        of a topology or system, or an experiment or its file.
    shape
        NPUs per dimension of `on`.

    Raises
    ------
    InputError
        For an unknown algorithm, or a kind or size that it cannot do.
    ScheduleError
        For an algorithm that does not compute its collective.
    """
    libraries = listed(libraries)
    library.load_all(libraries)
    carrier = None if on is None else _carrier(on, shape, libraries)
    if carrier is None:
        if shape is not None:
            raise InputError("needs a network", key="--shape", allowed="a shape together with --on")
        npus = DEFAULT_NPUS if npus is None else npus
    else:
        if npus is not None:
            raise InputError("a network has its own number", key="--npus", allowed="--shape")
        npus = network_of(*_restored(carrier)).npus
    name = located(name, Path.cwd())
    if kind is None:
        kinds = get_algorithm(name).kinds
        kind = "all-reduce" if "all-reduce" in kinds else kinds[0]
    elif kind not in KINDS:
        raise InputError(f"unknown collective '{kind}'", key="--kind", allowed=list(KINDS), given=kind)
    get_algorithm(name).check(kind, key="--kind")
    schedule = get_schedule(kind, name, npus)
    prove(schedule)
    total = _size(kind, size)
    carried = _message_bytes(schedule, total)
    facts = _facts(schedule, name, total, carried)
    return facts if carrier is None else replace(facts, on=_on_network(carrier, facts))


def _carrier(on: Experiment | Network | PathLike, shape: Sequence[int] | None, libraries: list[Any]) -> Experiment:
    """Return an experiment on a network of this shape, with the folder where its files are."""
    overrides = [] if shape is None else [f"network.shape={list(shape)}"]
    source: Any = on
    if isinstance(on, Network):
        source = Experiment(network=on, collective=Collective(kind="barrier"))
    elif isinstance(on, str) and not on.endswith(".toml"):
        source = {"network": {"topology": on}, "collective": {"kind": "barrier"}}
    return load_experiment(source, overrides, libraries).placed(folder_of(source))


def _restored(carrier: Experiment) -> tuple[Network, Path]:
    """Return the network of an experiment, that of a graph as it was written, and the folder of its files."""
    folder = folder_of(carrier)
    return restored(carrier.network, folder)[0], folder


def _on_network(on: Experiment, facts: CollectiveFacts) -> OnNetwork:
    """Simulate an algorithm as one group of all NPUs; the bound is searched until it is exact."""
    of_kind = {f"{facts.kind.replace('-', '_')}": f"one-{facts.name}"}
    size = {} if facts.size is None or KINDS[facts.kind].idempotent else {"size": f"{facts.size} B"}
    network = tomllib.loads(resolved_toml(on))["network"]
    tables = {"network": network, "system": of_kind, "collective": {"kind": facts.kind, **size}}
    prepared = prepare(load_experiment(tables).placed(folder_of(on)), backend="flow")
    assert prepared.mode == "closed"
    clock = Fraction(prepared.experiment.network.clock)
    optimum = prepared.optimum(thorough=True)
    simulated = facts.messages <= MOST_SIMULATED
    return OnNetwork(
        network=f"{prepared.topology.name} {'x'.join(map(str, prepared.topology.shape))}",
        optimum_ns=None if optimum is None else float(optimum.cycles * 10**9 / clock),
        limit="" if optimum is None else optimum.limit,
        flow_ns=float(simulate(prepared).time_ns) if simulated else None,
    )


def _size(kind: str, text: str | int) -> int:
    try:
        return 1 if KINDS[kind].idempotent else parse_bytes(text)
    except InputError as error:
        raise error.at(key="--size") from None


def _message_bytes(s: CompiledSchedule, size: int) -> I64:
    """Bytes of every message."""
    if s.given_bytes is not None:
        return s.given_bytes
    return s.message_bytes(block_sizes(s.kind, s.n, s.blocks, whole_bytes(s.kind.name, size, s.n)))


def _facts(s: CompiledSchedule, name: str, size: int, carried: I64) -> CollectiveFacts:
    sent, received = np.zeros((2, s.n), dtype=np.int64)
    np.add.at(sent, s.src[~s.local], carried[~s.local])
    np.add.at(received, s.dst[~s.local], carried[~s.local])
    has_sizes = s.given_bytes is not None
    return CollectiveFacts(
        name=name,
        kind=s.kind.name,
        npus=s.n,
        size=None if has_sizes else size,
        steps=sum(1 for _ in waves(s)),
        messages=int((~s.local).sum()),
        blocks=s.blocks,
        window=s.window,
        sent=sent.tolist(),
        received=received.tolist(),
        least=None if has_sizes else float(lower_bound_bytes(s.kind.name, s.n, size, in_network=s.in_network)),
        proved=not s.unproved,
        unproved=s.unproved,
        schedule=s,
        message_bytes=carried,
    )


def message_rows(s: CompiledSchedule, carried: I64) -> list[dict[str, Any]]:
    """Return every message, in the order of the steps."""
    return [
        {
            "step": number,
            "src": int(s.src[m]),
            "dst": int(s.dst[m]),
            "blocks": s.content[s.block_ptr[m] : s.block_ptr[m + 1]].tolist(),
            "bytes": int(carried[m]),
            "reduce": bool(s.adds[m]),
        }
        for number, sent in enumerate(waves(s))
        for m in sent.tolist()
    ]
