"""Collectives, messages between NPUs, and where the time of their chunks went."""

from __future__ import annotations

import numpy as np

from pyxsim.results.dataset import Column, Dataset, add, has_rows
from pyxsim.results.result import Result

DIMENSION = Column("dimension", "1", "network dimension in which the phase runs; -1: several at once")
COLLECTIVE = Column("collective", "1", "number of the collective, the row of /collectives")
NETWORK = Column("network", "cycles", "time of a message in the network, mean", "float64")

add(
    Dataset(
        "chunks",
        "One row per chunk, phase and NPU that takes part.",
        (
            COLLECTIVE,
            Column("chunk", "1", "number of the chunk, over all collectives"),
            Column("phase", "1", "phase of the chunk's plan, from 0"),
            Column("rank", "1", "NPU"),
            DIMENSION,
            Column("queue", "1", "number of the queue in its dimension"),
            Column("bytes", "bytes", "data of the chunk on this NPU when the phase starts"),
            Column("ready", "cycles", "the chunk could start the phase; -1: not in this run"),
            Column("start", "cycles", "the phase starts; -1: not in this run"),
            Column("end", "cycles", "the phase ends; -1: not in this run"),
            Column("messages", "1", "messages that the NPU received in the phase; -1: it did not end in this run"),
            Column(
                "network",
                "cycles",
                "time that these were in the network, added up; -1: the phase did not end in this run",
            ),
        ),
        lambda result: result.chunks,
        restored="columns",
    )
)
add(
    Dataset(
        "collectives",
        "One row per collective.",
        (
            Column("name", "", "name of the collective", "text", optional=True),
            Column("kind", "", "kind of the collective", "text", optional=True),
            Column(
                "group",
                "",
                "who takes part: a group of the experiment, NPUs, dimensions, or all",
                "text",
                optional=True,
            ),
            Column("npus", "1", "NPUs that take part", optional=True),
            Column("root", "1", "NPU at the root; -1: none, or one in each group", optional=True),
            Column("algorithm", "", "algorithm for each dimension", "text", optional=True),
            Column("start", "cycles", "it is issued"),
            Column("end", "cycles", "last NPU is done; -1: not in this run"),
            Column("bytes", "bytes", "buffer of one NPU; for an all-gather the shard that one NPU contributes"),
            Column("bound", "cycles", "lower bound of the time", "float64"),
            Column("ratio", "1", "time over its lower bound", "float64"),
        ),
        lambda result: result.collectives,
        ("collective",),
        restored="rows",
        json=True,
    )
)
add(
    Dataset(
        "point_to_point",
        "One row per message from NPU to NPU outside collectives.",
        (
            Column("name", "", "name of the message", "text"),
            Column("src", "1", "NPU that sends"),
            Column("dst", "1", "NPU that receives"),
            Column("bytes", "bytes", "bytes of the message"),
            Column("start", "cycles", "the message is sent"),
            Column("end", "cycles", "the receiver has taken it in; -1: not in this run"),
        ),
        lambda result: result.point_to_point,
        ("message",),
        when="with messages outside collectives",
        present=lambda result: result.point_to_point,
        restored="rows",
        json=True,
    )
)


def _dimensions(result: Result) -> dict[str, object]:
    names = dict(enumerate(result.dimension_names))
    columns = result.dimensions
    return {**columns, "name": [names.get(dim, "several") for dim in columns.get("dimension", np.zeros(0)).tolist()]}


add(
    Dataset(
        "dimensions",
        "One row per network dimension, and one (-1) for phases and messages over several.",
        (
            Column("dimension", "1", "network dimension; -1: several at once"),
            Column("bytes", "bytes", "bytes of messages between NPUs that differ in this dimension only"),
            Column(
                "occupancy",
                "1",
                "share of the run in which an NPU had a chunk at work in the dimension, mean over the NPUs",
                "float64",
            ),
            Column("occupancy_npu0", "1", "the same of NPU 0", "float64"),
            Column(
                "queueing",
                "cycles",
                "wait of an NPU's chunk from being ready to the start of the phase, mean",
                "float64",
            ),
            NETWORK,
            Column("name", "", "what the dimension is", "text", derived=True),
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
            Column("phase", "1", "phase of the plan, from 0"),
            DIMENSION,
            Column("npus", "1", "NPUs that take part"),
            Column("chunks", "1", "chunks"),
            Column("start", "cycles", "the first NPU starts; -1: not in this run"),
            Column("end", "cycles", "the last NPU is done with the last chunk; -1: not in this run"),
            Column("kind", "", "what is done in the phase", "text"),
            Column("time", "cycles", "time of an NPU in the phase of a chunk, mean", "float64"),
            Column("queueing", "cycles", "wait before it, mean", "float64"),
            NETWORK,
        ),
        lambda result: result.phases,
        when="with collectives or a workload",
        present=lambda result: has_rows(result.phases),
        restored="columns",
        json=True,
    )
)
