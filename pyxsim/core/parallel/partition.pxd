"""Partitions of one network, a thread or a process each: what a partition owns, and what all share (docs/threads.md).

A partition is a set of routers with their lanes. It has its own `State`, whose records (VCs, links, routers, packets,
messages) are those of the whole network; each record is written by one partition only. A partition owns its calendar,
FIFO nodes, active masks, waiting messages, counters and scratch.

With MPI, the `Part` of another process has only its summary and its counts, and the records of its routers are not
here. What crosses a cut to it goes through mail.pyx.
"""

from libc.stdint cimport int16_t, int32_t, int64_t

from pyxsim.core.cycle cimport Reason
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Outbox


cdef enum:
    # As in pyxsim/core/engine_options.py.
    MOST_PARTS = 64
    LONGEST_EPOCH = 64   # longer ones gain nothing, and each partition reserves packet records for a whole one


cdef struct Summary:
    # What decides between two epochs: of a partition, or of all.
    int32_t awake
    int32_t failed
    int32_t changed
    int32_t scheduled        # there is a calendar entry
    int32_t held             # where links will change: a source holds a message
    int64_t in_flight
    int64_t visited
    int64_t following        # next cycle with a calendar entry, or a message that starts
    int64_t latest           # last cycle with a calendar entry
    int64_t pending          # next message that starts
    int64_t completing       # next cycle in which a message may be delivered
    int64_t delivered        # first delivery of this call


cdef struct Part:
    State state
    Summary summary   # at the last barrier
    char* mail        # to the process that has it
    int64_t mail_capacity
    Outbox* boxes     # [2 * parts] by the parity of the epoch, then by receiver
    int32_t lanes     # injection lanes in it
    int32_t awake     # something is active in cycle `now`
    int64_t visited   # the last cycle with any activity
    void* lock        # held until another thread wakes this one
    int asleep
    char gap[64]      # two partitions share no cache line


cdef struct Team:
    State* whole
    Part* part
    int32_t parts
    int32_t first       # the partitions of this process: [first, beyond)
    int32_t beyond
    int32_t divided     # the moving state is in the partitions; else in the whole
    int16_t* part_of    # [routers]
    int16_t* sender     # [links] partition at the beginning of a link
    int16_t* receiver   # [links] and at its end
    int64_t across      # lookahead: fewest cycles until what crosses a cut takes effect
    int64_t ejection    # fewest cycles from the start of a flit on an ejection lane to its arrival
    int64_t longest_ejection
    # --- the call at hand ---
    int64_t start
    int64_t until
    int64_t stop
    int64_t slack
    int64_t window
    int64_t boundary
    int32_t done
    Reason reason
    # --- the epoch at hand ---
    int64_t end         # its last cycle
    int32_t arrive      # 1: including step 1 of that cycle
    int32_t parity
    int64_t epochs      # counting
    # --- the threads ---
    int there           # threads at the barrier
    int round           # barriers passed
    int leave           # threads shall end at the next barrier
    int over            # threads end now
    int left            # threads that have ended
    int32_t started
    long process        # the process of the threads


cdef inline bint has_remote_parts(Team* team) noexcept nogil:
    return team.beyond - team.first < team.parts


cdef int create_team(Team* team, State* whole, int16_t* part_of, int32_t parts, int32_t rank) except -1
cdef void destroy_team(Team* team) noexcept
cdef void distribute_state(Team* team) noexcept nogil
cdef void gather_state(Team* team) noexcept nogil
cdef void collect_totals(Team* team) noexcept nogil
cdef void add_message(Team* team, int32_t message) noexcept nogil
