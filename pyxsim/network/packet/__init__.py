"""The packet backend: every flit, cycle by cycle, in the engine of pyxsim/core (docs/router.md)."""

from pyxsim.plugins import Target, backends

_OPEN = Target("pyxsim.network.packet.open_network:OpenNetwork")
backends.register("packet", open_traffic=_OPEN, cost=4)(Target("pyxsim.network.packet.packet_network:PacketNetwork"))
