"""The state of a network as Python keeps it: see state_io.pyx."""

from pyxsim.core.state.network_state cimport State


cdef dict save_state(State* s)
cdef int load_state(State* s, dict saved) except -1
