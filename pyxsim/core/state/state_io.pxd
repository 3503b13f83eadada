"""The state of a network as Python keeps it: see state_io.pyx."""

from pyxsim.core.state.network_state cimport State


cdef dict taken(State* s)
cdef int put_back(State* s, dict saved) except -1
