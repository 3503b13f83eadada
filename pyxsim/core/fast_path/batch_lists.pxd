"""The lists that pass between the stages of batch_path.pxd and batch_va.pxd, for up to 64 routers."""

from libc.stdint cimport int32_t, uint64_t


cdef enum:
    ROUTERS = 64       # per batch
    MOST_PLACES = 64   # mask bits per router


cdef struct RouterRequests:
    # Requests at a router in this cycle, as masks of its input VCs or of its output ports.
    int32_t router
    uint64_t eligible      # input VCs whose front flit can request the switch
    uint64_t no_credit     # input VCs without a credit
    uint64_t link_busy     # input VCs whose link is busy
    uint64_t early         # input VCs whose head may not try VA yet
    uint64_t has_request   # nonzero if any head requested a VC
    uint64_t no_vc         # output ports at which a head found no free VC
    uint64_t lost          # output ports at which a head lost VA


cdef struct RouterBatch:
    RouterRequests requests[ROUTERS + 1]    # the last entry is a sentinel
    uint64_t pick[ROUTERS + 1]              # one eligible input VC per input port, for routers with any
    int32_t with_picks[ROUTERS + 1]
    int32_t with_heads[ROUTERS + 1]
    int32_t no_credit[ROUTERS + 1]
    int32_t link_busy[ROUTERS + 1]
    int32_t idle[ROUTERS + 1]
    uint64_t heads[ROUTERS + 1]             # input VCs whose head tries VA, for routers with any
    int32_t router[ROUTERS + 1]             # as with_picks
    uint64_t places[ROUTERS + 1]
    int32_t subset[ROUTERS + 1]
    int32_t pick_count, head_count, no_credit_count, busy_count, idle_count
    int32_t request[ROUTERS * MOST_PLACES]  # input VCs whose head requests a range with a free VC
    int32_t contender[ROUTERS * MOST_PLACES]  # input VCs that compete for a VC or output, or find none
    int32_t contender_at[ROUTERS * MOST_PLACES]  # index of their router in the current list
    int32_t request_count, contender_count
