"""What a partition sends to the other processes at a barrier: see mail.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.parallel.partition cimport Summary, Team
from pyxsim.core.state.network_state cimport Statistics


cdef struct MailHeader:
    # It is followed by the entries, the packets that were granted VCs, in their order, and the deliveries.
    Summary summary
    Statistics stats     # the counts of this call; its pointers mean nothing to others
    int64_t in_flight
    int64_t draws
    int64_t bytes        # of the whole mail
    int64_t call         # equal in all processes if their system layers do the same
    int32_t entries
    int32_t packets
    int32_t deliveries


cdef struct Delivery:
    # A message that has been delivered.
    int64_t last
    int64_t first
    int64_t hops
    int32_t message


cdef void write_mail(Team* team) noexcept nogil
cdef bint read_mail(Team* team, int32_t sender, char* mail, int64_t size) noexcept nogil
