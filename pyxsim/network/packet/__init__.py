"""The packet backend: every flit, cycle by cycle, in the engine of pyxsim/core (docs/router.md)."""

from pyxsim.plugins import Target, backends

_OPEN = Target("pyxsim.network.packet.open_network:OpenNetwork")
_TRANSACTIONS = Target("pyxsim.network.packet.transactions.transaction_network:TransactionNetwork")
backends.register("packet", open_traffic=_OPEN, transactions=_TRANSACTIONS, cost=4)(
    Target("pyxsim.network.packet.packet_network:PacketNetwork")
)
