"""What the arrays of a network hold for bit errors, retry and credits as messages: see link_layer_arrays.pyx."""

from libc.stdint cimport int64_t

from pyxsim.core.state.array_owner cimport ArrayOwner
from pyxsim.core.state.network_state cimport State


cdef class LinkLayerArrays(ArrayOwner):
    cdef State s
    cdef tuple made_of    # positional and keyword arguments of the constructor, for pickling
    cdef object listed    # index of each VC, by link and number
    cdef bint varies      # links may change
    cdef int64_t longest  # most cycles between a launch and what follows from it, where links change or have retry
