"""Swift: Kumar et al., "Swift: delay is simple and effective for congestion control in the datacenter", SIGCOMM 2020.

A window in packets follows the fabric delay: additive increase below the target, multiplicative decrease above it, at
most once per round trip. A window below one packet becomes a pause between packets (section 3.1).
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.records cimport Flow, Packet
from pyxsim.network.ethernet.transport cimport Transport


cdef struct State:
    double window      # packets
    int64_t reduced_at


cdef class Swift(Transport):
    """Swift.

    Options
    -------
    queueing
        Queueing that the target delay permits beside the unloaded round trip.
    additive
        Packets added to the window per round trip.
    beta, most_cut
        Factor of decrease, and the largest one.
    scaling
        What small windows add to the target at most (flow scaling); 0: none.
    least, most
        Packets: bounds of the window. most = 0: one and a half bandwidth-delay products.
    """

    cdef double queueing, additive, beta, most_cut, scaling, least, most

    options = {
        "queueing": "4 us",
        "additive": 1.0,
        "beta": 0.8,
        "most_cut": 0.5,
        "scaling": "4 us",
        "least": 0.01,
        "most": 0.0,
    }
    positive = "additive", "least"
    shares = "beta", "most_cut"

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.queueing, self.scaling, self.additive = values["queueing"], values["scaling"], values["additive"]
        self.beta, self.most_cut = values["beta"], values["most_cut"]
        self.least, self.most = values["least"], values["most"]

    cdef void begin(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        state.window = self._bound(flow, <double> flow.bdp / self.fabric.rules.mtu)
        self._apply(flow, state)

    cdef double _bound(self, Flow *flow, double window) noexcept:
        cdef double most = self.most if self.most else max(1.5 * flow.bdp / self.fabric.rules.mtu, 1.0)
        return min(max(window, self.least), most)

    cdef void _apply(self, Flow *flow, State *state) noexcept:
        """Below one packet, one packet may be in flight, and the rate is the window per round trip."""
        flow.window = max(state.window, 1.0) * self.fabric.rules.mtu
        flow.rate = <double> flow.line
        if state.window < 1:
            flow.rate = state.window * (self.fabric.rules.mtu + self.fabric.rules.header) * 8e12 / flow.base_rtt

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        cdef int64_t now = self.fabric.now, rtt = now - reply.sent
        cdef double packets = <double> acknowledged / self.fabric.rules.mtu, target, part
        target = flow.base_rtt + self.queueing
        if self.scaling:  # alpha / sqrt(window) + beta between windows of 0.1 and 100 packets
            part = (1 / sqrt(max(state.window, 0.1)) - 0.1) / (1 / sqrt(0.1) - 0.1)
            target += self.scaling * min(max(part, 0.0), 1.0)
        if rtt < target:
            state.window += self.additive * packets / max(state.window, 1.0)
        elif now - state.reduced_at >= rtt:
            state.window *= max(1 - self.beta * (rtt - target) / rtt, 1 - self.most_cut)
            state.reduced_at = now
        state.window = self._bound(flow, state.window)
        self._apply(flow, state)

    cdef void on_loss(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        state.window = self._bound(flow, state.window * (1 - self.most_cut))
        self._apply(flow, state)
