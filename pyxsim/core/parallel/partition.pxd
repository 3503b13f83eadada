"""One network in parts, one thread each: what a part has of its own, and what they share (docs/threads.md).

A part is a set of routers with their lanes. It has a `State` of its own, whose records (VCs, links, routers, packets,
messages) are those of the whole network: what changes in a record is written by one part only. Its own are the
calendar, FIFO nodes, masks of who is awake, messages that wait for their cycle, what it counts, and scratch.
"""

from libc.stdint cimport int16_t, int32_t, int64_t

from pyxsim.core.cycle cimport Reason
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Outbox


cdef enum:
    # As in pyxsim/core/options.py.
    MOST_PARTS = 64
    LONGEST_EPOCH = 64   # longer ones would save nothing, and each part keeps records for all packets of one


cdef struct Part:
    State state
    Outbox* boxes            # [2 * parts] by the parity of the epoch, then by the part that they are for
    int32_t lanes            # injection lanes in it
    int32_t awake            # something is to be looked at in cycle `now`
    int64_t visited          # the last cycle in which there was something to do
    void* lock               # held, until somebody wakes the thread of the part
    int asleep
    char gap[64]             # two parts share no cache line


cdef struct Team:
    State* whole
    Part* part
    int32_t parts
    int32_t divided          # what moves is in the parts; else in the whole
    int16_t* part_of         # [routers]
    int16_t* sender          # [links] the part that the beginning belongs to
    int16_t* receiver        # [links] and the end
    int64_t across           # the fewest cycles until what crosses a cut is felt there
    int64_t ejection         # the fewest cycles from the start of a flit on an ejection lane to its arrival
    # --- the call at hand ---
    int64_t start
    int64_t stop
    int64_t slack
    int64_t window
    int64_t boundary
    int32_t done
    Reason reason
    # --- the epoch at hand ---
    int64_t end              # the cycle that it leads to,
    int32_t arrive           # 1: with step 1 of that cycle
    int32_t parity
    int64_t epochs           # counting
    # --- the threads ---
    int there                # how many have met
    int round                # how often all have
    int leave                # they are to end when they meet,
    int over                 # and do
    int left                 # how many have
    int32_t started
    long process             # in which they were


cdef int create_team(Team* team, State* whole, int16_t* part_of, int32_t parts) except -1
cdef void destroy_team(Team* team) noexcept
cdef void distribute_state(Team* team) noexcept nogil
cdef void gather_state(Team* team) noexcept nogil
cdef void collect_totals(Team* team) noexcept nogil
cdef void add_message(Team* team, int32_t message) noexcept nogil
