"""What there is to see of the system layer: its phases as a table, and everything that it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyxsim.system.program import Program
from pyxsim.system.work import PointToPoint

if TYPE_CHECKING:
    from pyxsim.system.system import System

Longs = NDArray[np.int64]

COLUMNS = (
    "collective",
    "chunk",
    "phase",
    "rank",
    "dimension",
    "queue",
    "bytes",
    "ready",
    "start",
    "end",
    "messages",
    "network",
)


def chunk_table(system: System) -> dict[str, Longs]:
    """One row per chunk, phase and NPU that takes part; `rank` is the NPU. `chunk` counts over all collectives."""
    parts: dict[str, list[Longs]] = {name: [] for name in COLUMNS}
    chunks = 0
    for number, collective in enumerate(system.collectives):
        members = np.array(collective.communicator.members)
        for chunk in collective.chunks:
            for stage in chunk.stages:
                part = np.array([position for task in stage.tasks for position in task.positions])
                part.sort()
                same = {
                    "collective": number,
                    "chunk": chunks,
                    "phase": stage.number,
                    "dimension": stage.dimension,
                    "queue": stage.place,
                }
                for name, value in same.items():
                    parts[name].append(np.full(len(part), value))
                parts["rank"].append(members[part])
                parts["bytes"].append(stage.phase.bytes_in[part])
                for name in ("ready", "start", "end", "messages", "network"):
                    parts[name].append(np.array(getattr(stage, name))[part])
            chunks += 1
    empty = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([empty, *columns]).astype(np.int64) for name, columns in parts.items()}


def traffic(system: System) -> Longs:
    """Rows (source, destination, plane, bytes, how many), int64[K, 5], sorted; each of the first four once."""
    alike: dict[tuple[int, int, int, tuple[int, ...]], int] = {}
    programs: dict[int, Program] = {}
    rows = [np.zeros((0, 5), np.int64)]
    for task in system.tasks:
        if isinstance(task, PointToPoint):
            rows.append(np.array([[task.src, task.dst, system.plane_between(task.src, task.dst), task.size, 1]]))
            continue
        programs[id(task.program)] = task.program
        key = (id(task.program), *task.planes, tuple(task.members))
        alike[key] = alike.get(key, 0) + 1
    for (program_id, forward, back, npus), count in alike.items():
        program, members = programs[program_id], np.array(npus)
        sent = (program.src != program.dst) & (program.size > 0)
        src, dst = members[program.src[sent]], members[program.dst[sent]]
        plane = np.where(program.way[sent] > 0, forward, back)
        rows.append(np.stack([src, dst, plane, program.size[sent], np.full(len(src), count)], axis=1))
    every = np.concatenate(rows)
    if not len(every):
        return every
    every = every[np.lexsort(every[:, 3::-1].T)]
    new = np.ones(len(every), dtype=bool)
    new[1:] = (every[1:, :4] != every[:-1, :4]).any(axis=1)
    found = every[new]
    found[:, 4] = np.add.reduceat(every[:, 4], np.flatnonzero(new))
    return found
