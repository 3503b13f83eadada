"""Wavefront (Dally and Towles, section 19.4): rank, then diagonals of the request matrix; the first one moves on."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport match_in_order
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport RequestMatrix

from pyxsim.plugins import allocators


cdef int32_t match_wavefront(State* s, RequestMatrix* m) noexcept nogil:
    return match_in_order(s, m, True)


allocators.register("wavefront", module=__name__)(PyCapsule_New(<void*> match_wavefront, NULL, NULL))
