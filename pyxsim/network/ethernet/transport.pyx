"""What a transport is: it sets the window and the rate of each flow, and learns of replies, losses and its timer.

The engine keeps reliability, pacing and the order of packets; a transport only controls congestion. It may keep
`STATE` words per flow in `Flow.state`. Every method finds the flow as `self.fabric.flow[number]`.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.nic cimport advance_timer
from pyxsim.network.ethernet.records cimport DUE, Fabric, Flow, Packet
from pyxsim.network.ethernet.transport_options import read_options


cdef class Transport:
    """No congestion control: a window of one bandwidth-delay product at the rate of the NIC.

    Options
    -------
    window
        Whether the window limits the bytes in flight.
    variable
        Whether the window shrinks and grows with the rate.
    """

    options = {"window": True, "variable": True}
    positive = shares = ()  # of the options: see `read_options`

    def __init__(self, name="none", options=None):
        self.name, self.given = name, dict(options or {})
        cdef object kind = type(self)
        self.values = read_options(name, kind.options, self.given, kind.positive, kind.shares)
        self.windowed, self.variable = self.values.get("window", True), self.values.get("variable", True)
        self.header_bytes = self.reply_bytes = 0
        self.telemetry = 0
        self.rules = {}

    def __reduce__(self):
        return type(self), (self.name, self.given)  # the state of flows is in the engine

    def adapt(self, network):
        """Return the settings of a network as the transport needs them. Raises InputError if they do not permit it."""
        return network

    cdef void bind(self, Fabric *fabric) noexcept:
        self.fabric = fabric

    cdef void set_rate(self, Flow *flow, double rate) noexcept:
        """Set the rate (bits per second), and the window in proportion."""
        cdef int64_t window
        flow.rate = rate
        if not self.windowed:
            flow.window = 0
        elif self.variable:
            window = <int64_t> (<long double> flow.bdp * rate / <double> flow.line)
            flow.window = <double> max(window, 1)
        else:
            flow.window = <double> flow.bdp

    cdef void change_rate(self, Flow *flow, double rate) noexcept:
        """Set the rate, also for the pause behind the packet that was sent last."""
        cdef double steps = 8e12 * flow.last_size / self.fabric.rules.step
        if rate != flow.rate and flow.last_size:
            flow.next_send += (
                <int64_t> (steps / rate + 0.5) - <int64_t> (steps / flow.rate + 0.5)
            ) * self.fabric.rules.step
            if self.fabric.rules.port_timer:
                advance_timer(self.fabric, flow)
        self.set_rate(flow, rate)

    cdef void begin(self, int32_t number) noexcept:
        """A flow starts at the rate of its NIC."""
        cdef Flow *flow = &self.fabric.flow[number]
        self.set_rate(flow, <double> flow.line)

    cdef void end(self, int32_t number) noexcept:
        """A flow has ended at its sender."""

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        """A reply has arrived that acknowledges this many bytes of payload, or none."""

    cdef void on_nack(self, int32_t number, Packet *reply) noexcept:
        """A reply reports a gap, or a trimmed packet; `on_ack` follows."""

    cdef void on_cnp(self, int32_t number) noexcept:
        """A congestion notification packet has arrived."""

    cdef void on_loss(self, int32_t number) noexcept:
        """The retransmission timeout has expired."""

    cdef void call_at(self, int32_t number, int64_t at) noexcept:
        """Call `on_due` at a time, unless the flow has ended."""
        if schedule(&self.fabric.events, at, DUE, number):
            self.fabric.failed = True

    cdef void on_due(self, int32_t number) noexcept:
        """A time for which `call_at` asked."""
