"""The threads of a partitioned network and their barrier: see worker_threads.pyx."""

from libc.stdint cimport int64_t

from pyxsim.core.cycle cimport Reason
from pyxsim.core.parallel.partition cimport Team


cdef Reason run_team(Team* team, int64_t until, int64_t slack, int64_t window) noexcept nogil
cdef int start_workers(Team* team) except -1
cdef void stop_workers(Team* team) noexcept
