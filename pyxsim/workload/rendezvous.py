"""A graph of tasks with ASTRA-sim 2's rendezvous protocol: a receive that starts asks for its message.

The k-th request from an NPU to another with a tag is for the k-th send between them with that tag that starts; the
message leaves when both are there. It ends its send, and then its receive.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pyxsim.system.astra.streams import REQUEST_BYTES
from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.hands import Hands, Station, Tell
from pyxsim.workload.in_turn import InTurn
from pyxsim.workload.run import Times

_Link = tuple[int, int, int]  # from, to, tag


class Rendezvous(InTurn):
    """Carries out a graph on AstraSystem, whose messages are asked for."""

    def __init__(self, graph: TaskGraph, *, place: str = "workload") -> None:
        super().__init__(graph, place=place)
        self.makers = (*self.makers, self._make_desk)
        self._desk: _Desk | None = None

    def _make_desk(self, graph: TaskGraph, system: Hands, tell: Tell) -> Station | None:
        tasks = np.flatnonzero(np.isin(graph.kind, (Kind.SEND, Kind.RECEIVE)))
        if len(tasks):
            tag = self._tag("requests")
            requests = {
                task: partial(system.send, int(graph.npu[task]), int(graph.peer[task]), REQUEST_BYTES, tag=tag)
                for task in tasks[graph.kind[tasks] == Kind.RECEIVE].tolist()
            }
            self._desk = _Desk(graph, tasks, system, tell, self._messages, requests)
        return self._desk

    def _hear(self, task: int, message: Any = None) -> None:
        if message is None or self._desk is None:
            super()._hear(task)
        else:
            self._desk.arrived(task)

    def times(self) -> Times:
        """When what happened."""
        times = super().times()
        if self._desk is None:
            return times
        partner = times.partner.copy()
        for send, receive in self._desk.pairs:
            partner[send], partner[receive] = receive, send
        return replace(times, partner=partner)


class _Desk:
    """The station of sends and receives. `pairs`: those whose message has arrived."""

    def __init__(
        self, graph: TaskGraph, tasks: Longs, system: Hands, tell: Tell, messages: dict[int, Any], requests: Any
    ) -> None:
        self.tasks = tasks
        self.pairs: list[tuple[int, int]] = []
        self._graph, self._system, self._tell = graph, system, tell
        self._messages, self._requests = messages, requests
        self._ready: defaultdict[_Link, deque[int]] = defaultdict(deque)  # sends that have not been asked for
        self._asked: defaultdict[_Link, deque[int]] = defaultdict(deque)  # receives whose request came before
        self._pair: dict[int, int] = {}  # the receive of a send

    def start(self, task: int) -> None:
        """A send or a receive starts, now."""
        graph = self._graph
        npu, peer, tag = int(graph.npu[task]), int(graph.peer[task]), int(graph.match[task])
        if graph.kind[task] == Kind.RECEIVE:
            link = (peer, npu, tag)
            request = self._requests[task](name="request", open=True, done=partial(self._requested, link, task))
            self._system.hand_over(request)
        elif receives := self._asked[npu, peer, tag]:
            # It leaves in this cycle, after what is to be done before.
            self._system.at(self._system.cycle, partial(self._leave, task, receives.popleft()))
        else:
            self._ready[npu, peer, tag].append(task)

    def _requested(self, link: _Link, receive: int, message: Any) -> None:
        if sends := self._ready[link]:
            self._leave(sends.popleft(), receive)
        else:
            self._asked[link].append(receive)

    def _leave(self, send: int, receive: int) -> None:
        self._pair[send] = receive
        self._system.hand_over(self._messages[send])

    def arrived(self, send: int) -> None:
        """A message has."""
        receive = self._pair.pop(send)
        self.pairs.append((send, receive))
        self._tell(send)
        self._tell(receive)

    def waiting(self) -> list[str]:
        """Sends that nobody has asked for, and receives whose request nobody has answered."""
        graph = self._graph
        sends = [task for tasks in self._ready.values() for task in tasks]
        receives = [task for tasks in self._asked.values() for task in tasks]
        lines = [f"{graph.label(task)} waits for NPU {graph.peer[task]} to ask for its message" for task in sends]
        return lines + [f"{graph.label(task)} waits for a message from NPU {graph.peer[task]}" for task in receives]
