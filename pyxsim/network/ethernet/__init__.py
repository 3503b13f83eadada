"""The Ethernet backend: packets over switches that queue, mark, pause, trim and drop (docs/ethernet.md)."""

from pyxsim.plugins import Target, backends

backends.register("ethernet", cost=5, compared=False)(
    Target("pyxsim.network.ethernet.ethernet_network:EthernetNetwork")
)
