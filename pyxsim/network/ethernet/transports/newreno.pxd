from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.network.ethernet.records cimport Flow
from pyxsim.network.ethernet.transport cimport Transport

cdef struct TcpState:
    double cwnd, ssthresh  # payload bytes
    double srtt, rttvar    # picoseconds
    int32_t sample_at      # the next sample of the round trip: when a packet from this one on is acknowledged
    int32_t una            # of the flow, before the present acknowledgment
    int32_t duplicates     # duplicate acknowledgments in a row
    int32_t recover        # loss recovery ends when all packets below are acknowledged
    int32_t cut_until      # packets below have caused a reduction of the window
    int32_t resent         # packets that were sent again when recovery demanded another one
    int32_t judged         # packets below are acknowledged or were taken for lost
    int32_t highest        # the highest packet that is acknowledged
    uint8_t recovering, urgent


cdef class NewReno(Transport):
    cdef int64_t min_rto
    cdef double initial_window
    cdef int32_t threshold
    cdef bint ecn, sack
    cdef bint _used(self, TcpState *state, double flight) noexcept
    cdef int64_t outstanding(self, Flow *flow) noexcept
    cdef void increase(self, Flow *flow, TcpState *state, double acknowledged) noexcept
    cdef void decrease(self, Flow *flow, TcpState *state) noexcept
    cdef void restart(self, Flow *flow, TcpState *state) noexcept
    cdef void _update_rtt(self, Flow *flow, TcpState *state, double rtt) noexcept
    cdef void _find_lost(self, Flow *flow, TcpState *state) noexcept
    cdef void _recover(self, Flow *flow, TcpState *state) noexcept
    cdef void _reduce(self, Flow *flow, TcpState *state) noexcept
    cdef void _apply(self, Flow *flow, TcpState *state) noexcept
