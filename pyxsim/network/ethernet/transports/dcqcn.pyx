"""DCQCN: Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015, section 3.

The sender (reaction point) cuts its rate by alpha / 2 when it learns of marks, at most once per `decrease_interval`,
and recovers by a timer: first halfway to the rate before the cut, then with additive and hyper increase of that target.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.network.ethernet.records cimport CE, Flow, Packet
from pyxsim.network.ethernet.transport cimport Transport


cdef struct State:
    double target, alpha
    int64_t alpha_at, decrease_at, increase_at
    int32_t stage
    uint8_t alpha_marked, marked, started


cdef class Dcqcn(Transport):
    """DCQCN.

    Options
    -------
    gain
        g, the gain of alpha.
    alpha_interval, decrease_interval, increase_interval
        Update of alpha, least time between cuts, recovery timer.
    fast_recovery
        Steps of the timer without an increase of the target.
    additive, hyper, least
        Steps of the target, and the lowest rate.
    clamp
        Whether a cut always sets the target to the present rate.
    window, variable
        See `Transport`.
    """

    cdef double gain, additive, hyper, least
    cdef int64_t alpha_interval, decrease_interval, increase_interval
    cdef int32_t fast_recovery
    cdef bint clamp

    options = {
        "gain": 0.00390625,
        "alpha_interval": "1 us",
        "decrease_interval": "4 us",
        "increase_interval": "900 us",
        "fast_recovery": 1,
        "additive": "50 Mb/s",
        "hyper": "100 Mb/s",
        "least": "100 Mb/s",
        "clamp": False,
        "window": True,
        "variable": True,
    }
    positive = "alpha_interval", "decrease_interval", "increase_interval", "least"
    shares = "gain",

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.gain, self.clamp, self.fast_recovery = values["gain"], values["clamp"], values["fast_recovery"]
        self.additive, self.hyper, self.least = values["additive"], values["hyper"], values["least"]
        self.alpha_interval, self.decrease_interval = values["alpha_interval"], values["decrease_interval"]
        self.increase_interval = values["increase_interval"]

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        if reply.flags & CE:
            self.on_cnp(number)

    cdef void on_cnp(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        state.alpha_marked = state.marked = True
        if not state.started:
            state.started, state.alpha, state.target, state.alpha_marked = True, 1, flow.rate, False
            state.alpha_at = self.fabric.now + self.alpha_interval
            state.decrease_at = self.fabric.now + self.decrease_interval + 1000
            self.call_at(number, state.alpha_at)
            self.call_at(number, state.decrease_at)

    cdef void on_due(self, int32_t number) noexcept:
        cdef State *state = <State*> self.fabric.flow[number].state
        cdef int64_t now = self.fabric.now
        if state.alpha_at == now:
            state.alpha *= 1 - self.gain
            if state.alpha_marked:
                state.alpha += self.gain
            state.alpha_marked = False
            state.alpha_at = now + self.alpha_interval
            self.call_at(number, state.alpha_at)
        # At the same time, the timer that was set first is first: the longer one.
        if self.increase_interval > self.decrease_interval:
            self._increase(number, now)
            self._decrease(number, now)
        else:
            self._decrease(number, now)
            self._increase(number, now)

    cdef void _decrease(self, int32_t number, int64_t now) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        if state.decrease_at != now:
            return
        state.decrease_at = now + self.decrease_interval
        self.call_at(number, state.decrease_at)
        if state.marked:
            if self.clamp or state.stage:
                state.target = flow.rate
            self.set_rate(flow, max(self.least, <double> <int64_t> (flow.rate * (1 - state.alpha / 2))))
            state.stage, state.marked = 0, False
            state.increase_at = now + self.increase_interval
            self.call_at(number, state.increase_at)

    cdef void _increase(self, int32_t number, int64_t now) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        if state.increase_at != now:
            return
        state.increase_at = now + self.increase_interval
        self.call_at(number, state.increase_at)
        if state.stage >= self.fast_recovery:
            state.target += self.additive if state.stage == self.fast_recovery else self.hyper
            state.target = min(state.target, <double> flow.line)
        self.set_rate(flow, <double> (<int64_t> (flow.rate / 2) + <int64_t> (state.target / 2)))
        state.stage += 1
