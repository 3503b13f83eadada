"""TIMELY: Mittal et al., "TIMELY: RTT-based congestion control for the datacenter", SIGCOMM 2015, algorithm 1."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.errors import InputError
from pyxsim.network.ethernet.records cimport Flow, Packet
from pyxsim.network.ethernet.transport cimport Transport
from pyxsim.network.ethernet.transport_options import KEY


cdef struct State:
    double rtt, difference
    int32_t update_at, negative


cdef class Timely(Transport):
    """TIMELY.

    Options
    -------
    low, high
        Below `low` the rate rises, above `high` it falls, whatever the gradient.
    gain
        Weight of a new RTT difference.
    beta
        Factor of decrease.
    additive, least
        Additive increase, and the lowest rate.
    hyper_after
        Round trips with a falling RTT after which the increase is five times as large.
    telemetry
        Bytes of the time stamp in each packet.
    window, variable
        See `Transport`.
    """

    cdef double low, high, gain, beta, additive, least
    cdef int32_t hyper_after

    options = {
        "low": "50 us",
        "high": "500 us",
        "gain": 0.875,
        "beta": 0.8,
        "additive": "50 Mb/s",
        "least": "100 Mb/s",
        "hyper_after": 5,
        "telemetry": 8,
        "window": True,
        "variable": True,
    }
    positive = "least",
    shares = "gain", "beta"

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.low, self.high, self.gain, self.beta = values["low"], values["high"], values["gain"], values["beta"]
        if self.low > self.high:
            raise InputError("low is above high", key=f"{KEY}.low", allowed="at most high")
        self.additive, self.least, self.hyper_after = values["additive"], values["least"], values["hyper_after"]
        self.header_bytes = values["telemetry"]

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        cdef double rtt = <double> (self.fabric.now - reply.sent), gradient, rate = flow.rate
        if flow.una <= state.update_at:
            return
        if state.update_at:
            state.difference = (1 - self.gain) * state.difference + self.gain * (rtt - state.rtt)
            gradient = state.difference / flow.base_rtt
            if rtt < self.low or (rtt <= self.high and gradient <= 0):
                state.negative = 0 if rtt < self.low else state.negative + 1
                rate += self.additive * (5 if state.negative >= self.hyper_after else 1)
            elif rtt > self.high:
                rate *= 1 - self.beta * (1 - self.high / rtt)
                state.negative = 0
            else:
                rate *= max(0.5, 1 - self.beta * min(gradient, 1.0))
                state.negative = 0
            self.change_rate(flow, min(max(rate, self.least), <double> flow.line))
        state.rtt = rtt
        state.update_at = flow.next
