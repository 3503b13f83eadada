"""ASTRA-sim's shared bus between an NPU and its endpoint: LogGP instead of a fixed delay.

Alexandrov et al., "LogGP: Incorporating Long Messages into the LogP Model", SPAA 1995. A bus has two *sides*, which
send to each other, one at a time; the receiving side carries out reductions. A second bus of the same kind connects
the side of the NPU to the memory, and messages cross it first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Protocol

import numpy as np

from pyxsim.system.options import SharedBus

_IN_A_ROW = 8  # after more consecutive sends than this the other side goes first
_MEMORY_G = 0.0038  # of the bus to the memory, cycles per byte


class BusEvents(Protocol):
    """What a bus uses of the streams."""

    def across(self, side: int, size: int) -> None:
        """Note that a message of a member has crossed the bus."""

    def on_bus(self, npu: int, delay: int, number: int) -> None:
        """Schedule event `number` of the bus."""


class _State(Enum):
    FREE = auto()
    SENDING = auto()
    RECEIVING = auto()


class _Request:
    """A message that crosses a bus; `arrived` is called afterwards."""

    def __init__(self, size: int, pays: bool, back: bool, arrived: Callable[[], None]) -> None:
        self.size = size
        self.pays = pays
        self.back = back
        self.arrived = arrived


class _Side:
    """One side of a bus. `memory`: the bus in front of it, if any."""

    partner: _Side

    def __init__(self, npu: int, buses: SharedBuses, per_byte: float, memory: _Bus | None) -> None:
        self.npu = npu
        self.buses = buses
        self.per_byte = per_byte
        self.memory = memory
        self.state = self.before = _State.FREE
        self.last = 0
        self.in_a_row = 0
        self.processing = False
        self.sends: deque[_Request] = deque()
        self.receives: deque[_Request] = deque()
        self.processed: deque[_Request] = deque()

    # -- sending --

    def request(self, request: _Request) -> None:
        if self.memory is None:
            self.sends.append(request)
            self._send()
        else:
            # From the memory first.
            crossing = _Request(request.size, False, False, partial(self._to_send, request))
            self.memory.far.request(crossing)

    def _to_send(self, request: _Request) -> None:
        self.sends.append(request)
        self._send()

    def _send(self) -> None:
        """Send the next request if the bus is free; after many in a row the other side goes first."""
        if self.state != _State.FREE or not self.sends:
            return
        other = self.partner
        if self.in_a_row > _IN_A_ROW and other.sends and other.in_a_row <= _IN_A_ROW:
            other._send()
            return
        options, now = self.buses.options, self.buses.now
        offset = options.o
        if self.before == _State.SENDING and options.o + (now - self.last) <= options.g:
            offset = options.g - (now - self.last)
        request = self.sends[0]
        other.receive(request, offset)
        self.sends.popleft()
        self.state = _State.SENDING
        self.buses.later(self.npu, int(offset + self.per_byte * (request.size - 1)), self._sent)

    def _sent(self) -> None:
        self.last = self.buses.now
        self.before, self.state = self.state, _State.FREE
        self.in_a_row += 1
        self._send()

    # -- receiving --

    def receive(self, request: _Request, offset: int) -> None:
        options = self.buses.options
        self.receives.append(request)
        self.before, self.state = self.state, _State.RECEIVING
        delay = int(offset + (request.size - 1) * self.per_byte + options.L + options.o)
        self.buses.later(self.npu, delay, self._received)
        self.in_a_row = 0

    def _received(self) -> None:
        self.last = self.buses.now
        self.before = self.state
        if len(self.receives) < 2:
            self.state = _State.FREE
        request = self.receives[0]
        if request.pays:
            request.pays = False
            self.receives.popleft()
            if self.memory is None:
                self.processed.append(request)
            else:
                self._over_memory(request, True, self._to_process)
            self._process()
        else:
            self._onward(request, self.receives)
        self._send()

    def _onward(self, request: _Request, waiting: deque[_Request]) -> None:
        """Return a received and processed request to the other side, or finish it."""
        if request.back:
            request.back = False
            waiting.popleft()
            if self.memory is None:
                self.sends.append(request)
            else:
                self._over_memory(request, True, self._to_send)
        elif self.memory is None:
            request.arrived()
            waiting.popleft()
        else:
            self._over_memory(request, False, self._retired)
            waiting.popleft()

    def _over_memory(self, request: _Request, back: bool, then: Callable[[_Request], None]) -> None:
        """Cross the bus to the memory, and back with `back`."""
        if self.memory is not None:
            self.memory.near.request(_Request(request.size, False, back, partial(then, request)))

    def _retired(self, request: _Request) -> None:
        request.arrived()
        self._send()

    # -- processing --

    def _to_process(self, request: _Request) -> None:
        self.processed.append(request)
        self._process()
        self._send()

    def _process(self) -> None:
        if not self.processing and self.processed:
            self.processing = True
            self.buses.later(self.npu, self.buses.reduction(self.processed[0].size), self._done)

    def _done(self) -> None:
        self.processing = False
        self._onward(self.processed[0], self.processed)
        self._process()
        self._send()


class _Bus:
    """`near`: the side of the NPU; `far`: the other one."""

    def __init__(self, npu: int, buses: SharedBuses, per_byte: float, memory: _Bus | None = None) -> None:
        self.near = _Side(npu, buses, per_byte, memory)
        self.far = _Side(npu, buses, per_byte, None)
        self.near.partner, self.far.partner = self.far, self.near


class SharedBuses:
    """The buses of all NPUs."""

    def __init__(self, streams: BusEvents, options: SharedBus, npus: int) -> None:
        self.streams = streams
        self.options = options
        self.now = 0
        per_byte = float(np.float32(float(options.G)))  # single precision, as in ASTRA-sim
        self._buses = [_Bus(npu, self, per_byte, _Bus(npu, self, _MEMORY_G)) for npu in range(npus)]
        self._events: dict[int, Callable[[], None]] = {}
        self._numbers = 0

    def request(self, npu: int, who: int, size: int, pays: bool, back: bool, outward: bool, now: int) -> None:
        """Let a message of member `who` cross the bus of its NPU, outward or inward."""
        self.now = now
        bus = self._buses[npu]
        (bus.near if outward else bus.far).request(
            _Request(size, pays, back, partial(self.streams.across, who, size if pays else -1))
        )

    def event(self, number: int, now: int) -> None:
        """Run a scheduled action."""
        self.now = now
        self._events.pop(number)()

    def later(self, npu: int, delay: int, action: Callable[[], None]) -> None:
        """Schedule an action after `delay` cycles."""
        self._events[self._numbers] = action
        self.streams.on_bus(npu, delay, self._numbers)
        self._numbers += 1

    def reduction(self, size: int) -> int:
        """Return the cycles of a reduction."""
        return int(size // 100 * self.options.reduction) + self.options.reduction_start
