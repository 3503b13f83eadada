"""Tables of the Ethernet engine: counters of ports and flows, and their present state."""

from libc.stdint cimport int64_t

import numpy as np

from pyxsim.network.ethernet.flow_times cimport settle
from pyxsim.network.ethernet.records cimport CLASSES, SPENT, Fabric, Flow, Port

FLOW_COUNTERS = (
    "sent", "resent", "delivered", "marked", "trimmed", "dropped", "errors", "out_of_order", "duplicates", "timeouts",
)
FLOW_COLUMNS = ("src", "dst", "bytes", "packets", "start", "end", *FLOW_COUNTERS, "traffic_class")
PORT_COUNTERS = (
    "sent_bytes", "sent_packets", "marked", "dropped", "trimmed", "errors", "pauses", "paused_time", "peak",
)
FLOW_TIMES = ("sending", "resending", "port", "pause", "window", "rate")  # as SENDING to AT_RATE


cdef dict port_counters(Fabric *fabric):
    """Return the counters of each port, int64[ports] by name."""
    table = np.zeros((len(PORT_COUNTERS), fabric.ports), np.int64)
    cdef int64_t[:, ::1] into = table
    cdef Port *port
    cdef int64_t i, k
    for i in range(fabric.ports):
        port = &fabric.port[i]
        into[0, i], into[1, i] = port.sent_bytes, port.sent_packets
        into[2, i], into[3, i], into[4, i] = port.marked, port.dropped, port.trimmed
        into[5, i], into[6, i], into[8, i] = fabric.medium[i].errors, port.pauses, port.deepest
        for k in range(CLASSES):
            into[8, i] = max(into[8, i], port.queue[k].peak)
        into[7, i] = port.paused_time + (fabric.now - port.paused_since if port.paused else 0)
    return dict(zip(PORT_COUNTERS, table, strict=True))


cdef object window_peaks(Fabric *fabric):
    """Return int64[ports]: the most bytes in the queue of one class of each port since the last call."""
    peaks = np.zeros(fabric.ports, np.int64)
    cdef int64_t[::1] into = peaks
    cdef Port *port
    cdef int64_t i, k
    for i in range(fabric.ports):
        port = &fabric.port[i]
        for k in range(CLASSES):
            into[i] = max(into[i], port.queue[k].peak)
            port.queue[k].peak = port.queue[k].depth
        port.deepest = max(port.deepest, into[i])
    return peaks


cdef dict flow_table(Fabric *fabric, int64_t most):
    """Return a column per field of the first `most` flows, int64 by name; times in picoseconds."""
    table = np.zeros((len(FLOW_COLUMNS), min(most, fabric.flows)), np.int64)
    cdef int64_t[:, ::1] into = table
    cdef Flow *flow
    cdef int64_t i
    for i in range(into.shape[1]):
        flow = &fabric.flow[i]
        into[0, i], into[1, i], into[2, i], into[3, i] = flow.src, flow.dst, flow.nbytes, flow.packets
        into[4, i], into[5, i] = flow.start, flow.end
        into[6, i], into[7, i], into[8, i] = flow.sent, flow.resent, flow.delivered
        into[9, i], into[10, i], into[11, i], into[12, i] = flow.marked, flow.trimmed, flow.dropped, flow.errors
        into[13, i], into[14, i], into[15, i] = flow.out_of_order, flow.duplicates, flow.timeouts
        into[16, i] = flow.cls
    return dict(zip(FLOW_COLUMNS, table, strict=True))


cdef dict flow_control(Fabric *fabric, int64_t most):
    """Return the present state of the first `most` flows by name.

    "window" and "flight" (payload bytes), "rate" (bits per second), "rtt" (the last one, picoseconds; 0: none),
    "active" (1 from the start of the flow until its last acknowledgment).
    """
    names = ("window", "flight", "rate", "rtt", "active")
    table = np.zeros((len(names), min(most, fabric.flows)))
    cdef double[:, ::1] into = table
    cdef Flow *flow
    cdef int64_t i
    for i in range(into.shape[1]):
        flow = &fabric.flow[i]
        into[0, i], into[1, i], into[2, i] = flow.window, <double> flow.flight, flow.rate
        into[3, i], into[4, i] = <double> flow.rtt, flow.active
    return dict(zip(names, table, strict=True))


cdef dict flow_times(Fabric *fabric, int64_t most):
    """Where the time of the first `most` flows went at their senders: picoseconds, int64 by name."""
    table = np.zeros((len(FLOW_TIMES), min(most, fabric.flows)), np.int64)
    cdef int64_t[:, ::1] into = table
    cdef Flow *flow
    cdef int64_t i, k
    for i in range(into.shape[1]):
        flow = &fabric.flow[i]
        if flow.active and flow.end < 0:
            settle(fabric, i)
        for k in range(SPENT):
            into[k, i] = fabric.times[i].spent[k]
    return dict(zip(FLOW_TIMES, table, strict=True))
