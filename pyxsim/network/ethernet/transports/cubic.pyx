"""TCP CUBIC: RFC 9438. Loss detection, timeout and slow start are those of NewReno.

The window follows W_cubic(t) = C (t - K)^3 + W_max, with t since the end of the last recovery, but is never below what
NewReno would have reached (the Reno-friendly region).
"""

from libc.math cimport cbrt
from libc.stdint cimport int64_t, uint8_t

from pyxsim.errors import InputError
from pyxsim.network.ethernet.records cimport STATE, Flow
from pyxsim.network.ethernet.transport_options import KEY
from pyxsim.network.ethernet.transports.newreno cimport NewReno, TcpState


cdef struct CubicState:
    TcpState tcp
    double w_max        # packets
    double w_est        # packets: the window of NewReno
    double prior        # packets: the window before the last decrease
    double k            # seconds
    int64_t epoch       # when the present congestion avoidance began
    uint8_t started     # whether it has begun
    uint8_t restarted   # whether it follows a timeout


cdef class Cubic(NewReno):
    """TCP CUBIC.

    Options
    -------
    c
        C, packets / s^3. Among short round trips, the window of NewReno is larger than that of C = 0.4.
    beta
        Factor of decrease.
    fast_convergence
        Whether a flow that is reduced below its last W_max leaves bandwidth to others.
    initial_window, initial_rto, min_rto, threshold, sack, ecn
        See `NewReno`.
    """

    cdef double c, beta
    cdef bint fast_convergence

    options = {**NewReno.options, "sack": True, "c": 0.4, "beta": 0.7, "fast_convergence": True}
    positive = *NewReno.positive, "c"

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.c, self.beta, self.fast_convergence = values["c"], values["beta"], values["fast_convergence"]
        if not 0 < self.beta < 1:
            raise InputError(f"beta = {self.beta:g}", key=f"{KEY}.beta", allowed="between 0 and 1")

    cdef void increase(self, Flow *flow, TcpState *state, double acknowledged) noexcept:
        cdef CubicState *cubic = <CubicState*> state
        cdef double mss = <double> self.fabric.rules.mtu, window = state.cwnd / mss, packets = acknowledged / mss
        cdef double elapsed, target, alpha
        if state.cwnd < state.ssthresh:
            state.cwnd += min(acknowledged, mss)
            return
        if not cubic.started:
            cubic.started, cubic.epoch, cubic.w_est = True, self.fabric.now, window
            if cubic.restarted or cubic.w_max <= window:
                cubic.w_max, cubic.k = window, 0
            else:
                cubic.k = cbrt((cubic.w_max - window) / self.c)
            cubic.restarted = False
        alpha = 1 if cubic.w_est >= cubic.prior else 3 * (1 - self.beta) / (1 + self.beta)
        cubic.w_est += alpha * packets / window
        elapsed = (self.fabric.now - cubic.epoch) * 1e-12 - cubic.k
        if self.c * elapsed * elapsed * elapsed + cubic.w_max < cubic.w_est:
            state.cwnd = max(state.cwnd, cubic.w_est * mss)
            return
        elapsed += state.srtt * 1e-12
        target = min(max(self.c * elapsed * elapsed * elapsed + cubic.w_max, window), 1.5 * window)
        state.cwnd += (target - window) / window * packets * mss

    cdef void decrease(self, Flow *flow, TcpState *state) noexcept:
        cdef CubicState *cubic = <CubicState*> state
        cdef double mss = <double> self.fabric.rules.mtu, window = state.cwnd / mss
        cubic.prior = window
        if self.fast_convergence and window < cubic.w_max:
            cubic.w_max = window * (1 + self.beta) / 2
        else:
            cubic.w_max = window
        state.ssthresh = max(min(<double> self.outstanding(flow), state.cwnd) * self.beta, 2 * mss)
        cubic.started = False

    cdef void restart(self, Flow *flow, TcpState *state) noexcept:
        (<CubicState*> state).started, (<CubicState*> state).restarted = False, True


assert sizeof(CubicState) <= STATE * sizeof(int64_t)
