"""iSLIP (McKeown 1999): outputs grant, inputs accept, for some iterations. One iteration is separable, output first."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport clear_matches, match_separably
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport RequestMatrix

from pyxsim.plugins import allocators


cdef int32_t match_islip(State* s, RequestMatrix* m) noexcept nogil:
    cdef int32_t granted = 0
    cdef int32_t iteration, before
    clear_matches(s, m)
    for iteration in range(m.iterations):
        before = granted
        granted = match_separably(s, m, granted, False, iteration == 0)
        if granted == before:
            break
    return granted


cdef int32_t match_islip_unranked(State* s, RequestMatrix* m) noexcept nogil:
    """McKeown's iSLIP has no ranks."""
    cdef int32_t i
    for i in range(m.count):
        s.matching.requests[i].rank = 0
    return match_islip(s, m)


match = PyCapsule_New(<void*> match_islip, NULL, NULL)
allocators.register("islip", iterations=64, module=__name__)(match)
allocators.register("separable-output-first", module=__name__)(match)
allocators.register("islip-unranked", iterations=64, module=__name__)(
    PyCapsule_New(<void*> match_islip_unranked, NULL, NULL))
