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
            Column("loaded", "bytes", "it began to load from remote memory", optional=True),
            Column("stored", "bytes", "it began to store in remote memory", optional=True),
            Column("read", "bytes", "communication read from its own memory", optional=True),
            Column("written", "bytes", "communication wrote to its own memory", optional=True),
            Column("compute", "bytes", "computations moved through its own memory", optional=True),
            Column("engine", "bytes", "its communication engine processed", optional=True),
            Column("busy", "cycles", "its own memory had something to carry", optional=True),
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
        "One row per remote memory and link to it.",
        (
            Column("name", "", "name of the memory or link", "text"),
            Column("bandwidth", "bytes/second", "bandwidth; 0: unlimited", "float64"),
            Column("bytes", "bytes", "what it carried"),
            Column("busy", "cycles", "it had something to carry"),
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
