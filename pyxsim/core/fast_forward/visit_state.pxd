"""The state visitor: see visit_state.pyx."""

from pyxsim.core.fast_forward.field_visitors cimport Visitor
from pyxsim.core.state.network_state cimport State


cdef void visit_state(State* s, Visitor* w) noexcept nogil
