"""What the engine has written down, as tables for Python: see record_tables.pyx."""

from pyxsim.core.state.network_state cimport State


cdef object launches(State* s)
cdef list notes(State* s)
cdef tuple take_delivered(State* s)
cdef dict arrivals(State* s)
cdef dict waits(State* s)
cdef object splits(State* s)
cdef object stays(State* s)
