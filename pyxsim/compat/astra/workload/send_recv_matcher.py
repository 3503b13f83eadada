"""Sends and receives in the order of events of ASTRA-sim.

A message that arrives ends its send, with everything that follows from it, and only then its receive. A receive that
starts after its message has arrived ends in the same nanosecond, after the events that are already scheduled.

The k-th send of a channel (source, destination, tag, bytes) that arrives matches the k-th receive of it that starts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyxsim.arrays import IntArray
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor

_Channel = tuple[int, int, int, int]


class SendRecvMatcher(TaskExecutor):
    """Carries out sends and receives. `pairs`: the (send, receive) that have been matched."""

    def __init__(
        self, graph: TaskGraph, tasks: IntArray, system: SystemServices, ended: EndCallback, messages: Mapping[int, Any]
    ) -> None:
        self.tasks = tasks
        self.pairs: list[tuple[int, int]] = []
        self.graph, self.system = graph, system
        self._ended, self._messages = ended, messages
        self._arrived: defaultdict[_Channel, deque[int]] = defaultdict(deque)  # sends without a receive
        self._waiting: defaultdict[_Channel, deque[int]] = defaultdict(deque)  # receives without a message

    def start(self, task: int) -> None:
        """Start a send or a receive in the current cycle."""
        if self.graph.kind[task] == Kind.SEND:
            self.send(task)
        else:
            self.receive(task)

    def send(self, task: int) -> None:
        """Send the message of a task."""
        self.system.hand_over(self._messages[task])

    def receive(self, task: int) -> None:
        """Match a receive with an arrived message, or let it wait."""
        if arrived := self._arrived[self._channel(task)]:
            self.pairs.append((arrived.popleft(), task))
            self.system.at(self.system.cycle, partial(self._ended, task))
        else:
            self._waiting[self._channel(task)].append(task)

    def arrived(self, send: int) -> None:
        """Take in the message of a send."""
        channel = self._channel(send)
        receive = self._waiting[channel].popleft() if self._waiting[channel] else None
        self._ended(send)
        if receive is None:
            self._arrived[channel].append(send)
        else:
            self.pairs.append((send, receive))
            self._ended(receive)

    def _channel(self, task: int) -> _Channel:
        graph = self.graph
        npu, peer = int(graph.npu[task]), int(graph.peer[task])
        ends = (npu, peer) if graph.kind[task] == Kind.SEND else (peer, npu)
        return (*ends, int(graph.match[task]), int(graph.size[task]))
