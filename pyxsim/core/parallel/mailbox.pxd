"""What crosses a cut between two partitions: see mailbox.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Event, Outbox


cdef void post(State* s, int32_t to, int64_t cycle, int32_t vc, int32_t packet, Event kind) noexcept nogil
cdef void receive_entries(State* s, Outbox* box) noexcept nogil
