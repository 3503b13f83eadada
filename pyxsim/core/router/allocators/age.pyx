"""By age: requests of the oldest messages first, of equals by input, then output."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from pyxsim.core.router.allocators.matching cimport match_in_order
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport RequestMatrix

from pyxsim.plugins import allocators


cdef int32_t match_by_age(State* s, RequestMatrix* m) noexcept nogil:
    return match_in_order(s, m, False)


allocators.register("age", by_age=True, module=__name__)(PyCapsule_New(<void*> match_by_age, NULL, NULL))
