"""L2, topology: networks as arrays, and their theoretical bounds.

A `Topology` is a product of blocks or a graph. The shelf `topologies/` builds them.
"""

from pyxsim.topology.block import Block
from pyxsim.topology.build import build
from pyxsim.topology.concentrated import check_tile, concentrate
from pyxsim.topology.graph import graph_network
from pyxsim.topology.product import product
from pyxsim.topology.shape import check_npus, check_shape
from pyxsim.topology.topology import Dimension, Queue, Topology
from pyxsim.topology.wires import Wires

__all__ = [
    "Block",
    "Dimension",
    "Queue",
    "Topology",
    "Wires",
    "build",
    "check_npus",
    "check_shape",
    "check_tile",
    "concentrate",
    "graph_network",
    "product",
]
