"""What is remembered of a network to see that it repeats itself: see repeat.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef enum:
    PICTURES = 24   # at most, since the last disturbance
    RATES = 4
    SAMPLED = 5


cdef struct Picture:
    # The state at the beginning of a cycle: what decides, seen from that cycle, and what only counts.
    int64_t cycle
    int64_t* same
    int64_t same_count, same_room
    int64_t* counts
    int64_t counts_count, counts_room
    int64_t latency_sum, packets
    int64_t* totals            # [SAMPLED, network links]


cdef struct Block:
    # An array in which nothing but equal bytes are the same.
    void* begin
    int64_t size


cdef struct Orbit:
    int64_t until              # no jump goes beyond this cycle; at most the cycle before: none is wanted
    uint64_t hash              # of the calendar's entries of the last 64 cycles that were visited
    int64_t seen               # the last of them
    int64_t marks              # messages that joined or arrived, and draws: none of them is part of a period
    int64_t age                # visited cycles since one of them
    int64_t due                # the age at which the next picture is taken
    int64_t spent              # words written and compared so far
    int64_t size               # of the last picture
    int32_t count              # pictures
    uint64_t hashes[PICTURES]  # in their cycles
    Picture pictures[PICTURES]
    Block* blocks
    int32_t block_count
    int64_t* met               # [messages] the last walk that came across it
    int64_t met_room, walks
    # --- a period that was proved ---
    int32_t proved             # 1: the state is that of `period` cycles ago
    int64_t period
    int64_t* begun             # the totals at its beginning
    int64_t most               # periods to come in which each message sends packets as in the one that was proved
    int64_t* deltas            # what a period adds to each counter
    int64_t deltas_room
    int64_t late               # periods simulated since then
    int64_t latency            # what it added to the sum of latencies
    int64_t packets            # and to the packets delivered
    int64_t skipped            # cycles
    # --- totals of the network links meanwhile, should the next period be as long as the last one that was proved ---
    int64_t window             # the windows whose ends are asked for
    int64_t* samples           # [samples, SAMPLED, network links]
    int64_t samples_room
    int64_t sample_first       # the cycle of the first, or NONE
    int64_t sample_step        # cycles from one to the next
    int64_t sampled            # words noted so far
    int64_t sample_due         # the next cycle of which they are noted
    # --- attribution: what more each packet of a lane waited at its source than one a period before ---
    int64_t* rates             # [lanes, RATES]: source, serialisation, vc, credit
    int64_t* senders           # [lanes] the walk that came across a message that sends, its only one
