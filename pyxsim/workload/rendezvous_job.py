"""A graph of tasks with ASTRA-sim 2's rendezvous protocol: a receive that starts asks for its message.

The k-th request from an NPU to another with a tag is for the k-th send between them with that tag that starts; the
message leaves when both are there, and is expected from when the request has come.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from functools import partial
from typing import Any

from pyxsim.system.options import REQUEST_BYTES
from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.send_recv_matcher import SendRecvMatcher
from pyxsim.workload.sequential_job import SequentialGraphJob
from pyxsim.workload.system_services import EndCallback, SystemServices

_Link = tuple[int, int, int]  # from, to, tag


class RendezvousJob(SequentialGraphJob):
    """Carries out a graph on the system layer of ASTRA-sim, whose messages are asked for."""

    def desk(self, graph: TaskGraph, tasks: Longs, system: SystemServices, tell: EndCallback) -> SendRecvMatcher:
        """The station of sends and receives."""
        tag = self._tag("requests")
        requests = {
            task: partial(system.send, int(graph.npu[task]), int(graph.peer[task]), REQUEST_BYTES, tag=tag)
            for task in tasks[graph.kind[tasks] == Kind.RECEIVE].tolist()
        }
        return _Asking(graph, tasks, system, tell, self._messages, requests)


class _Asking(SendRecvMatcher):
    """Messages leave when they have been asked for."""

    def __init__(self, *args: Any) -> None:
        *others, self._requests = args
        super().__init__(*others)
        self._ready: defaultdict[_Link, deque[int]] = defaultdict(deque)  # sends that have not been asked for
        self._asked: Counter[_Link] = Counter()  # requests that came before

    def send(self, task: int) -> None:
        """A message is ready."""
        graph = self.graph
        link = (int(graph.npu[task]), int(graph.peer[task]), int(graph.match[task]))
        if self._asked[link]:
            # It leaves in this cycle, after what is to be done before.
            self._asked[link] -= 1
            self.system.at(self.system.cycle, partial(super().send, task))
        else:
            self._ready[link].append(task)

    def receive(self, task: int) -> None:
        """A message is asked for."""
        self.system.hand_over(self._requests[task](name="request", open=True, done=partial(self._requested, task)))

    def _requested(self, receive: int, message: Any) -> None:
        graph = self.graph
        super().receive(receive)
        link = (int(graph.peer[receive]), int(graph.npu[receive]), int(graph.match[receive]))
        if sends := self._ready[link]:
            super().send(sends.popleft())
        else:
            self._asked[link] += 1

    def waiting(self) -> list[str]:
        """Sends that nobody has asked for."""
        graph = self.graph
        sends = [task for tasks in self._ready.values() for task in tasks]
        return [f"{graph.label(task)} waits for NPU {graph.peer[task]} to ask for its message" for task in sends]
