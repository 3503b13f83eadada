"""NDP: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance", 2017.

A sender sends a window at line rate without asking. Switches have short queues and trim what does not fit to its
header, so the receiver learns at once of every packet; it then pulls one packet after the other at the rate of its
link, in turns of its senders, and first those that were trimmed. Switches spray packets over all routes.
"""

from libc.stdint cimport int32_t

from pyxsim.errors import InputError
from pyxsim.network.ethernet.records cimport Flow
from pyxsim.network.ethernet.transport cimport Transport

QUEUE = 8  # packets (section 3.1)
SPRAY = 1  # as in config.py


cdef class Ndp(Transport):
    """NDP: receivers pull packets.

    Options
    -------
    initial_window
        Packets that a sender may send before the first pull, and that may be on the way. 0: those that a base
        round-trip time takes at the rate of the NIC, and two.
    control_packets
        Headers, acknowledgments and pulls that a port sends in a row while data waits; 0: any number.
    spray
        Whether switches choose a route for each packet at random; otherwise `load_balancing` applies.
    """

    cdef int32_t initial

    options = {"initial_window": 0, "control_packets": 10, "spray": True}

    def __init__(self, name, options=None):
        super().__init__(name, options)
        self.initial = self.values["initial_window"]
        self.rules = {
            "pulls": True, "selective": True, "ack_class": 0, "control_turns": self.values["control_packets"],
        }
        if self.values["spray"]:
            self.rules["balance"] = SPRAY

    def adapt(self, network):
        """Return a network with trimming and short queues, without PFC. Raises InputError if it does not trim."""
        ethernet = network.ethernet
        if ethernet.trim == 0:
            raise InputError(f"the transport '{self.name}' needs switches that trim", key="network.ethernet.trim",
                             allowed="a size above 0, or without it")
        if self.values["spray"] and ethernet.load_balancing != "ecmp":
            raise InputError(f"the transport '{self.name}' sprays packets", key="network.ethernet.load_balancing",
                             allowed="without it, or transport_options.spray = false")
        queue = ethernet.buffer.queue or QUEUE * (ethernet.mtu + ethernet.header)
        changes = {
            "pfc": ethernet.pfc.model_copy(update={"enabled": False}),
            "trim": ethernet.trim or ethernet.ack,
            "buffer": ethernet.buffer.model_copy(update={"queue": queue}),
        }
        return network.model_copy(update={"ethernet": ethernet.model_copy(update=changes)})

    cdef void begin(self, int32_t number) noexcept:
        """A flow starts with credit for its first window, which the receiver takes to be on the way."""
        cdef Flow *flow = &self.fabric.flow[number]
        flow.pull_window = self.initial
        if not self.initial:
            flow.pull_window = <int32_t> ((flow.bdp + self.fabric.rules.mtu - 1) // self.fabric.rules.mtu + 2)
        flow.credit = flow.requested = flow.pull_window
        flow.window, flow.rate = 0, <double> flow.line
