"""Windows of senders: NSCC (Ultra Ethernet 1.0, congestion management), and DCTCP (Alizadeh et al., 2010).

NSCC decides by two signals, the mark and the queueing delay of a packet: neither: increase in proportion to the delay
that is left to the target, and fast if there is no delay at all; delay only: fair increase; both: multiplicative
decrease by the mean delay; mark only: no change. Quick adapt: after losses or a very long delay, the window becomes
the bytes that were delivered in the last round trip.
"""

from libc.stdint cimport int64_t, uint32_t

from pyxsim.network.ethernet.uec.uec_records cimport Fabric, Flow

cdef double AVERAGE_GAIN = 0.0125, DECREASE_GAIN = 0.8, LEAST_DECREASE = 0.5
cdef int64_t NO_DELAY = 10**6  # ps

cdef enum:
    DCTCP = 1
    CONSTANT = 2
    ADJUST_PACKETS = 8
    VERY_LONG = 4              # targets


cdef void note_rtt(Fabric *fabric, Flow *flow, int64_t rtt) noexcept nogil:
    """Learn a shorter round trip than any before."""
    if rtt < flow.base_rtt:
        flow.base_rtt = rtt
        flow.bandwidth_delay = <int64_t> (<double> rtt / 1e6 * <double> fabric.rules.line / 8000000)
        flow.most_window = <int64_t> (1.5 * <double> flow.bandwidth_delay)


cdef void note_delay(Fabric *fabric, Flow *flow, int64_t delay, bint marked) noexcept nogil:
    """Update the mean queueing delay; long delays without a mark count for a quarter of a round trip."""
    cdef double value = <double> delay
    cdef double kept = (1 - AVERAGE_GAIN) * <double> flow.average_delay
    if not marked and delay > fabric.rules.target:
        flow.average_delay = <int64_t> (AVERAGE_GAIN * <double> flow.base_rtt * 0.25 + kept)
    else:
        flow.average_delay = <int64_t> (AVERAGE_GAIN * value + kept)


cdef inline void _bound(Fabric *fabric, Flow *flow) noexcept nogil:
    flow.window = min(max(flow.window, fabric.rules.mtu), flow.most_window)


cdef bint _quick_adapt(Fabric *fabric, Flow *flow, bint lost, bint skip, int64_t delay) noexcept nogil:
    """Whether the window was adapted, or the signal belongs to bytes sent before it was."""
    cdef bint hit = False
    cdef int64_t before
    if flow.ignored < flow.to_ignore and skip:
        hit = True
    elif fabric.now > flow.adapt_at:
        if flow.adapt_at and (flow.adapt_soon or lost or delay > VERY_LONG * fabric.rules.target) and (
            flow.achieved < flow.most_window >> fabric.rules.qa_gate
        ):
            before = flow.window
            flow.window = max(flow.achieved, fabric.rules.mtu)
            flow.decreased_quick += before - flow.window
            flow.to_ignore, flow.ignored, flow.adapt_soon = <uint32_t> flow.in_flight, 0, False
            hit = True
        flow.achieved = 0
        flow.adapt_at = fabric.now + flow.base_rtt + fabric.rules.target
    if hit:
        flow.increase, flow.received = 0, 0
    return hit


cdef void window_after_ack(Fabric *fabric, Flow *flow, bint marked, int64_t delay, int64_t fresh) noexcept nogil:
    """Set the window after an acknowledgment of `fresh` bytes, with a mark or not, and a queueing delay."""
    if fabric.rules.algorithm == CONSTANT:
        return
    if fabric.rules.algorithm == DCTCP:
        if marked:
            flow.window = max(fabric.rules.mtu, flow.window - fresh // 3)
        else:
            flow.window += fresh * fabric.rules.mtu // flow.window
        return
    if _quick_adapt(fabric, flow, False, marked, delay):
        return
    if not marked and delay >= fabric.rules.target:
        _grow(flow, fabric.rules.fair * <double> fresh, &flow.fair)
    elif not marked:
        if not _grow_fast(fabric, flow, delay, fresh):
            _grow(flow, fabric.rules.alpha * <double> fresh * <double> (fabric.rules.target - delay),
                  &flow.proportional)
    elif delay >= fabric.rules.target:
        _decrease(fabric, flow)
    _bound(fabric, flow)
    if (flow.received > ADJUST_PACKETS * fabric.rules.mtu
            or fabric.now - flow.last_adjust > fabric.rules.network_rtt):
        _apply(fabric, flow)
    _bound(fabric, flow)


cdef inline void _grow(Flow *flow, double by, int64_t *counter) noexcept nogil:
    """Add to `increase`, modulo 2**32."""
    cdef int64_t before = flow.increase
    flow.increase = <uint32_t> <int64_t> (<double> flow.increase + by)
    counter[0] += flow.increase - before


cdef bint _grow_fast(Fabric *fabric, Flow *flow, int64_t delay, int64_t fresh) noexcept nogil:
    """Without delay for a whole window, the window grows with every byte."""
    cdef int64_t before = flow.window
    if delay < NO_DELAY:
        flow.fast_count += fresh
        if flow.fast_count > flow.window or flow.increasing:
            flow.window = <int64_t> (<double> flow.window + <double> fresh * fabric.rules.fast)
            flow.increased_fast += flow.window - before
            flow.increasing = True
            return True
    else:
        flow.fast_count = 0
    flow.increasing = False
    return False


cdef void _decrease(Fabric *fabric, Flow *flow) noexcept nogil:
    """Decrease by the mean delay beyond the target, at most once per round trip and by half."""
    cdef double mean = <double> flow.average_delay, factor
    cdef int64_t before = flow.window
    flow.increasing, flow.fast_count = False, 0
    if flow.average_delay > fabric.rules.target and fabric.now - flow.last_decrease > flow.base_rtt:
        factor = max(
            1 - DECREASE_GAIN * <double> (flow.average_delay - fabric.rules.target) / mean, LEAST_DECREASE
        )
        flow.window = max(<int64_t> (<double> flow.window * factor), fabric.rules.mtu)
        flow.decreased_window += before - flow.window
        flow.last_decrease = fabric.now


cdef void _apply(Fabric *fabric, Flow *flow) noexcept nogil:
    """Add what has been gained since the last time to the window, and a constant once per round trip."""
    flow.window += flow.increase // flow.window
    flow.increased_fair += flow.fair // flow.window
    flow.increased_proportional += flow.proportional // flow.window
    flow.fair = flow.proportional = 0
    if fabric.now - flow.last_adjust >= fabric.rules.network_rtt:
        flow.window = <int64_t> (<double> flow.window + fabric.rules.eta)
        flow.increased_eta = <int64_t> (<double> flow.increased_eta + fabric.rules.eta)
        flow.last_adjust = fabric.now
    flow.increase, flow.received = 0, 0


cdef void window_after_nack(Fabric *fabric, Flow *flow, int64_t size, bint last_hop) noexcept nogil:
    """Set the window after the loss of a packet of `size` bytes."""
    if fabric.rules.algorithm == CONSTANT:
        return
    if fabric.rules.algorithm == DCTCP:
        flow.window = max(flow.window - size, fabric.rules.mtu)
        return
    flow.ignored += <uint32_t> size
    flow.decreased_nack += size
    # The mean of the original adds a round trip of the network to that of the flow, whose base it subtracts again.
    note_delay(fabric, flow, fabric.rules.network_rtt, True)
    flow.adapt_soon = True
    if not _quick_adapt(fabric, flow, True, True, 0) and not (fabric.rules.receiver_cc and last_hop):
        flow.window -= size
        _bound(fabric, flow)
