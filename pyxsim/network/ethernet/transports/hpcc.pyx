"""HPCC: Li et al., "HPCC: high precision congestion control", SIGCOMM 2019, algorithm 1.

Switches write time, bytes sent, depth and rate into each data packet; the sender estimates the utilization U of the
busiest link and sets its rate so that U approaches `target`. Every acknowledgment reacts relative to a reference rate,
which changes once per round trip.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.network.ethernet.pools cimport free_telemetry
from pyxsim.network.ethernet.records cimport HOPS, IN_BAND, NONE, Flow, Hop, Packet, Telemetry
from pyxsim.network.ethernet.transport cimport Transport


cdef enum:
    NANOSECOND = 1000        # picoseconds
    TIME_MASK = 0xFFFFFF     # 24 bits of nanoseconds
    BYTES_MASK = 0xFFFFF

cdef struct State:
    double reference, utilization
    int32_t update_at, stage, before  # `before`: telemetry of the last acknowledgment
    uint8_t started


cdef class Hpcc(Transport):
    """HPCC.

    Options
    -------
    target
        eta, the utilization to approach.
    stages
        Round trips of additive increase before a multiplicative one (maxStage; 0: always multiplicative).
    additive, least
        Additive increase, and the lowest rate.
    fast
        Whether every acknowledgment reacts, not only one per round trip.
    telemetry
        Bytes of telemetry in each packet.
    echo
        Bytes of telemetry in each acknowledgment.
    window, variable
        See `Transport`.
    """

    cdef double target, additive, least
    cdef int32_t stages
    cdef bint fast

    options = {
        "target": 0.95,
        "stages": 0,
        "additive": "50 Mb/s",
        "least": "100 Mb/s",
        "fast": True,
        "telemetry": 42,
        "echo": 28,
        "window": True,
        "variable": True,
    }
    positive = "least",
    shares = "target",

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.target, self.stages, self.fast = values["target"], values["stages"], values["fast"]
        self.additive, self.least = values["additive"], values["least"]
        self.header_bytes, self.reply_bytes, self.telemetry = values["telemetry"], values["echo"], IN_BAND

    cdef void begin(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        state.reference, state.utilization, state.before = <double> flow.line, 1, NONE
        self.set_rate(flow, <double> flow.line)

    cdef void end(self, int32_t number) noexcept:
        cdef State *state = <State*> self.fabric.flow[number].state
        free_telemetry(self.fabric, state.before)
        state.before = NONE

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        cdef int32_t held = reply.telemetry
        cdef Telemetry *old
        cdef Telemetry *new
        cdef bint full
        if held == NONE:
            return
        full = flow.una > state.update_at
        if not full and not self.fast:
            return
        if state.before != NONE and state.started:
            old, new = &self.fabric.telemetry[state.before], &self.fabric.telemetry[held]
            if old.path == new.path:  # otherwise the counters are those of other links
                self._update(flow, state, old, new, reply.hops, not full)
        if full:
            state.started, state.update_at = True, flow.next
        reply.telemetry, state.before = state.before, held  # the reply's record is freed with it

    cdef void _update(
        self, Flow *flow, State *state, Telemetry *old, Telemetry *new, int hops, bint fast
    ) noexcept:
        cdef double busiest = 0, u, ratio, rate
        cdef int64_t tau, rtt, longest = 0
        cdef int32_t stage
        cdef bint known = False
        cdef Hop *before
        cdef Hop *after
        cdef int i
        for i in range(min(hops, HOPS)):
            before, after = &old.hop[i], &new.hop[i]
            tau = ((after.at // NANOSECOND) - (before.at // NANOSECOND)) & TIME_MASK
            if tau == 0:
                continue
            known = True
            # The units of the header: 128 B of bytes sent (20 bits), 80 B of depth.
            u = (((after.sent_bytes // 128 - before.sent_bytes // 128) & BYTES_MASK) * 128 * 8) / (tau * 1e-9)
            u /= after.rate
            u += <double> (min(after.depth, before.depth) // 80 * 80) * flow.line / after.rate / flow.bdp
            if u > busiest:
                busiest, longest = u, tau
        if not known:
            return
        rtt = max(flow.base_rtt // NANOSECOND, 1)
        longest = min(longest, rtt)
        state.utilization = (state.utilization * (rtt - longest) + busiest * longest) / rtt
        ratio = state.utilization / self.target
        if ratio >= 1 or state.stage >= self.stages:
            rate, stage = <double> <int64_t> (state.reference / ratio) + self.additive, 0
        else:
            rate, stage = state.reference + self.additive, state.stage + 1
        rate = min(max(rate, self.least), <double> flow.line)
        self.change_rate(flow, rate)
        if not fast:
            state.reference, state.stage = rate, stage
