"""One walk through the state of a network: see visit_state.pyx."""

from pyxsim.core.state.network_state cimport State
from pyxsim.core.fast_forward.field_visitors cimport Visitor


cdef void visit_state(State* s, Visitor* w) noexcept nogil
