"""Epochs of a partitioned network: see epoch.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.parallel.partition cimport Team


cdef void summarise_parts(Team* team) noexcept nogil
cdef void begin_run(Team* team, int64_t until, int64_t slack, int64_t window) noexcept nogil
cdef void decide_next_epoch(Team* team) noexcept nogil
cdef void run_part(Team* team, int32_t number) noexcept nogil
