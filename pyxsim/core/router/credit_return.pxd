"""Credits as messages: see credit_return.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State


cdef void collect_credit(State* s, int32_t link, int32_t vc, int64_t t) noexcept nogil
cdef void note_launch(State* s, int32_t link, int64_t t, bint wrong) noexcept nogil
cdef void list_link(State* s, int32_t link) noexcept nogil
cdef void return_credits(State* s) noexcept nogil
cdef void change_credit_return(State* s, int32_t link, bint lost, bint came_up) noexcept nogil
cdef void credits_arrive_again(State* s, int32_t link, int64_t number, int64_t arrival) noexcept nogil
cdef void clear_carried(State* s, int32_t link, int64_t number) noexcept nogil
