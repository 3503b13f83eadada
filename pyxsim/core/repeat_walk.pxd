"""One walk through the state of a network: see repeat_walk.pyx."""

from pyxsim.core.state cimport State
from pyxsim.core.walking cimport Walk


cdef void walk(State* s, Walk* w) noexcept nogil
