"""[system.remote_memory]: memory outside the NPUs, reached by other links than the network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bandwidth, Flag, PositiveBytes, Table, Time, whole, written

Count = Annotated[int, *whole(1, 2**20)]

BANDWIDTHS = ("bandwidth", "node_bandwidth", "memory_link", "node_link", "npu_link")
# Required and optional keys of each kind, in addition to `kind`, `latency` and `bandwidth`.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "per-npu": ((), ()),
    "per-node": (("npus_per_node",), ("sharing",)),
    "pool": ((), ("sharing",)),
    "zero-infinity": ((), ("npus_per_node", "node_bandwidth")),
    "hierarchical": (
        ("npus_per_node", "groups", "switches", "memory_link", "node_link", "npu_link", "chunk"),
        ("in_switch",),
    ),
}


class RemoteMemory(Table):
    """Remote memory and how NPUs access it; rules in docs/memory.md."""

    kind: Literal["per-npu", "per-node", "pool", "zero-infinity", "hierarchical"] = Field(
        description="per-npu, per-node and pool follow ASTRA-sim 2: one memory per NPU without contention, one per "
        "node, or one for all NPUs. zero-infinity: a slow memory per NPU; its concurrent accesses share its "
        "bandwidth. hierarchical: memory groups connected to the nodes by switches, and a switch in each node."
    )
    latency: Time = Field(default=written("0 ns"), description="Latency of each access.")
    bandwidth: Bandwidth = Field(
        description="Bandwidth of an access (per-npu), of a node's memory (per-node), of the pool (pool), of an NPU's "
        "memory (zero-infinity) or of a memory group (hierarchical)."
    )
    npus_per_node: Count | None = Field(
        default=None,
        description="NPUs per node; NPUs of a node have consecutive numbers (per-node, zero-infinity, hierarchical).",
    )
    sharing: Literal["fifo", "fair"] | None = Field(
        default=None,
        description="How accesses share a node's memory or the pool: one after the other, as in ASTRA-sim 2 (fifo), "
        "or all at once with equal shares of the bandwidth (fair). Default: fifo.",
    )
    node_bandwidth: Bandwidth | None = Field(
        default=None,
        description="Total bandwidth of the slow memories of a node (zero-infinity). Default: unlimited.",
    )
    groups: Count | None = Field(default=None, description="Number of memory groups (hierarchical).")
    switches: Count | None = Field(
        default=None, description="Number of switches between memory groups and nodes (hierarchical)."
    )
    memory_link: Bandwidth | None = Field(
        default=None,
        description="Bandwidth of the link between a memory group and a switch, per direction (hierarchical).",
    )
    node_link: Bandwidth | None = Field(
        default=None, description="Bandwidth of the link between a switch and a node, per direction (hierarchical)."
    )
    npu_link: Bandwidth | None = Field(
        default=None,
        description="Bandwidth of the link between a node's switch and an NPU, per direction (hierarchical).",
    )
    chunk: PositiveBytes | None = Field(
        default=None,
        description="Size of the chunks that pipeline an access through the stages (hierarchical).",
    )
    in_switch: Flag | None = Field(
        default=None,
        description="Whether the switches multicast loads and reduce stores of all NPUs (hierarchical). Default: "
        "false.",
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> RemoteMemory:
        required, optional = KINDS[self.kind]
        faults = [
            InputError(f"is missing; {self.kind} requires it", key=key, allowed="a value")
            for key in required
            if getattr(self, key) is None
        ]
        given = [key for key in type(self).model_fields if key not in ("kind", "latency", "bandwidth")]
        for key in given:
            if getattr(self, key) is not None and key not in (*required, *optional):
                users = [kind for kind, keys in KINDS.items() if key in (*keys[0], *keys[1])]
                faults.append(
                    InputError(f"is not a setting of {self.kind}", key=key, allowed=f"with {' or '.join(users)}")
                )
        if self.kind == "zero-infinity" and (self.npus_per_node is None) != (self.node_bandwidth is None):
            keys = ("npus_per_node", "node_bandwidth")
            missing, given_alone = keys if self.npus_per_node is None else keys[::-1]
            problem = f"is missing, but {given_alone} is set"
            faults.append(InputError(problem, key=missing, allowed="both or neither"))
        raise_all(faults)
        return self
