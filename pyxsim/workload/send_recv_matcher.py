"""Sends and receives in ASTRA-sim's order: a message that arrives ends its send, with all that follows, and only then
its receive. A receive that finds its message there ends in the same nanosecond, after what is to be done before.

The k-th send of a channel (from, to, tag, bytes) that leaves and the k-th receive of it that starts are a pair.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.system_services import EndCallback, SystemServices

_Channel = tuple[int, int, int, int]


class SendRecvMatcher:
    """The station of sends and receives. `pairs`: those that have been brought together."""

    def __init__(
        self, graph: TaskGraph, tasks: Longs, system: SystemServices, tell: EndCallback, messages: Mapping[int, Any]
    ) -> None:
        self.tasks = tasks
        self.pairs: list[tuple[int, int]] = []
        self.graph, self.system = graph, system
        self._tell, self._messages = tell, messages
        self._there: defaultdict[_Channel, deque[int]] = defaultdict(deque)  # sends that nobody has received
        self._awaited: defaultdict[_Channel, deque[int]] = defaultdict(deque)  # receives that wait

    def start(self, task: int) -> None:
        """A send or a receive starts, now."""
        if self.graph.kind[task] == Kind.SEND:
            self.send(task)
        else:
            self.receive(task)

    def send(self, task: int) -> None:
        """A message leaves."""
        self.system.hand_over(self._messages[task])

    def receive(self, task: int) -> None:
        """A message is expected."""
        if there := self._there[self._channel(task)]:
            self.pairs.append((there.popleft(), task))
            self.system.at(self.system.cycle, partial(self._tell, task))
        else:
            self._awaited[self._channel(task)].append(task)

    def arrived(self, send: int) -> None:
        """A message has."""
        channel = self._channel(send)
        receive = self._awaited[channel].popleft() if self._awaited[channel] else None
        self._tell(send)
        if receive is None:
            self._there[channel].append(send)
        else:
            self.pairs.append((send, receive))
            self._tell(receive)

    def _channel(self, task: int) -> _Channel:
        graph = self.graph
        own, peer = int(graph.npu[task]), int(graph.peer[task])
        ends = (own, peer) if graph.kind[task] == Kind.SEND else (peer, own)
        return (*ends, int(graph.match[task]), int(graph.size[task]))

    def waiting(self) -> list[str]:
        """What the job does not tell by itself: nothing."""
        return []
