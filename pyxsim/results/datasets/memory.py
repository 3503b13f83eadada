"""Remote memories, and the memory that endpoints share."""

from __future__ import annotations

from typing import Any

from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.memory import Memory

WHEN = "with `[system.remote_memory]` or `[system.endpoint]`"

add(
    Dataset(
        "npu_memory",
        "Bytes that each NPU moved.",
        (
            Column("loaded", "bytes", "bytes of loads from remote memory that the NPU started", optional=True),
            Column("stored", "bytes", "bytes of stores to remote memory that the NPU started", optional=True),
            Column("read", "bytes", "bytes that communication read from the memory of the NPU", optional=True),
            Column("written", "bytes", "bytes that communication wrote to the memory of the NPU", optional=True),
            Column(
                "compute",
                "bytes",
                "bytes that computations read from and wrote to the memory of the NPU",
                optional=True,
            ),
            Column("engine", "bytes", "bytes that the offload engine of the NPU processed", optional=True),
            Column("busy", "cycles", "cycles in which the memory of the NPU transferred data", optional=True),
        ),
        lambda result: result.memory and result.memory.npus,
        ("npu",),
        when=WHEN,
        present=lambda result: result.memory,
    )
)
add(
    Dataset(
        "memories",
        "One row per remote memory and per link to remote memories.",
        (
            Column("name", "", "name of the memory or link", "text"),
            Column("bandwidth", "bytes/second", "bandwidth; 0: unlimited", "float64"),
            Column("bytes", "bytes", "bytes transferred"),
            Column("busy", "cycles", "cycles in which the memory or link transferred data"),
        ),
        lambda result: result.memory and result.memory.used,
        when=WHEN,
        present=lambda result: result.memory,
        coordinates=("name",),
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The memories."""
    if "memories" not in tables:
        return {}
    npus, used = (tables[name].columns(without=dim) for name, dim in (("npu_memory", "npu"), ("memories", "row")))
    return {"memory": Memory(npus, used)}
