"""Transports of users: Python classes that control the rate and window of each flow (docs/extending_transport.md).

Python code runs per acknowledgment, so such a transport is some ten times slower than a compiled one.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.errors import InputError
from pyxsim.network.ethernet.event_queue cimport schedule
from pyxsim.network.ethernet.records cimport CE, DUE, Fabric, Packet
from pyxsim.network.ethernet.transport cimport Transport

METHODS = ("start", "acknowledged", "lost", "notified", "timer")


cdef class FlowView:
    """A flow, as a transport sees it: times in picoseconds, rates in bits per second, sizes in bytes.

    Attributes
    ----------
    rate, window
        May be set: the pace of packets, and the payload in flight (0: no limit).
    state
        Free for the transport.
    """

    cdef Fabric *fabric
    cdef readonly int32_t number
    cdef public object state

    @property
    def rate(self):
        return self.fabric.flow[self.number].rate

    @rate.setter
    def rate(self, double value):
        if not value > 0:
            raise ValueError(f"rate = {value}; expected a positive number of bits per second")
        self.fabric.flow[self.number].rate = value

    @property
    def window(self):
        return self.fabric.flow[self.number].window

    @window.setter
    def window(self, double value):
        if not value >= 0:
            raise ValueError(f"window = {value}; expected bytes, or 0 for no limit")
        self.fabric.flow[self.number].window = value

    @property
    def now(self):
        return self.fabric.now

    @property
    def src(self):
        return self.fabric.flow[self.number].src

    @property
    def dst(self):
        return self.fabric.flow[self.number].dst

    @property
    def bytes(self):
        return self.fabric.flow[self.number].nbytes

    @property
    def line_rate(self):
        """Rate of the NIC."""
        return self.fabric.flow[self.number].line

    @property
    def base_rtt(self):
        """Round trip without queues."""
        return self.fabric.flow[self.number].base_rtt

    @property
    def bdp(self):
        """Bandwidth-delay product: `line_rate` x `base_rtt`."""
        return self.fabric.flow[self.number].bdp

    @property
    def in_flight(self):
        return self.fabric.flow[self.number].flight

    @property
    def mtu(self):
        return self.fabric.rules.mtu

    def set_timer(self, int64_t delay):
        """Call `timer` in `delay` picoseconds; an earlier timer of the flow is forgotten."""
        if delay < 1:
            raise ValueError(f"delay = {delay}; expected at least 1 ps")
        cdef int64_t at = self.fabric.now + delay
        self.fabric.flow[self.number].due = at
        if schedule(&self.fabric.events, at, DUE, self.number):
            self.fabric.failed = True


cdef class UserTransport(Transport):
    """Calls an object of a user's class; the first exception ends the run."""

    cdef object user, calls, file
    cdef dict views

    def __init__(self, name, user, file):
        super().__init__("none", {})
        self.name, self.file, self.user, self.views, self.error = name, file, user, {}, None
        self.calls = {method: getattr(self.user, method, None) for method in METHODS}
        if not any(map(callable, self.calls.values())):
            raise InputError(f"transport '{name}' has no method that is called", file=file, allowed=METHODS)

    cdef void _call(self, str method, int32_t number, tuple arguments) noexcept:
        cdef FlowView view
        if self.error is not None or self.calls[method] is None:
            return
        try:
            view = self.views.get(number)
            if view is None:
                view = FlowView()
                view.fabric, view.number = self.fabric, number
                self.views[number] = view
            self.calls[method](view, *arguments)
        except InputError as error:
            self.error = error
        except Exception as error:
            problem = f"transport '{self.name}': {method}() raised {type(error).__name__}: {error}"
            self.error = InputError(problem, file=self.file)

    cdef void begin(self, int32_t number) noexcept:
        Transport.begin(self, number)
        self._call("start", number, ())

    cdef void end(self, int32_t number) noexcept:
        self.views.pop(number, None)

    cdef void on_ack(self, int32_t number, Packet *reply, int64_t acknowledged) noexcept:
        self._call("acknowledged", number, (acknowledged, bool(reply.flags & CE), self.fabric.now - reply.sent))

    cdef void on_nack(self, int32_t number, Packet *reply) noexcept:
        self._call("lost", number, ())

    cdef void on_loss(self, int32_t number) noexcept:
        self._call("lost", number, ())

    cdef void on_cnp(self, int32_t number) noexcept:
        self._call("notified", number, ())

    cdef void on_due(self, int32_t number) noexcept:
        if self.fabric.flow[number].due == self.fabric.now:
            self.fabric.flow[number].due = 0
            self._call("timer", number, ())
