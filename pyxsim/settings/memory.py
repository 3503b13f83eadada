"""[system.remote_memory]: memory that NPUs load from and store to over something else than the network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Bandwidth, Flag, PositiveBytes, Table, Time, whole, written

Count = Annotated[int, *whole(1, 2**20)]

BANDWIDTHS = ("bandwidth", "node_bandwidth", "memory_link", "node_link", "npu_link")
# The keys of each kind, besides `kind`, `latency` and `bandwidth`: those that it must have, and those that it may have.
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
    """Where remote memory is, and how NPUs come to it: docs/memory.md has the rules."""

    kind: Literal["per-npu", "per-node", "pool", "zero-infinity", "hierarchical"] = Field(
        description="per-npu, per-node and pool are those of ASTRA-sim 2: one for each NPU, without contention, one "
        "for each node, one for all. zero-infinity: a slow memory for each NPU, whose accesses share its bandwidth. "
        "hierarchical: groups of memory behind switches between the nodes, and a switch in each node."
    )
    latency: Time = Field(default=written("0 ns"), description="What every access takes besides its bytes.")
    bandwidth: Bandwidth = Field(
        description="Of an access (per-npu), of a node's memory, of the pool, of an NPU's memory (zero-infinity), of a "
        "group of memory (hierarchical)."
    )
    npus_per_node: Count | None = Field(
        default=None,
        description="NPUs 0, 1, ... are the first node, and so on (per-node, zero-infinity, hierarchical).",
    )
    sharing: Literal["fifo", "fair"] | None = Field(
        default=None,
        description="Of a node's memory or the pool: one access after the other, as in ASTRA-sim 2, or all at once, "
        "each with the same share of the bandwidth. Left out: fifo.",
    )
    node_bandwidth: Bandwidth | None = Field(
        default=None,
        description="What the slow memories of a node have together (zero-infinity). Left out: no limit.",
    )
    groups: Count | None = Field(default=None, description="Groups of memory (hierarchical).")
    switches: Count | None = Field(default=None, description="Switches between groups and nodes (hierarchical).")
    memory_link: Bandwidth | None = Field(
        default=None, description="Of the link between a group and a switch, each way (hierarchical)."
    )
    node_link: Bandwidth | None = Field(
        default=None, description="Of the link between a switch and a node, each way (hierarchical)."
    )
    npu_link: Bandwidth | None = Field(
        default=None, description="Of the link between a node's switch and an NPU, each way (hierarchical)."
    )
    chunk: PositiveBytes | None = Field(
        default=None, description="What an access is cut into to go through the stages in turns (hierarchical)."
    )
    in_switch: Flag | None = Field(
        default=None,
        description="The switches copy what all NPUs load, and add up what all store (hierarchical). Left out: false.",
    )

    @model_validator(mode="after")
    def _sound(self) -> RemoteMemory:
        wanted, allowed = KINDS[self.kind]
        faults = [
            InputError(f"{self.kind} needs it", key=key, allowed="a value")
            for key in wanted
            if getattr(self, key) is None
        ]
        given = [key for key in type(self).model_fields if key not in ("kind", "latency", "bandwidth")]
        for key in given:
            if getattr(self, key) is not None and key not in (*wanted, *allowed):
                users = [kind for kind, keys in KINDS.items() if key in (*keys[0], *keys[1])]
                faults.append(InputError(f"{self.kind} has none", key=key, allowed=f"it with {' or '.join(users)}"))
        if self.kind == "zero-infinity" and (self.npus_per_node is None) != (self.node_bandwidth is None):
            keys = ("npus_per_node", "node_bandwidth")
            missing, given_alone = keys if self.npus_per_node is None else keys[::-1]
            problem = f"is missing, and {given_alone} is given"
            faults.append(InputError(problem, key=missing, allowed="both of them, or neither"))
        raise_all(faults)
        return self
