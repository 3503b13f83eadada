"""DCTCP: Alizadeh et al., SIGCOMM 2010 (RFC 8257), as a rate with a window in proportion.

alpha is a moving average of the share of marked packets, updated once per window; a mark cuts the rate by alpha / 2, at
most once per window; a window without a mark adds `additive`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.network.ethernet.records cimport CE, Flow, Packet
from pyxsim.network.ethernet.transport cimport Transport


cdef struct State:
    double alpha
    int32_t update_at, marks, batch, reduced_until
    uint8_t reduced


cdef class Dctcp(Transport):
    """DCTCP.

    Options
    -------
    gain
        g, the gain of alpha.
    additive, least
        Increase per round trip, and the lowest rate.
    window, variable
        See `Transport`.
    """

    cdef double gain, additive, least

    options = {
        "gain": 0.0625,
        "additive": "1000 Mb/s",
        "least": "100 Mb/s",
        "window": True,
        "variable": True,
    }
    positive = "least",
    shares = "gain",

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.gain, self.additive, self.least = values["gain"], values["additive"], values["least"]

    cdef void begin(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        (<State*> flow.state).alpha = 1
        self.set_rate(flow, <double> flow.line)

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        cdef bint marked = reply.flags & CE, renewed = False
        cdef double share
        # whole packets up to the next one
        cdef int32_t sent = flow.next - (flow.next == flow.packets and flow.last_payload < self.fabric.rules.mtu)
        state.marks += marked
        if flow.una > state.update_at:
            renewed = True
            if state.update_at:
                share = min(1.0, <double> state.marks / <double> state.batch)
                state.alpha = (1 - self.gain) * state.alpha + self.gain * share
                state.marks, state.batch = 0, sent - flow.una + 1
            else:
                state.batch = sent + 1
            state.update_at = flow.next
        if state.reduced and flow.una > state.reduced_until:
            state.reduced = False
        if state.reduced:
            return
        if marked:
            self.set_rate(flow, max(self.least, <double> <int64_t> (flow.rate * (1 - state.alpha / 2))))
            state.reduced, state.reduced_until = True, flow.next
        elif renewed:
            self.set_rate(flow, min(<double> flow.line, flow.rate + self.additive))
