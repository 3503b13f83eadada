"""Which link and which virtual channel a packet takes next, and the proof that packets never wait in a circle."""

from pyxsim.routing.deadlock import Dependencies, dependencies, prove
from pyxsim.routing.relation import Relation
from pyxsim.routing.shortest import shortest_paths

__all__ = ["Dependencies", "Relation", "dependencies", "prove", "shortest_paths"]
