"""A graph of tasks with the rendezvous protocol of ASTRA-sim 2: a receive requests its message.

The k-th request between two NPUs with a tag is for the k-th send with that tag that starts. The message leaves when
both are there, and is expected from the arrival of the request.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from functools import partial
from typing import Any

from pyxsim.arrays import IntArray
from pyxsim.compat.astra.system.refuse import refuse_large_request
from pyxsim.compat.astra.system.streams import REQUEST_BYTES
from pyxsim.compat.astra.workload.send_recv_matcher import SendRecvMatcher
from pyxsim.compat.astra.workload.sequential_job import SequentialGraphJob
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.system_services import EndCallback, SystemServices

_Channel = tuple[int, int, int]  # source, destination, tag


class RendezvousJob(SequentialGraphJob):
    """A sequential graph job whose receives request their messages."""

    def matcher(self, graph: TaskGraph, tasks: IntArray, system: SystemServices, ended: EndCallback) -> SendRecvMatcher:
        """Return the executor of sends and receives."""
        refuse_large_request(system.options, int(graph.size[tasks].max(initial=0)), self._key)
        tag = self._tag("requests", 0)
        requests = {
            task: partial(system.send, int(graph.npu[task]), int(graph.peer[task]), REQUEST_BYTES, tag=tag)
            for task in tasks[graph.kind[tasks] == Kind.RECEIVE].tolist()
        }
        return _RequestMatcher(graph, tasks, system, ended, self._messages, requests)


class _RequestMatcher(SendRecvMatcher):
    """Sends messages when they have been requested."""

    def __init__(self, *args: Any) -> None:
        *others, self._requests = args
        super().__init__(*others)
        self._ready: defaultdict[_Channel, deque[int]] = defaultdict(deque)  # sends without a request
        self._requested: Counter[_Channel] = Counter()  # requests without a send

    def send(self, task: int) -> None:
        """Send the message of a task if it was requested, else let it wait."""
        graph = self.graph
        channel = (int(graph.npu[task]), int(graph.peer[task]), int(graph.match[task]))
        if self._requested[channel]:
            # It leaves in this cycle, after the events that are already scheduled.
            self._requested[channel] -= 1
            self.system.at(self.system.cycle, partial(super().send, task))
        else:
            self._ready[channel].append(task)

    def receive(self, task: int) -> None:
        """Send a request for the message of a task."""
        self.system.hand_over(
            self._requests[task](name="request", open=True, done=partial(self._request_arrived, task))
        )

    def _request_arrived(self, receive: int, message: Any) -> None:
        graph = self.graph
        super().receive(receive)
        channel = (int(graph.peer[receive]), int(graph.npu[receive]), int(graph.match[receive]))
        if sends := self._ready[channel]:
            super().send(sends.popleft())
        else:
            self._requested[channel] += 1

    def waiting(self) -> list[str]:
        """Return a line for each send without a request."""
        graph = self.graph
        sends = [task for tasks in self._ready.values() for task in tasks]
        return [f"{graph.label(task)} waits for a request from NPU {graph.peer[task]}" for task in sends]
