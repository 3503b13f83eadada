"""What the routers of one word of `router_active` are about to do: between the stages of batch_path.pxd."""

from libc.stdint cimport int32_t, uint64_t


cdef enum:
    ROUTERS = 64       # of a batch
    MOST_PLACES = 64   # of a router


cdef struct RouterRequests:
    # What is found at a router in this cycle, as sets of places of its input VCs, or of outputs.
    int32_t router
    uint64_t eligible        # could go
    uint64_t no_credit      # lack a credit
    uint64_t link_busy      # lack the link
    uint64_t early       # heads that may not try for a VC yet
    uint64_t asked       # whether any head could ask
    uint64_t no_vc       # outputs at which a head found no VC
    uint64_t lost        # or lost it to another one


cdef struct RouterBatch:
    RouterRequests requests[ROUTERS + 1]         # the last one is nobody
    uint64_t pick[ROUTERS + 1]     # of those that could go, one for each input port; of routers with any
    int32_t with_picks[ROUTERS + 1]
    int32_t with_heads[ROUTERS + 1]
    int32_t no_credit[ROUTERS + 1]
    int32_t link_busy[ROUTERS + 1]
    int32_t idle[ROUTERS + 1]
    uint64_t heads[ROUTERS + 1]    # that may try, of routers with any
    int32_t router[ROUTERS + 1]    # as with_picks
    uint64_t places[ROUTERS + 1]
    int32_t subset[ROUTERS + 1]
    int32_t pick_count, head_count, no_credit_count, busy_count, idle_count
    int32_t request[ROUTERS * MOST_PLACES]         # input VCs whose heads ask for a VC that is free
    int32_t contender[ROUTERS * MOST_PLACES]       # those that do not have what they ask for, or have rivals
    int32_t contender_at[ROUTERS * MOST_PLACES]    # the numbers of their routers in the list at hand
    int32_t request_count, contender_count
