"""The state of a network as Python keeps it: see snapshot.pyx."""

from pyxsim.core.state cimport State


cdef dict taken(State* s)
cdef int put_back(State* s, dict saved) except -1
