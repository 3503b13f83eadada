"""`pyxsim.Simulator`: a network that another simulator drives message by message (docs/library.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import IntArray
from pyxsim.embed.exchange import Exchange
from pyxsim.embed.outside_network import outside_network
from pyxsim.errors import InputError, StuckError
from pyxsim.settings import folder_of, load_experiment
from pyxsim.settings.load import Source
from pyxsim.settings.toml import parse_toml
from pyxsim.settings.types import listed
from pyxsim.textfile import read_text
from pyxsim.units import parse_duration, to_cycles

AT_ONCE = -1
LIMIT = 2**63
MOST_WAITS = 8  # receptions that an error lists

Callback = Callable[[], Any]


class Arrivals(NamedTuple):
    """Messages that have arrived.

    Attributes
    ----------
    message
        int64[K], the numbers that `submit` returned.
    cycle
        int64[K], when their receivers had taken them in.
    """

    message: IntArray
    cycle: IntArray


@dataclass(frozen=True)
class Statistics:
    """What the network has done up to a cycle.

    Attributes
    ----------
    cycle
        The current cycle.
    messages_sent, messages_arrived
        Messages; those not yet due count as sent.
    bytes_delivered
        Bytes of messages that have reached their receivers.
    link
        Names of the links.
    flits, bytes
        int64[links], what each link has carried, with the padding of flits; zeros where the backend does not count.
    busy
        float64[links], cycles in which the link was occupied.
    counters
        Every counter of the backend, int64[links], such as the causes of stalls.
    """

    cycle: int
    messages_sent: int
    messages_arrived: int
    bytes_delivered: int
    link: list[str]
    flits: IntArray
    bytes: IntArray
    busy: NDArray[np.float64]
    counters: dict[str, IntArray]

    @property
    def utilization(self) -> NDArray[np.float64]:
        """float64[links], the part of the time in which each link was busy."""
        return self.busy / max(self.cycle, 1)


class Simulator:
    """A network that another simulator drives.

    Times are cycles of the network's clock (`clock_hz`, by default 1 GHz), or texts such as "5 us", rounded up.
    A message takes exactly the time that it takes as a `[[message]]` of an experiment.

    Parameters
    ----------
    source
        A TOML or JSON file, a dict or an Experiment with the table `[network]`, and without collectives, messages,
        traffic and workload.
    overrides
        Settings such as "network.router.vcs=8", which replace those of the source.
    backend
        The network model: packet, analytical, analytical-congestion, flow, ethernet, or a registered one.
    libraries
        Folders with topologies, routings and backends of your own.
    allow_deadlock
        Use routes that are not proved free of deadlock, with a warning.

    Attributes
    ----------
    npus
        Endpoints, numbered from 0.
    clock_hz
        Cycles per second.
    warnings
        Lines for the user.

    Raises
    ------
    InputError
        For settings that are wrong, or have no effect here.
    DeadlockError, UnreachableError
        When the routes between all pairs of NPUs are not proved.
    """

    def __init__(
        self,
        source: Source,
        *,
        overrides: Iterable[str] = (),
        backend: str = "packet",
        libraries: Iterable[str | Path] = (),
        allow_deadlock: bool = False,
    ) -> None:
        libraries = listed(libraries)
        folder = folder_of(source)
        if isinstance(source, str | Path) and str(source).endswith(".json"):
            source = _parse_json(read_text(source, "a JSON file"), str(source))
        experiment = load_experiment(source, overrides, libraries, work=False)
        outside = outside_network(experiment, folder, libraries, backend, allow_deadlock=allow_deadlock)
        self._network = network = outside.network
        self.npus: int = network.npus
        self.clock_hz: Fraction = network.clock_hz
        self.warnings: list[str] = outside.warnings
        self.exchange = Exchange(
            network,
            outside.options.endpoint_delays(self.npus),
            [outside.options.skew(npu) for npu in range(self.npus)],
            outside.topology.shape,
            outside.planes,
        )

    @classmethod
    def from_text(cls, text: str, **options: Any) -> Self:
        """Return the simulator of settings as TOML, or as JSON if the text begins with a brace. Raises InputError.

        `options`: as for `Simulator`.
        """
        return cls(_parse_json(text) if text.lstrip().startswith("{") else parse_toml(text), **options)

    # -- messages --

    def send(
        self,
        src: int,
        dst: int,
        size: int,
        tag: int | None = None,
        callback: Callback | None = None,
        *,
        at: int | str | None = None,
    ) -> int:
        """Send a message, and return its number.

        Parameters
        ----------
        src, dst
            NPUs.
        size
            Bytes, at least 1.
        tag
            A 64-bit integer, by which `recv` finds the message; None for a message without a reception.
        callback
            Called without arguments in the cycle in which the receiver has taken the message in.
        at
            When it is sent, a cycle or a time; by default now.

        Raises
        ------
        InputError
            For NPUs that do not exist, a size out of range, and a time in the past.
        """
        _check_range(src, dst, size, tag or 0)
        return self.exchange.send(src, dst, size, tag, callback, self._cycle(at))

    def recv(self, src: int, dst: int, size: int, tag: int, callback: Callback | None = None) -> None:
        """Call `callback` when the message with this source, destination, size and tag is there.

        Messages and receptions of the same four values match in their order, as in ASTRA-sim. A message that has
        arrived before is received at once, in the current cycle. Raises InputError as `send`.
        """
        _check_range(src, dst, size, tag)
        self.exchange.recv(src, dst, size, tag, callback)

    def submit(self, src: ArrayLike, dst: ArrayLike, size: ArrayLike, *, at: int | str | None = None) -> IntArray:
        """Send K messages without callbacks and receptions, and return their numbers, int64[K].

        Each argument is an array of K integers, or one for all. `advance` returns when they arrive. Raises InputError
        as `send`; nothing is sent then.
        """
        columns = np.broadcast_arrays(*(np.asarray(column) for column in (src, dst, size)))
        if any(column.ndim > 1 or column.dtype.kind not in "iu" for column in columns):
            raise InputError("messages are arrays of integers", allowed="int64[K], or one integer for all")
        rows = [np.ascontiguousarray(np.atleast_1d(column), np.int64) for column in columns]
        first = self.exchange.submit(rows[0], rows[1], rows[2], self._cycle(at))
        return np.arange(first, first + len(rows[0]))

    def schedule(self, delay: int | str, callback: Callback) -> None:
        """Call `callback` without arguments after a delay, in cycles or a time such as "5 us".

        Raises InputError for a negative delay.
        """
        at = self.now + self._cycles(delay, "a delay")
        _check_range(at)
        self.exchange.schedule(at, callback)

    # -- time --

    @property
    def now(self) -> int:
        """The current cycle."""
        return self.exchange.now

    @property
    def now_ns(self) -> float:
        """The current time in nanoseconds."""
        return float(self.now * 10**9 / self.clock_hz)

    def advance(self, until: int | str | None = None) -> Arrivals:
        """Let time pass, and call what is due.

        Parameters
        ----------
        until
            The last cycle, or its time: afterwards it is the current one, everything due in it has happened, and
            messages can still be sent in it. None: until nothing is left to do.

        Returns
        -------
        Arrivals
            Messages of `submit` that have arrived.

        Raises
        ------
        InputError
            For a time in the past, and for a call from a callback.
        SimulationError
            When the simulated network fails, for example in a deadlock.
        """
        self.exchange.advance(None if until is None else self._cycle(until))
        table = np.empty((self.exchange.arrivals_left(), 2), np.int64)
        self.exchange.take_arrivals(table)
        return Arrivals(table[:, 0], table[:, 1])

    def stop(self) -> None:
        """Let `advance` return at the end of the current cycle; for callbacks."""
        self.exchange.stop()

    @property
    def messages_in_flight(self) -> int:
        """Messages that have not arrived, also those that are sent later."""
        return self.exchange.sent - self.exchange.arrived

    @property
    def receptions_waiting(self) -> int:
        """Receptions whose message has not arrived."""
        return self.exchange.receiving

    def check_received(self) -> None:
        """Raise StuckError if a reception still waits, with what it waits for."""
        if count := self.receptions_waiting:
            waits = [
                f"NPU {dst} waits for {size} bytes from NPU {src}, tag {tag}"
                for src, dst, size, tag in self.exchange.waiting(MOST_WAITS)
            ]
            raise StuckError(f"{count} receptions wait in cycle {self.now}: {waits[0]}", waits[1:])

    # -- results --

    def statistics(self) -> Statistics:
        """Return the counters of all links up to now."""
        network, counters = self._network, self._network.totals()
        flits, params = counters["flits"], network.link_params[: len(counters["flits"])]
        times = np.array([float(param.s) for param in params])
        return Statistics(
            cycle=self.now,
            messages_sent=self.exchange.sent,
            messages_arrived=self.exchange.arrived,
            bytes_delivered=network.bytes_delivered,
            link=network.link_names()[: len(flits)],
            flits=flits,
            bytes=flits * network.settings.flit,
            busy=flits * times,
            counters=counters,
        )

    def close(self) -> None:
        """End the simulation; every further call but `now` and `statistics` raises InputError."""
        self.exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cycle(self, at: int | str | None) -> int:
        return AT_ONCE if at is None else self._cycles(at, "a time")

    def _cycles(self, time: int | str, what: str) -> int:
        if isinstance(time, str):
            time = to_cycles(parse_duration(time), self.clock_hz)[0]
        _check_range(time)
        if time < 0:
            raise InputError(f"{time} is not {what}", allowed="0 or more cycles, or a text such as '5 us'")
        return time


def _check_range(*numbers: int) -> None:
    """Raise InputError for numbers that the loop cannot hold."""
    for number in numbers:
        if not -LIMIT <= number < LIMIT:
            raise InputError(f"{number} is out of range", allowed="integers of 64 bits")


def _parse_json(text: str, file: str = "JSON") -> Mapping[str, Any]:
    try:
        tables = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}", file=file) from None
    if not isinstance(tables, dict):
        raise InputError("not an experiment", file=file, allowed="an object with the key 'network'")
    return tables
