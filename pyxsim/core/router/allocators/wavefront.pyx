"""Wavefront (Dally and Towles, section 19.4): rank, then diagonals of the request matrix; the first one moves on."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport match_in_order
from pyxsim.core.router.arbiter cimport after
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Request, RequestMatrix

from pyxsim.plugins import allocators


cdef int32_t match_wavefront(State* s, RequestMatrix* m) noexcept nogil:
    return match_in_order(s, m, True)


cdef int32_t match_rr_wavefront(State* s, RequestMatrix* m) noexcept nogil:
    """The next cycle begins behind the diagonal of the first grant."""
    cdef int32_t size = m.inputs if m.inputs > m.outputs else m.outputs
    cdef int32_t granted = match_in_order(s, m, True)
    cdef Request* first = &s.matching.requests[s.matching.granted[0]]
    if granted:
        m.wave[0] = after((first.i + first.o) % size, size)
    return granted


allocators.register("wavefront", module=__name__)(PyCapsule_New(<void*> match_wavefront, NULL, NULL))
allocators.register("rr-wavefront", module=__name__)(PyCapsule_New(<void*> match_rr_wavefront, NULL, NULL))
