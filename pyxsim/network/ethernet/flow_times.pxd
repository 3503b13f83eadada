"""Where the time of a flow goes at its sender: into transmissions, or waiting for port, window or rate."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.records cimport (
    AT_PAUSE, AT_PORT, AT_RATE, AT_WINDOW, FOR_NOTHING, FOR_PORT, FOR_WINDOW, RESENDING, Fabric, Flow, Port,
)


cdef inline int64_t _paused(Fabric *fabric, const Flow *flow) noexcept nogil:
    """Time of pauses of the port of a flow until now."""
    cdef Port *port = &fabric.port[flow.port]
    return port.paused_time + (fabric.now - port.paused_since if port.paused >> flow.cls & 1 else 0)


cdef inline void settle(Fabric *fabric, Flow *flow) noexcept nogil:
    """Add the time since the last call to what the flow has waited for."""
    cdef int64_t time = fabric.now - flow.since, paused
    if time <= 0:  # its packet is in transmission
        return
    paused = _paused(fabric, flow)
    if flow.waits == FOR_PORT:
        flow.spent[AT_PAUSE] += min(max(paused - flow.paused_before, 0), time)
        flow.spent[AT_PORT] += time - min(max(paused - flow.paused_before, 0), time)
    elif flow.waits != FOR_NOTHING:
        flow.spent[AT_WINDOW if flow.waits == FOR_WINDOW else AT_RATE] += time
    flow.since, flow.paused_before = fabric.now, paused


cdef inline void wait_for(Fabric *fabric, Flow *flow, int32_t waits) noexcept nogil:
    """From now on, the next packet of a flow waits for this."""
    if flow.end < 0:
        settle(fabric, flow)
    flow.waits = waits


cdef inline void close_times(Fabric *fabric, Flow *flow) noexcept nogil:
    """The receiver has everything now."""
    settle(fabric, flow)
    flow.spent[RESENDING] -= max(flow.since - fabric.now, 0)  # of a packet that was sent again in vain


cdef inline void spend(Fabric *fabric, Flow *flow, int32_t what, int64_t time) noexcept nogil:
    """A transmission begins now that takes this time."""
    if flow.end >= 0:  # its receiver has everything
        return
    settle(fabric, flow)
    flow.spent[what] += time
    flow.since = fabric.now + time
    flow.paused_before = _paused(fabric, flow)
