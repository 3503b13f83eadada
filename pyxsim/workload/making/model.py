"""The statistics of a class of traces, as a JSON file: what `pyxsim workload learn` writes and `synthesize` reads.

A model has numbers and words of a fixed list only: no name of an operator, a file, a model or a machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

from pyxsim.collective.kinds import KINDS as COLLECTIVES
from pyxsim.errors import InputError, raise_all
from pyxsim.paths import created
from pyxsim.settings.network import MAX_NPUS
from pyxsim.textfile import read_text

FORMAT = "pyxsim workload model"
VERSION = 1
PARTS = 32  # of a program: each has transitions of its own
MOST_ORDER = 8
MOST_TASKS = 10**6  # of a rank
MOST_AXES = 8
MOST_POINTS = 64
MOST_ROWS = 10**6
MOST_TIME = 10**18  # ps
MOST_BYTES = 2**53
LAST_ROLE = 8  # of pipeline stages: their places in eighths, 0 for the first
MOST_BALANCE = 64
MOST_SINCE = 1000
OLDEST_FREE, ALL_FREE, AGAIN = 0, -1, -2  # instead of a number of tasks
START = -1  # instead of a symbol: the beginning of a program
KINDS = ("compute", "memory", "load", "store", "gather", "reduce", "send", "receive", "collective", "mark", "pause")
TIMED = ("compute", "memory", "pause")
SIZED = ("load", "store", "gather", "reduce", "send", "collective")
LANES = ("none", "cpu", "compute", "communication")
MOST_LANES = 128
STAGES = ("own", "all", "ends")
KEEPS = (
    "the mix of operators: kinds, lanes, groups and peers of tasks",
    "times of computations and bytes of communication, given the kind and what came before",
    "how many tasks wait for others, and for which",
    f"the order of tasks, in each of {PARTS} parts of a step and by place in the pipeline",
    "the number of tasks, the mean time and the mean bytes of each job, and how its ranks differ in times",
    "the parallelism: sizes of groups and number of pipeline stages",
)


@dataclass(frozen=True, order=True)
class Family:
    """A kind of tasks.

    Attributes
    ----------
    kind
        One of KINDS.
    what
        The kind of a collective, else "".
    where
        Of a collective, its group: the first axis, how many axes at the end do not take part, and the stages, one of
        STAGES. Of a message, the axis (-1: the pipeline) along which it goes, and how far. Else ().
    lane
        One of LANES or "lane N": what runs one task at a time.
    """

    kind: str
    what: str = ""
    where: tuple[int | str, ...] = ()
    lane: str = "none"


@dataclass(frozen=True)
class Symbol:
    """Tasks of a family that take about as long, or have about as many bytes, and wait for the same.

    Attributes
    ----------
    family
        Its row in `families`.
    values
        Equally likely times or bytes, ascending, relative to the mean of their job; none if there is no such value.
    waits
        Pairs (family, which): the `which`-th latest task of a family, or OLDEST_FREE, the earliest that nothing waits
        for yet, ALL_FREE, all of these, or AGAIN, the one that the last task of this family waited for.
    """

    family: int
    values: tuple[float, ...] = ()
    waits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Job:
    """The scale of a learned job.

    Attributes
    ----------
    axes, stages
        Its layout.
    tasks, forward
        Of a rank, by stage: its tasks, and the messages that it passes forward in the pipeline.
    time, bytes
        Means of the tasks that have a time (ps), and of those that have bytes.
    imbalance
        Equally likely times of a rank, ascending, relative to the mean of its stage.
    spread
        Equally likely times of one task on a rank, ascending, relative to its mean over ranks and to that of the rank.
    """

    axes: tuple[int, ...]
    stages: int
    tasks: tuple[int, ...]
    forward: tuple[int, ...]
    time: float
    bytes: float
    imbalance: tuple[float, ...] = (1.0,)
    spread: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Transitions:
    """How often symbols followed others.

    Attributes
    ----------
    role
        The place of the pipeline stage, from 0 to LAST_ROLE.
    part
        Of the program, from 0 to PARTS - 1.
    more
        Whether the stage has more messages to pass forward.
    balance
        Messages that the stage has passed forward minus those that came back for them: micro-batches in flight.
    since
        Tasks since the last message of the pipeline.
    previous
        The symbols before, the latest last; START stands for the beginning.
    next
        Pairs (symbol, count).
    """

    role: int
    part: int
    more: bool
    balance: int
    since: int
    previous: tuple[int, ...]
    next: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Model:
    """Statistics of traces. `order`: the most symbols in `previous`."""

    order: int
    traces: tuple[Job, ...]
    families: tuple[Family, ...]
    symbols: tuple[Symbol, ...]
    transitions: tuple[Transitions, ...]
    keeps: tuple[str, ...] = KEEPS


def write_model(model: Model, target: str) -> None:
    """Write a model. Raises InputError; the file appears when it is complete."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "keeps": list(model.keeps),
        "order": model.order,
        "traces": [vars(job) for job in model.traces],
        "families": [vars(family) for family in model.families],
        "symbols": [vars(symbol) for symbol in model.symbols],
        "transitions": [list(vars(row).values()) for row in model.transitions],
    }
    lines = []
    for key, value in data.items():
        if isinstance(value, list) and key != "keeps":
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            lines.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    with created(target) as stream:
        stream.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read_model(path: str) -> Model:
    """Read a model. Raises InputErrors: one line for each fault, with its key."""
    allowed = "a file that `pyxsim workload learn` has written"
    try:
        data = json.loads(read_text(path, "a model"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        problem = str(error) if isinstance(error, json.JSONDecodeError) else "a number is too long, or it is too deep"
        raise InputError(f"not valid JSON: {problem}", file=path, allowed=allowed) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError("is not a model of traces", file=path, key="format", allowed=f'"{FORMAT}", {allowed}')
    if data.get("version") != VERSION or isinstance(data["version"], bool):
        raise InputError(f"is version {data.get('version')!r:.40}", file=path, key="version", allowed=str(VERSION))
    return _Checked(path).model(data)


class _Checked:
    """Takes the values of a file, and collects what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[InputError] = []

    def fault(self, key: str, value: object, allowed: str) -> None:
        self.faults.append(InputError(f"is {value!r:.40}", file=self.file, key=key, allowed=allowed))
        if len(self.faults) > MOST_POINTS:
            raise_all(self.faults)

    def whole(self, value: object, key: str, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:
            self.fault(key, value, f"a whole number from {least} to {most}")
            return least
        return value

    def number(self, value: object, key: str, most: float) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            self.fault(key, value, f"a number from 0 to {most:g}")
            return 0.0
        return float(value)

    def items(self, value: object, key: str, least: int = 0, most: int = MOST_ROWS) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            self.fault(key, value, f"a list of {least} to {most} values")
            return []
        return value

    def word(self, value: object, key: str, words: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in words:
            given = value if isinstance(value, str) else None
            allowed = [each or "''" for each in words]
            self.faults.append(InputError(f"is {value!r:.40}", file=self.file, key=key, allowed=allowed, given=given))
            return words[0]
        return value

    def table(self, value: object, key: str, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fault(key, value, f"a table of {', '.join(keys)}")
            return {}
        for name in value:
            if name not in keys:
                self.faults.append(
                    InputError("is unknown", file=self.file, key=f"{key}.{name}"[:100], allowed=keys, given=name)
                )
        for name in keys:
            if name not in value:
                self.faults.append(InputError("is missing", file=self.file, key=f"{key}.{name}", allowed="one value"))
        return value if all(name in value for name in keys) else {}

    def rows(self, data: dict[str, Any], name: str, read: Callable[[Any, str], Any], least: int = 1) -> tuple[Any, ...]:
        rows = self.items(data[name], name, least)
        return tuple(read(row, f"{name}[{place}]") for place, row in enumerate(rows))

    def model(self, data: dict[str, Any]) -> Model:
        keys = ("format", "version", "keeps", "order", "traces", "families", "symbols", "transitions")
        table = self.table(data, "model", keys)
        raise_all(self.faults)
        keeps = tuple(str(text) for text in self.items(table["keeps"], "keeps", 0, MOST_POINTS))
        order = self.whole(table["order"], "order", 0, MOST_ORDER)
        jobs = self.rows(table, "traces", self.job)
        known = [job for job in jobs if job is not None]
        axes = max((len(job.axes) for job in known), default=MOST_AXES)
        stages = max((job.stages for job in known), default=MAX_NPUS)
        families = self.rows(table, "families", lambda row, key: self.family(row, key, axes, stages))
        raise_all(self.faults)
        symbols = self.rows(table, "symbols", lambda row, key: self.symbol(row, key, families))
        rows = self.rows(table, "transitions", lambda row, key: self.transition(row, key, len(symbols), order))
        raise_all(self.faults)
        return Model(order, jobs, families, symbols, rows, keeps)

    def job(self, row: object, key: str) -> Job | None:
        keys = ("axes", "stages", "tasks", "forward", "time", "bytes", "imbalance", "spread")
        table = self.table(row, key, keys)
        if not table:
            return None
        axes = self.items(table["axes"], f"{key}.axes", 1, MOST_AXES)
        sizes = tuple(self.whole(size, f"{key}.axes[{place}]", 1, MAX_NPUS) for place, size in enumerate(axes))
        stages = self.whole(table["stages"], f"{key}.stages", 1, MAX_NPUS)
        if prod(sizes) * stages > MAX_NPUS:
            self.fault(f"{key}.axes", axes, f"up to {MAX_NPUS} ranks in all stages together")
        return Job(
            sizes,
            stages,
            self.of_stages(table["tasks"], f"{key}.tasks", stages, 1),
            self.of_stages(table["forward"], f"{key}.forward", stages, 0),
            self.number(table["time"], f"{key}.time", MOST_TIME),
            self.number(table["bytes"], f"{key}.bytes", MOST_BYTES),
            self.values(table["imbalance"], f"{key}.imbalance", 1),
            self.values(table["spread"], f"{key}.spread", 1),
        )

    def of_stages(self, value: object, key: str, stages: int, least: int) -> tuple[int, ...]:
        rows = self.items(value, key, stages, stages)
        return tuple(self.whole(each, f"{key}[{place}]", least, MOST_TASKS) for place, each in enumerate(rows))

    def values(self, value: object, key: str, least: int = 0) -> tuple[float, ...]:
        rows = self.items(value, key, least, MOST_POINTS)
        numbers = tuple(self.number(each, f"{key}[{place}]", MOST_TIME) for place, each in enumerate(rows))
        if any(low > high for low, high in pairwise(numbers)):
            self.fault(key, value, "numbers in ascending order")
        return numbers

    def family(self, row: object, key: str, axes: int, stages: int) -> Family | None:
        """A family of jobs that have up to so many axes and stages."""
        table = self.table(row, key, ("kind", "what", "where", "lane"))
        if not table:
            return None
        kind = self.word(table["kind"], f"{key}.kind", KINDS)
        what = self.word(table["what"], f"{key}.what", tuple(COLLECTIVES) if kind == "collective" else ("",))
        lanes = (*LANES, *(f"lane {number}" for number in range(MOST_LANES)))
        where = self.where(kind, table["where"], f"{key}.where", axes, stages)
        return Family(kind, what, where, self.word(table["lane"], f"{key}.lane", lanes))

    def where(self, kind: str, value: object, key: str, axes: int, stages: int) -> tuple[int | str, ...]:
        if kind == "collective":
            cells = self.items(value, key, 3, 3) or [0, 0, "own"]
            first = self.whole(cells[0], f"{key}[0]", 0, axes)
            after = self.whole(cells[1], f"{key}[1]", 0, axes - first)
            return (first, after, self.word(cells[2], f"{key}[2]", STAGES))
        if kind in ("send", "receive"):
            axis, by = self.items(value, key, 2, 2) or [0, 1]
            if by == 0:
                self.fault(f"{key}[1]", by, "a number other than 0")
            axis = self.whole(axis, f"{key}[0]", -1, axes - 1)
            most = max(1, stages - 1) if axis == -1 else MAX_NPUS
            return (axis, self.whole(by, f"{key}[1]", -most, most))
        self.items(value, key, 0, 0)
        return ()

    def symbol(self, row: object, key: str, families: tuple[Family, ...]) -> Symbol | None:
        table = self.table(row, key, ("family", "values", "waits"))
        if not table:
            return None
        family = self.whole(table["family"], f"{key}.family", 0, len(families) - 1)
        valued = families[family].kind in (*TIMED, *SIZED) and families[family].what != "barrier"
        values = self.values(table["values"], f"{key}.values", 1 if valued else 0)
        waits = []
        for place, wait in enumerate(self.items(table["waits"], f"{key}.waits", 0, MOST_POINTS)):
            pair = self.items(wait, f"{key}.waits[{place}]", 2, 2)
            if pair:
                of = self.whole(pair[0], f"{key}.waits[{place}][0]", 0, len(families) - 1)
                waits.append((of, self.whole(pair[1], f"{key}.waits[{place}][1]", AGAIN, MOST_TASKS)))
        return Symbol(family, values, tuple(waits))

    def transition(self, row: object, key: str, symbols: int, order: int) -> Transitions | None:
        cells = self.items(row, key, 7, 7)
        if not cells:
            return None
        role, part, more, balance, since, before, after = cells
        if not isinstance(more, bool):
            self.fault(f"{key}[2]", more, "true or false")
        previous = self.items(before, f"{key}[5]", 0, order)
        following = []
        for place, pair in enumerate(self.items(after, f"{key}[6]", 1)):
            two = self.items(pair, f"{key}[6][{place}]", 2, 2)
            if two:
                symbol = self.whole(two[0], f"{key}[6][{place}][0]", 0, symbols - 1)
                following.append((symbol, self.whole(two[1], f"{key}[6][{place}][1]", 1, MOST_BYTES)))
        return Transitions(
            self.whole(role, f"{key}[0]", 0, LAST_ROLE),
            self.whole(part, f"{key}[1]", 0, PARTS - 1),
            bool(more),
            self.whole(balance, f"{key}[3]", -MOST_BALANCE, MOST_BALANCE),
            self.whole(since, f"{key}[4]", 0, MOST_SINCE),
            tuple(self.whole(each, f"{key}[5][{place}]", START, symbols - 1) for place, each in enumerate(previous)),
            tuple(following),
        )
