"""Inspection of a network at rest: invariants, error reports, comparison. See inspection.pyx."""

from libc.stdint cimport int32_t

from pyxsim.core.state.network_state cimport State


cdef list calendar_entries(State* s)
cdef list pending_messages(State* s)
cdef list packets_of(State* s, int32_t vc)
cdef list stuck_flits(State* s)
cdef int prove_invariants(State* s) except -1
