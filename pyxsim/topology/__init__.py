"""Networks as arrays: blocks (one dimension each), their products, Garnet's networks; and what theory says of them."""

from pyxsim.topology.block import Block
from pyxsim.topology.build import build
from pyxsim.topology.product import product
from pyxsim.topology.shape import check_npus, check_shape
from pyxsim.topology.topology import Dimension, Queue, Topology

__all__ = ["Block", "Dimension", "Queue", "Topology", "build", "check_npus", "check_shape", "product"]
