"""The remote memory JSON of ASTRA-sim 2 as a table [system.remote_memory]. Latency in ns, bandwidth in GB/s of 10^9
bytes."""

from __future__ import annotations

from typing import Any

from pyxsim.compat.astra.files.json_file import Json
from pyxsim.file_entries import MANY, PathLike

_NONE = "none"
_KINDS = {
    "NO_MEMORY_EXPANSION": _NONE,
    "PER_NODE_MEMORY_EXPANSION": "per-node",
    "PER_NPU_MEMORY_EXPANSION": "per-npu",
    "MEMORY_POOL": "pool",
}


def memory_table(path: PathLike, npus: int | None = None) -> dict[str, Any] | None:
    """Return the table of a file, or None for no remote memory. Raises InputError.

    `npus`: of the network, if known; they must match the nodes of the file.
    """
    file = Json(path)
    kind = file.choice("memory-type", _KINDS)
    if kind == _NONE:
        # ASTRA-sim reads nothing more; its samples contain the other keys.
        file.unused("remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node")
        file.finish()
        return None
    table: dict[str, Any] = {
        "kind": kind,
        "latency": f"{file.count('remote-mem-latency', 0, least=0)} ns",
        "bandwidth": f"{file.count('remote-mem-bw')} GB/s",
    }
    if kind == "per-node":
        nodes, each = file.count("num-nodes", most=MANY), file.count("num-npus-per-node", most=MANY)
        table["npus_per_node"] = each
        if npus is not None and file.is_valid("num-nodes", "num-npus-per-node") and nodes * each != npus:
            problem = f"{nodes} nodes of {each} NPUs do not match the {npus} NPUs of the network"
            file.fault("num-nodes", problem, f"{npus // each if npus % each == 0 else 'whole nodes'}")
    else:
        file.unused("num-nodes", "num-npus-per-node")
    file.finish()
    return table
