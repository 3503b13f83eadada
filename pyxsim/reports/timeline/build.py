"""Build the trace of a result within its budget of events; what is left out is listed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.timeline import system_tracks, task_tracks
from pyxsim.reports.timeline.choose import Choice
from pyxsim.reports.timeline.clock import Clock
from pyxsim.reports.timeline.counters import flow_counters, link_counters, network_counters
from pyxsim.reports.timeline.trace_model import NAMING, Counter, Slices, Trace
from pyxsim.reports.timeline.view import View
from pyxsim.results.result import Result


def build(result: Result, view: View | None = None) -> Trace:
    """Return the trace of a result. Raises InputError for a view that does not fit it."""
    view = view or View()
    view.check()
    clock = Clock.of(result, view.cycles(result))
    npus, links, counters = view.chosen_npus(result), view.chosen_links(result), view.chosen_counters(result)
    making = _Making(result, clock, view.most_events)
    making.whole()
    making.some("collectives", partial(system_tracks.collective_slices, result))
    making.some("messages", partial(system_tracks.message_slices, result))
    if result.work is not None:
        making.some("critical path", partial(task_tracks.path_slices, result.work))
    making.network()
    making.flows()
    choice = Choice(result, clock, npus)
    shown = making.links(links, counters, choice.demand)
    making.npus(choice)
    making.about |= _description(result, clock, making.trace, shown)
    return making.trace


_PROCESSES = 20
"""Events that name the processes which are not NPUs."""


class _Making:
    """A trace under construction; `room` is the remaining budget of events."""

    def __init__(self, result: Result, clock: Clock, room: int) -> None:
        self.result, self.clock, self.room = result, clock, room - _PROCESSES
        self.trace = Trace()
        self.about = self.trace.about

    def whole(self) -> None:
        """Add a slice for the run, with its description."""
        thread = self.trace.thread(self.trace.process("run"), "run")
        bounds = self.clock.ns([0, self.clock.end])
        title, about = self.result.title, self.about
        self._add(Slices("run", np.array([thread]), bounds[:1], bounds[1:], lambda _: title, lambda _: about))

    def some(self, name: str, make: Any) -> None:
        """Add the first slices of usually small kinds; each may need its own thread."""
        trace, most = self.trace, self.room // (4 * (1 + NAMING))
        slices: Slices | None = make(self.clock, trace, name)
        if slices is None:
            return
        if len(slices) > most:
            trace.left_out.append(f"{len(slices) - most:,} of {len(slices):,} {name}, namely those that begin last")
            slices = slices.only(np.sort(np.argsort(slices.begin, kind="stable")[:most]))
        self._add(slices)
        self.room -= NAMING * len(trace.processes[-1].threads)

    def network(self) -> None:
        """Add counters of the whole network."""
        process = self.trace.process("network")
        counters = list(network_counters(self.result, self.clock, process.pid))
        gone = len(counters) - self._count(counters, self.room // 4)
        if gone:
            self.trace.left_out.append(f"{gone} of {len(counters)} counters of the network")

    def flows(self) -> None:
        """Add counters of the sampled flows."""
        if "flow_windows" not in self.result.backend_tables:
            return
        counters = list(flow_counters(self.result, self.clock, self.trace.process("flows").pid))
        gone = len(counters) - self._count(counters, self.room // 4)
        if gone:
            self.trace.left_out.append(f"{gone} of {len(counters)} counters of flows")

    def links(self, links: IntArray, names: list[str], demand: int) -> int:
        """Add counters of the busiest links and return their number.

        They get the budget that NPUs do not need (`demand`), at least a third.
        """
        process = self.trace.process("links")
        most, shown = max(self.room // 3, self.room - demand), 0
        for link in links.tolist():
            counters = list(link_counters(self.result, self.clock, process.pid, link, names))
            if sum(map(len, counters)) > most:
                break
            most -= sum(map(len, counters))
            self._count(counters, self.room)
            shown += 1
        if gone := len(links) - shown:
            self.trace.left_out.append(f"{gone:,} of {len(links):,} links, namely the least busy")
        return shown

    def npus(self, choice: Choice) -> None:
        """Add the activities of NPUs."""
        result, clock, trace = self.result, self.clock, self.trace
        rows, gone = choice.within(self.room)
        trace.left_out += gone
        # Perfetto orders processes by name, and shows their numbers behind it: "NPU 07 1007".
        digits = len(str(max(0, int(result.counts.get("npus", 1)) - 1)))
        first = 10 ** max(3, digits)
        process = {npu: trace.process(f"NPU {npu:0{digits}}", first + npu) for npu in rows.npus.tolist()}
        work, doing = result.work, []
        if work is not None and len(rows.work):
            doing = list(task_tracks.work_slices(work, clock, trace, rows, process))
            trace.slices += doing
        chunks = system_tracks.chunk_slices(result, clock, trace, rows.chunks, process) if len(rows.chunks) else None
        trace.slices += [chunks] if chunks is not None else []
        if work is not None and work.tasks and doing:
            trace.arrows += task_tracks.arrows(work, result, doing[-1], rows, chunks)
        self.about["npus"] = _of(len(process), int(result.counts.get("npus", 0)))

    def _add(self, slices: Slices) -> None:
        self.trace.slices.append(slices)
        self.room -= len(slices)

    def _count(self, counters: list[Counter], most: int) -> int:
        """Add the counters that fit into the budget, and return their number."""
        kept = []
        for counter in counters:
            if len(counter) <= most:
                kept.append(counter)
                most -= len(counter)
        self.trace.counters += kept
        self.room -= sum(map(len, kept))
        return len(kept)


def _description(result: Result, clock: Clock, trace: Trace, links: int) -> dict[str, Any]:
    """The description of the trace: of the run's slice, and of the file."""
    facts = {
        "made_by": f"pyxsim {result.provenance.get('version', '')}",
        "experiment": result.title,
        "backend": result.backend,
        "seed": result.seed,
        "complete": int(result.complete),
        "failure": result.failure,
        "cycles": result.time_cycles,
        "clock_hz": str(result.clock_hz),
        "time_ns": result.time_ns,
        "lower_bound_ns": result.lower_bound_ns,
        "shown_cycles": f"{clock.first} to {clock.last}",
        "links": _of(links, len(result.links)),
        "left_out": "; ".join(trace.left_out),
    }
    return {key: value for key, value in facts.items() if value not in (None, "")}


def _of(shown: int, total: int) -> str:
    return f"{shown:,} of {total:,}"
