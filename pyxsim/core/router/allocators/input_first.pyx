"""Separable, input first (Dally and Towles, section 19.3): each input picks an output, each output one of these inputs.

For SA, switch_allocator.pyx and the fast path implement it without a request matrix: each input picks a VC.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport clear_matches, match_separably
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport RequestMatrix

from pyxsim.plugins import allocators


cdef int32_t match_input_first(State* s, RequestMatrix* m) noexcept nogil:
    clear_matches(s, m)
    return match_separably(s, m, 0, True, True)


allocators.register("separable-input-first", direct=("sa",), module=__name__)(
    PyCapsule_New(<void*> match_input_first, NULL, NULL))
