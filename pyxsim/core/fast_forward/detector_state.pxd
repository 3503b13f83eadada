"""The state of the period detector: see period_detector.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef enum:
    MOST_SNAPSHOTS = 32   # at most, since the last disturbance
    MOST_PERIODS = 8      # known periods, at most
    RATES = 4
    COUNTS = 5            # of a link: COUNTERS of record_dtypes.py


cdef struct MessageEntry:
    # A message with packets inside, or among the first two of a source queue.
    int32_t message
    int32_t unopened        # packets that it has not opened
    int32_t opened
    int32_t delivered
    int64_t hops
    int32_t successor       # the message that takes its place in a jump
    int32_t number_offset   # what to add to the numbers of its packets


cdef struct NetworkTotals:
    # Counters of the whole network.
    int64_t visits
    int64_t packets
    int64_t flits
    int64_t latency
    int64_t network_latency
    int64_t hops


cdef struct StateSnapshot:
    # The state at the beginning of a cycle: what decides, relative to that cycle, and what only counts.
    int64_t cycle
    uint64_t hash              # of the calendar entries that led to it
    int64_t* same
    int64_t same_count, same_capacity
    int64_t* counts
    int64_t counts_count, counts_capacity
    MessageEntry* messages     # in the order in which they were visited
    int32_t message_count, message_capacity
    NetworkTotals sums
    int64_t* links             # [links, COUNTS]
    bint copied
    char* copy                 # a copy of the records, to be restored (snapshot_copy.pyx)
    int64_t copy_size, copy_capacity
    int64_t delivery_offsets   # in a known period: offsets of the packets delivered before, summed


cdef struct CounterLog:
    # What each cycle counts on each network link: one bit per counter.
    uint64_t* bits   # [cycles, words]
    int64_t capacity     # words
    int64_t first    # first cycle, or NONE
    int64_t count    # cycles


cdef struct KnownPeriod:
    # A proved period with snapshots on the way: from each of them the others follow after a known time.
    int64_t period
    int64_t begin                           # cycle of the first snapshot
    int64_t used                            # use number of its last use
    StateSnapshot snapshot[MOST_SNAPSHOTS]  # the first one is at its beginning
    int32_t count
    StateSnapshot end                       # only counters, and messages in the order of the first snapshot
    int64_t packets                         # delivered
    uint64_t* bits                          # counter log
    bint logged                             # it has one
    int64_t bits_capacity


cdef struct JumpPlan:
    # A jump that may be performed now.
    int64_t end         # cycle after the jump; 0: none
    int64_t period
    int64_t rounds
    int64_t offset      # in the period, of the current cycle
    uint64_t* bits      # counter log of the period, or NULL
    bint summed         # the totals of the period are known
    KnownPeriod* loop   # NULL: whole periods of the one proved just now
    int32_t start       # snapshot of the known period that the state equals
    int32_t goal        # and the one after the jump


cdef struct ArrayBlock:
    # An array that is copied as a block.
    void* begin
    int64_t size


cdef struct PeriodDetector:
    int64_t until            # no jump goes beyond this cycle; fast-forward is off from it on
    uint64_t hash            # of the calendar entries of the last 64 nonempty cycles
    int64_t hashed           # the last of them
    uint64_t hint            # both combined: the key of snapshots
    int64_t last_visited     # last cycle visited
    int64_t disturbances     # messages that joined or arrived, and draws: none of them is part of a period
    int64_t age              # cycles visited since the last disturbance
    int64_t snapshot_due     # age at which the next snapshot is taken
    int64_t words_spent      # words written and compared so far
    int64_t snapshot_words   # words of the last snapshot
    int32_t snapshot_count   # snapshots taken
    StateSnapshot snapshot[MOST_SNAPSHOTS]
    ArrayBlock* blocks
    int32_t compared         # blocks that must be equal byte by byte; the others are only copied
    int32_t block_count
    int64_t* visited_in      # [messages] last visit that reached it
    int32_t* order           # and its position in that visit
    int64_t visited_capacity, visit_number
    MessageEntry* messages   # messages of the last visit
    int32_t message_count, message_capacity
    # --- a period that was proved ---
    int64_t period           # the last one proved
    bint confirming          # it is simulated once more, for its log
    int64_t* deltas          # what a period adds to each counter
    int64_t deltas_capacity
    int64_t latency_growth   # what it adds to the sum of latencies
    int64_t packet_growth    # and to the packets delivered
    JumpPlan plan
    KnownPeriod known[MOST_PERIODS]
    int64_t use_number       # number of the last use of a known period
    int64_t skipped          # cycles
    # --- what is counted meanwhile ---
    int64_t window           # length of the windows, or 0
    CounterLog log
    int64_t* totals          # [logged links, COUNTS] totals at the last logged cycle
    int64_t* period_totals   # [COUNTS, logged links] what a period of the plan counts
    int64_t* base_totals     # and the totals at the beginning of the current one
    int64_t logged_cycles    # cycles logged so far
    int64_t sample_due       # next cycle to log
    # --- attribution: what more each packet of a lane waited at its source than one a period before ---
    int64_t* rates           # [lanes, RATES]: source, serialisation, vc, credit
    int64_t* sender_visit    # [lanes] last visit that reached a sending message of the lane
