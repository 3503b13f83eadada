"""TCP NewReno: RFC 5681 and 6582, with the timeout of RFC 6298 and, as options, RFC 3168 (ECN) and RFC 6675 (SACK).

The engine counts in `Flow.flight` what is neither acknowledged individually nor taken for lost (the pipe of RFC 6675).
Each duplicate acknowledgment takes a packet out of it, which equals the inflation of the window by RFC 5681: the window
itself stays at ssthresh in recovery, and deflation at its end is not needed.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.network.ethernet.bitmaps cimport ACKNOWLEDGED, bitmap, mark_lost, test_bit
from pyxsim.network.ethernet.records cimport ACK, CE, STATE, Flow, Packet
from pyxsim.network.ethernet.transport cimport Transport


cdef class NewReno(Transport):
    """TCP NewReno.

    Options
    -------
    initial_window
        Packets of the initial window; its bytes are bounded as in RFC 6928.
    initial_rto, min_rto
        Retransmission timeout before the first sample of the round trip, and the least one (RFC 6298).
    threshold
        Duplicate acknowledgments that indicate a loss.
    sack
        Whether acknowledgments report packets beyond a gap, so that the sender finds every loss of a window at once
        (RFC 6675). Otherwise it repeats one packet per round trip (RFC 6582).
    ecn
        Whether a mark reduces the window as a loss does (RFC 3168).
    """

    options = {
        "initial_window": 10,
        "initial_rto": "1 s",
        "min_rto": "200 ms",
        "threshold": 3,
        "sack": False,
        "ecn": True,
    }
    positive = "initial_window", "initial_rto", "min_rto", "threshold"

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.initial_window, self.min_rto = values["initial_window"], max(values["min_rto"], 1)
        self.threshold, self.sack, self.ecn = max(values["threshold"], 1), values["sack"], values["ecn"]
        self.rules = {"selective": True, "retry": max(values["initial_rto"], 1)}

    cdef void begin(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef TcpState *state = <TcpState*> flow.state
        cdef double mss = <double> self.fabric.rules.mtu
        flow.rate = <double> flow.line
        state.cwnd = max(min(self.initial_window * mss, max(2 * mss, self.initial_window * 1460)), mss)
        state.ssthresh = 1e18
        state.highest = -1
        self._apply(flow, state)

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef TcpState *state = <TcpState*> flow.state
        cdef int32_t progress = flow.una - state.una
        cdef double mss = <double> self.fabric.rules.mtu
        state.una = flow.una
        state.highest = max(state.highest, flow.una - 1)
        if reply.kind == ACK:
            state.highest = max(state.highest, reply.number)
            if not state.srtt or reply.number >= state.sample_at:
                self._update_rtt(flow, state, <double> (self.fabric.now - reply.sent))
                state.sample_at = flow.next
        if progress:
            flow.retry_at = self.fabric.now + flow.rto
            state.duplicates = 0
            if state.recovering and flow.una >= state.recover:
                state.recovering = state.urgent = False
            elif state.recovering:
                if not self.sack and mark_lost(self.fabric, flow, flow.una):  # a partial acknowledgment
                    state.urgent, state.resent = True, flow.resent
            elif self._used(state, <double> (flow.flight + acknowledged)):
                self.increase(flow, state, progress * mss)
        elif reply.kind == ACK and reply.cumulative == flow.una:
            state.duplicates += 1
        if self.ecn and reply.flags & CE:
            self._reduce(flow, state)
        if self.sack:
            self._find_lost(flow, state)
        elif state.duplicates >= self.threshold and not state.recovering and flow.una >= state.recover:
            mark_lost(self.fabric, flow, flow.una)
            self._recover(flow, state)
        self._apply(flow, state)

    cdef void on_nack(self, int32_t number, Packet *reply) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        self._recover(flow, <TcpState*> flow.state)

    cdef void on_cnp(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        if self.ecn:
            self._reduce(flow, <TcpState*> flow.state)
            self._apply(flow, <TcpState*> flow.state)

    cdef void on_loss(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef TcpState *state = <TcpState*> flow.state
        if flow.una == flow.next:  # nothing was sent yet
            return
        if flow.expiries == 1:
            self.decrease(flow, state)
        self.restart(flow, state)
        state.cwnd = <double> self.fabric.rules.mtu
        state.recovering = state.urgent = False
        state.duplicates = 0
        state.recover = state.cut_until = state.judged = flow.next
        self._apply(flow, state)

    cdef bint _used(self, TcpState *state, double flight) noexcept:
        """Whether the window limits the sender: only then it grows (RFC 9438, section 4.3, and RFC 7661).

        In slow start, each acknowledgment permits two packets, but a port at the rate of the acknowledgments sends one:
        there, half of the window is enough.
        """
        if state.cwnd < state.ssthresh:
            return state.cwnd < 2 * flight
        return flight + self.fabric.rules.mtu > state.cwnd

    cdef int64_t outstanding(self, Flow *flow) noexcept:
        """FlightSize: bytes that were sent and not acknowledged cumulatively."""
        return (flow.next - flow.una) * self.fabric.rules.mtu

    cdef void increase(self, Flow *flow, TcpState *state, double acknowledged) noexcept:
        """Enlarge the window for these bytes: slow start, then about one packet per round trip."""
        cdef double mss = <double> self.fabric.rules.mtu
        if state.cwnd < state.ssthresh:
            state.cwnd += min(acknowledged, mss)
        else:
            state.cwnd += mss * min(acknowledged, mss) / state.cwnd

    cdef void decrease(self, Flow *flow, TcpState *state) noexcept:
        """Set ssthresh after a loss or a mark (RFC 5681, equation 4)."""
        cdef double mss = <double> self.fabric.rules.mtu
        state.ssthresh = max(min(<double> self.outstanding(flow), state.cwnd) / 2, 2 * mss)

    cdef void restart(self, Flow *flow, TcpState *state) noexcept:
        """The retransmission timeout has expired."""

    cdef void _update_rtt(self, Flow *flow, TcpState *state, double rtt) noexcept:
        """Update the timeout (RFC 6298, section 2); time stamps of packets make every sample valid."""
        if state.srtt:
            state.rttvar += (fabs(state.srtt - rtt) - state.rttvar) / 4
            state.srtt += (rtt - state.srtt) / 8
        else:
            state.srtt, state.rttvar = rtt, rtt / 2
        flow.rto = max(<int64_t> (state.srtt + 4 * state.rttvar), self.min_rto)

    cdef void _find_lost(self, Flow *flow, TcpState *state) noexcept:
        """Take packets for lost beyond which at least `threshold` packets have arrived, each of them once."""
        cdef uint64_t *known = bitmap(self.fabric, flow, ACKNOWLEDGED)
        cdef int32_t beyond = 0, i = state.highest, first = max(state.judged, flow.una)
        cdef bint found = False
        while i > first:
            beyond += test_bit(known, i)
            if beyond == self.threshold:
                break
            i -= 1
        if beyond < self.threshold:
            return
        state.judged = i
        for i in range(first, state.judged):
            found |= mark_lost(self.fabric, flow, i)
        if found:
            self._recover(flow, state)

    cdef void _recover(self, Flow *flow, TcpState *state) noexcept:
        """Enter loss recovery, whose first packet is sent whatever the window."""
        if state.recovering or flow.una < state.recover:
            return
        self._reduce(flow, state)
        state.recovering = state.urgent = True
        state.recover, state.resent = flow.next, flow.resent

    cdef void _reduce(self, Flow *flow, TcpState *state) noexcept:
        """Reduce the window, once per window of packets."""
        if state.recovering or flow.una < state.cut_until:
            return
        self.decrease(flow, state)
        state.cwnd = state.ssthresh
        state.cut_until = flow.next

    cdef void _apply(self, Flow *flow, TcpState *state) noexcept:
        """Let a packet be sent if all of it fits into the window, or if recovery demands it."""
        flow.window = max(state.cwnd - self.fabric.rules.mtu + 1, 1.0)
        if state.urgent:
            if flow.lost and flow.resent == state.resent:
                flow.window = max(flow.window, <double> flow.flight + 1)
            else:
                state.urgent = False


assert sizeof(TcpState) <= STATE * sizeof(int64_t)
