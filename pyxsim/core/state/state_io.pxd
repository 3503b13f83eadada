"""Saving and loading the state of a network: see state_io.pyx."""

from pyxsim.core.state.network_state cimport State


cdef dict save_state(State* s)
cdef int load_state(State* s, dict saved) except -1
