"""HPCC over PINT: Ben Basat et al., "PINT: probabilistic in-band network telemetry", SIGCOMM 2020, section 4.3.

Each switch port averages its own utilization, and packets carry the highest one on their way as a digest of a few
bits (telemetry.pyx); the sender reacts to it as in HPCC.
"""

from libc.math cimport pow
from libc.stdint cimport int32_t, int64_t

from pyxsim.errors import InputError
from pyxsim.network.ethernet.libc_random cimport draw_libc
from pyxsim.network.ethernet.records cimport PINT, Flow, Packet
from pyxsim.network.ethernet.telemetry cimport LARGEST
from pyxsim.network.ethernet.transport cimport Transport
from pyxsim.network.ethernet.transport_options import KEY


cdef struct State:
    double reference
    int32_t update_at, stage


cdef class HpccPint(Transport):
    """HPCC over PINT.

    Options
    -------
    target
        eta, the utilization to approach.
    stages
        Round trips of additive increase before a multiplicative one (maxStage; 0: always multiplicative).
    additive, least
        Additive increase, and the lowest rate.
    probability
        Share of the acknowledgments that the sender takes.
    base
        Of the logarithm that a packet carries: utilizations in steps of this factor.
    telemetry
        Bytes of telemetry in each packet; that of acknowledgments fits into their size.
    window, variable
        See `Transport`.
    """

    cdef double target, additive, least, base
    cdef int32_t stages, threshold

    options = {
        "target": 0.95,
        "stages": 0,
        "additive": "50 Mb/s",
        "least": "100 Mb/s",
        "probability": 1.0,
        "base": 1.05,
        "telemetry": 2,
        "window": True,
        "variable": True,
    }
    positive = "least",
    shares = "target", "probability"

    def __init__(self, name, options=None):
        super().__init__(name, options)
        cdef dict values = self.values
        self.target, self.stages, self.base = values["target"], values["stages"], values["base"]
        self.additive, self.least = values["additive"], values["least"]
        self.threshold = int(65536 * values["probability"])
        if not 1.001 <= self.base <= 2:
            raise InputError(f"base = {self.base:g}", key=f"{KEY}.base", allowed="1.001 to 2")
        self.header_bytes, self.telemetry = values["telemetry"], PINT
        self.rules = {"pint_base": self.base}

    cdef void begin(self, int32_t number) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        (<State*> flow.state).reference = <double> flow.line
        self.set_rate(flow, <double> flow.line)

    cdef void end(self, int32_t number) noexcept:
        draw_libc(&self.fabric.libc_random)  # as ns-3 for the last acknowledgment

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        cdef Flow *flow = &self.fabric.flow[number]
        cdef State *state = <State*> flow.state
        cdef double ratio, rate
        cdef int32_t stage
        cdef bint full = flow.una > state.update_at
        if draw_libc(&self.fabric.libc_random) % 65536 >= self.threshold:
            return
        if not state.update_at:
            state.update_at = flow.next
            return
        ratio = pow(self.base, reply.digest) / LARGEST / self.target
        if ratio >= 1 or state.stage >= self.stages:
            rate, stage = <double> <int64_t> (state.reference / ratio) + self.additive, 0
        else:
            rate, stage = state.reference + self.additive, state.stage + 1
        rate = min(max(rate, self.least), <double> flow.line)
        self.change_rate(flow, rate)
        if full:
            state.reference, state.stage, state.update_at = rate, stage, max(state.update_at, flow.next)
