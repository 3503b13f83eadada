"""Allocators of an engine by name: see user_matching.pyx."""

from pyxsim.core.state.network_state cimport State


cdef int set_allocators(State* s, options) except -1
cdef object make_user_allocators(State* s, options)
