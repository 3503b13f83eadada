"""Collectives, messages between NPUs, and the times of their chunks."""

from __future__ import annotations

import numpy as np

from pyxsim.results.dataset import Column, Dataset, add, add_rows, has_rows
from pyxsim.results.result import Result

DIMENSION = Column("dimension", "1", "network dimension of the phase; -1: several dimensions at once")
COLLECTIVE = Column("collective", "1", "number of the collective, which is its row in /collectives")
NETWORK = Column("network", "cycles", "mean time of a message in the network", "float64")

add(
    Dataset(
        "chunks",
        "One row per chunk, phase and participating NPU.",
        (
            COLLECTIVE,
            Column("chunk", "1", "number of the chunk, counted over all collectives"),
            Column("phase", "1", "phase of the chunk's plan, counted from 0"),
            Column("rank", "1", "NPU"),
            DIMENSION,
            Column("queue", "1", "number of the queue in its dimension"),
            Column("bytes", "bytes", "bytes of the chunk on this NPU at the start of the phase"),
            Column(
                "ready", "cycles", "cycle in which the chunk is ready for the phase; -1: did not happen in this run"
            ),
            Column("start", "cycles", "cycle in which the phase starts; -1: did not happen in this run"),
            Column("end", "cycles", "cycle in which the phase ends; -1: did not happen in this run"),
            Column("messages", "1", "messages received in the phase; -1: the phase did not end in this run"),
            Column(
                "network",
                "cycles",
                "total time of these messages in the network; -1: the phase did not end in this run",
            ),
        ),
        lambda result: result.chunks,
        restored="columns",
    )
)
add(
    Dataset(
        "collectives",
        "One row per collective; for requests, one row for all calls of a layer's collective, without bounds.",
        (
            Column("name", "", "name of the collective", "text", optional=True),
            Column("kind", "", "kind of the collective", "text", optional=True),
            Column(
                "group",
                "",
                "participants: the name of a group, a list of NPUs, dimensions, or all",
                "text",
                optional=True,
            ),
            Column("npus", "1", "number of participating NPUs", optional=True),
            Column("root", "1", "root NPU; -1: no root, or one root per group", optional=True),
            Column("algorithm", "", "algorithm of each dimension", "text", optional=True),
            Column("start", "cycles", "cycle in which the collective is issued"),
            Column("end", "cycles", "cycle in which the last NPU finishes; -1: did not happen in this run"),
            Column(
                "bytes",
                "bytes",
                "size of the buffer of one NPU; for an all-gather, of the shard that one NPU contributes; "
                "mean of all calls",
            ),
            Column("lower_bound", "cycles", "lower bound of the time on these links", "float64"),
            Column("ratio", "1", "ratio of the time to its lower bound", "float64"),
            Column("optimum", "cycles", "lower bound of the time with any algorithm", "float64", optional=True),
            Column("calls", "1", "number of calls; -1: not repeated", optional=True),
            Column("time", "cycles", "mean time of the calls that have ended", "float64", optional=True),
        ),
        lambda result: result.collectives,
        ("collective",),
        restored="rows",
        json=True,
    )
)
add_rows(
    "point_to_point",
    "One row per point-to-point message outside collectives.",
    (
        Column("name", "", "name of the message", "text"),
        Column("src", "1", "sending NPU"),
        Column("dst", "1", "receiving NPU"),
        Column("bytes", "bytes", "size of the message"),
        Column("start", "cycles", "cycle in which the message is sent"),
        Column("end", "cycles", "cycle in which the receiver has processed it; -1: did not happen in this run"),
    ),
    ("message",),
    when="with messages outside collectives",
)


def _dimensions(result: Result) -> dict[str, object]:
    names = dict(enumerate(result.dimension_names))
    columns = result.dimensions
    return {**columns, "name": [names.get(dim, "several") for dim in columns.get("dimension", np.zeros(0)).tolist()]}


add(
    Dataset(
        "dimensions",
        "One row per network dimension, and one (-1) for phases and messages that use several dimensions.",
        (
            Column("dimension", "1", "network dimension; -1: several dimensions at once"),
            Column("bytes", "bytes", "bytes of messages between NPUs that differ in this dimension only"),
            Column(
                "occupancy",
                "1",
                "share of the run in which an NPU has an active chunk in the dimension; mean over the NPUs",
                "float64",
            ),
            Column("occupancy_npu0", "1", "the same for NPU 0", "float64"),
            Column(
                "queueing",
                "cycles",
                "mean wait of a chunk on an NPU, from when it is ready to the start of the phase",
                "float64",
            ),
            NETWORK,
            Column("name", "", "description of the dimension", "text", derived=True),
        ),
        _dimensions,
        when="with collectives or a workload",
        present=lambda result: has_rows(result.dimensions),
        coordinates=("name",),
        restored="columns",
        json=True,
    )
)
add(
    Dataset(
        "phases",
        "One row per collective, phase and dimension.",
        (
            COLLECTIVE,
            Column("phase", "1", "phase of the plan, counted from 0"),
            DIMENSION,
            Column("npus", "1", "number of participating NPUs"),
            Column("chunks", "1", "chunks"),
            Column("start", "cycles", "cycle in which the first NPU starts; -1: did not happen in this run"),
            Column(
                "end", "cycles", "cycle in which the last NPU finishes the last chunk; -1: did not happen in this run"
            ),
            Column("kind", "", "collective kind of the phase", "text"),
            Column("time", "cycles", "mean time of a chunk's phase on an NPU", "float64"),
            Column("queueing", "cycles", "mean wait before the phase", "float64"),
            NETWORK,
        ),
        lambda result: result.phases,
        when="with collectives or a workload",
        present=lambda result: has_rows(result.phases),
        restored="columns",
        json=True,
    )
)
