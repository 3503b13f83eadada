"""L2, routing: relations that give the next link and VC of a packet, and the proof that they cannot deadlock.

A `Relation` is a set of tables; this room does not see topologies. `prove` is called before every run.
"""

from pyxsim.routing.adaptive import minimal_adaptive
from pyxsim.routing.bubble import bubble
from pyxsim.routing.deadlock import Dependencies, dependencies, prove
from pyxsim.routing.graph import Graph, adaptive_up_down, nca, up_down
from pyxsim.routing.grid import adaptive_xy_yx, balanced, tie_random, xy_yx
from pyxsim.routing.loads import expected_hops, expected_loads
from pyxsim.routing.product_table import FIRST_SET, NONE
from pyxsim.routing.relation import (
    ALWAYS,
    EACH,
    LEAST,
    RANDOM,
    SKIP,
    TWO,
    Relation,
    Way,
    vc_ranges,
)
from pyxsim.routing.shortest import shortest_paths
from pyxsim.routing.via import romm, ugal, valiant

__all__ = [
    "ALWAYS",
    "EACH",
    "FIRST_SET",
    "LEAST",
    "NONE",
    "RANDOM",
    "SKIP",
    "TWO",
    "Dependencies",
    "Graph",
    "Relation",
    "Way",
    "adaptive_up_down",
    "adaptive_xy_yx",
    "balanced",
    "bubble",
    "dependencies",
    "expected_hops",
    "expected_loads",
    "minimal_adaptive",
    "nca",
    "prove",
    "romm",
    "shortest_paths",
    "tie_random",
    "ugal",
    "up_down",
    "valiant",
    "vc_ranges",
    "xy_yx",
]
