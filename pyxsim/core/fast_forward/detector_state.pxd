"""What is remembered of a network to see that it repeats itself: see period_detector.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef enum:
    MOST_SNAPSHOTS = 32   # at most, since the last disturbance
    MOST_PERIODS = 8       # that are remembered, at most
    RATES = 4
    COUNTS = 5      # of a link: COUNTERS of record_dtypes.py


cdef struct MessageEntry:
    # A message that has packets inside, or stands at the head of a source queue or next to it.
    int32_t message
    int32_t unopened               # packets that it has not opened
    int32_t opened
    int32_t delivered
    int64_t hops
    int32_t successor               # the message that takes its place in a jump,
    int32_t number_offset              # and how much higher the numbers of its packets are


cdef struct NetworkTotals:
    # What is counted of the whole network.
    int64_t visits
    int64_t packets
    int64_t flits
    int64_t latency
    int64_t network_latency
    int64_t hops


cdef struct StateSnapshot:
    # The state at the beginning of a cycle: what decides, seen from that cycle, and what only counts.
    int64_t cycle
    uint64_t hash              # of what led to it
    int64_t* same
    int64_t same_count, same_room
    int64_t* counts
    int64_t counts_count, counts_room
    MessageEntry* messages                # the messages, in the order in which they are met
    int32_t message_count, message_room
    NetworkTotals sums
    int64_t* links             # [links, COUNTS]
    bint copied
    char* copy                 # the records themselves, to be put back (snapshot_copy.pyx)
    int64_t copy_size, copy_room
    int64_t delivery_offsets               # in a loop: the places of the packets delivered before, summed


cdef struct CounterLog:
    # What was counted in each cycle on each network link: a bit for each counter.
    uint64_t* bits             # [cycles, words]
    int64_t room               # words
    int64_t first              # its first cycle, or NONE
    int64_t count              # cycles


cdef struct KnownPeriod:
    # A period that was proved, with pictures on the way: from each of them the others are reached in known time.
    int64_t period
    int64_t begin              # the cycle in which it began
    int64_t used               # when it was last of use: a number
    StateSnapshot snapshot[MOST_SNAPSHOTS]  # the first is that of its beginning
    int32_t count
    StateSnapshot end                # only what is counted, and messages in the order of the first picture
    int64_t packets            # delivered
    uint64_t* bits             # of each cycle,
    bint logged                 # if they were noted
    int64_t bits_room


cdef struct JumpPlan:
    # What may be passed over now.
    int64_t end                # the cycle that comes then; 0: nothing
    int64_t period
    int64_t rounds
    int64_t offset              # in the period, of the cycle at hand
    uint64_t* bits             # of the period, or NULL
    bint summed                # totals of the period are known
    KnownPeriod* loop                 # NULL: whole periods of the one that has just been proved
    int32_t start              # pictures of the loop: the state is that of this one,
    int32_t goal               # and will be that of this one


cdef struct ArrayBlock:
    # An array that is copied as it is.
    void* begin
    int64_t size


cdef struct PeriodDetector:
    int64_t until              # no jump goes beyond this cycle; at most the cycle before: none is wanted
    uint64_t hash              # of the calendar's entries of the last 64 cycles that had any
    int64_t hashed             # the last of them
    uint64_t hint              # of both: what pictures are found by
    int64_t last_visited               # the last cycle that was visited
    int64_t disturbances              # messages that joined or arrived, and draws: none of them is part of a period
    int64_t age                # visited cycles since one of them
    int64_t snapshot_due                # the age at which the next picture is taken
    int64_t words_spent              # words written and compared so far
    int64_t snapshot_words               # of the last picture
    int32_t snapshot_count              # pictures
    StateSnapshot snapshot[MOST_SNAPSHOTS]
    ArrayBlock* blocks
    int32_t compared           # blocks in which nothing but equal bytes are the same; the others are only copied
    int32_t block_count
    int64_t* visited_in               # [messages] the last walk that came across it,
    int32_t* order             # and how many others it had met before
    int64_t visited_room, visit_number
    MessageEntry* messages                # those of the last walk
    int32_t message_count, message_room
    # --- a period that was proved ---
    int64_t period             # the last one
    bint confirming                 # it is simulated once more
    int64_t* deltas            # what a period adds to each counter
    int64_t deltas_room
    int64_t latency_growth            # what it adds to the sum of latencies
    int64_t packet_growth            # and to the packets delivered
    JumpPlan plan
    KnownPeriod known[MOST_PERIODS]
    int64_t use_number               # the last number of a loop's use
    int64_t skipped            # cycles
    # --- what is counted meanwhile ---
    int64_t window             # the windows whose ends are asked for
    CounterLog log
    int64_t* totals               # [network links, COUNTS] the totals that were noted last
    int64_t* period_totals             # [COUNTS, network links] what a period of the plan counts,
    int64_t* base_totals             # and what was counted up to the beginning of the one at hand
    int64_t logged_cycles              # cycles so far
    int64_t sample_due         # the next cycle that has to be noted
    # --- attribution: what more each packet of a lane waited at its source than one a period before ---
    int64_t* rates             # [lanes, RATES]: source, serialisation, vc, credit
    int64_t* sender_visit           # [lanes] the walk that came across a message that sends, its only one
