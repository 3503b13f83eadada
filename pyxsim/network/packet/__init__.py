"""The packet backend: every flit, cycle by cycle, in the engine of pyxsim/core (docs/router.md)."""

from pyxsim.network.packet.open_network import OpenNetwork
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.plugins import backends

backends.register("packet", open_traffic=OpenNetwork, cost=4)(PacketNetwork)
