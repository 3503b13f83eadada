"""Which link and which virtual channel a packet takes next, and the proof that packets never wait in a circle."""

from pyxsim.routing.deadlock import Dependencies, dependencies, prove
from pyxsim.routing.relation import (
    ALWAYS,
    EACH,
    FIRST_SET,
    LEAST,
    NONE,
    RANDOM,
    SKIP,
    TWO,
    Relation,
    Way,
    vc_ranges,
)
from pyxsim.routing.shortest import shortest_paths

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
    "Relation",
    "Way",
    "dependencies",
    "prove",
    "shortest_paths",
    "vc_ranges",
]
