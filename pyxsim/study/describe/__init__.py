"""Facts about topologies and collective algorithms, without a run."""

from __future__ import annotations

from pyxsim.study.describe.collective_facts import CollectiveFacts, describe_collective
from pyxsim.study.describe.topology_facts import TopologyFacts, describe_topology, export_topology

__all__ = ["CollectiveFacts", "TopologyFacts", "describe_collective", "describe_topology", "export_topology"]
