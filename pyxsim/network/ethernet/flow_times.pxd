"""Where the time of a flow goes at its sender: into transmissions, or waiting for port, window or rate."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.network.ethernet.records cimport (
    AT_PAUSE, AT_PORT, AT_RATE, AT_WINDOW, FOR_NOTHING, FOR_PORT, FOR_WINDOW, RESENDING, Fabric, Flow, FlowTimes, Port,
)


cdef inline int64_t _paused(Fabric *fabric, const Flow *flow) noexcept nogil:
    """Time of pauses of the port of a flow until now."""
    cdef Port *port = &fabric.port[flow.port]
    return port.paused_time + (fabric.now - port.paused_since if port.paused >> flow.cls & 1 else 0)


cdef inline void open_times(Fabric *fabric, int32_t number) noexcept nogil:
    """A flow starts at its port."""
    fabric.times[number].since = fabric.now
    fabric.times[number].paused_before = _paused(fabric, &fabric.flow[number])


cdef inline void settle(Fabric *fabric, int32_t number) noexcept nogil:
    """Add the time since the last call to what the flow has waited for."""
    cdef FlowTimes *times = &fabric.times[number]
    cdef int64_t time = fabric.now - times.since, paused, part
    if time <= 0:  # its packet is in transmission
        return
    paused = _paused(fabric, &fabric.flow[number])
    if times.waits == FOR_PORT:
        part = min(max(paused - times.paused_before, 0), time)
        times.spent[AT_PAUSE] += part
        times.spent[AT_PORT] += time - part
    elif times.waits != FOR_NOTHING:
        times.spent[AT_WINDOW if times.waits == FOR_WINDOW else AT_RATE] += time
    times.since, times.paused_before = fabric.now, paused


cdef inline void wait_for(Fabric *fabric, int32_t number, int32_t waits) noexcept nogil:
    """From now on, the next packet of a flow waits for this."""
    if fabric.flow[number].end < 0:
        settle(fabric, number)
    fabric.times[number].waits = waits


cdef inline void close_times(Fabric *fabric, int32_t number) noexcept nogil:
    """The receiver has everything now."""
    settle(fabric, number)
    # of a packet that was sent again in vain
    fabric.times[number].spent[RESENDING] -= max(fabric.times[number].since - fabric.now, 0)


cdef inline void spend(Fabric *fabric, int32_t number, int32_t what, int64_t time, int32_t waits) noexcept nogil:
    """A transmission begins now that takes this time; what the next packet waits for then."""
    cdef FlowTimes *times = &fabric.times[number]
    if fabric.flow[number].end >= 0:  # its receiver has everything
        return
    settle(fabric, number)
    times.spent[what] += time
    times.since, times.waits = fabric.now + time, waits
    times.paused_before = _paused(fabric, &fabric.flow[number])
