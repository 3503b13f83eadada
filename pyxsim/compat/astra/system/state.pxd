"""Records of streams.pyx."""

from libc.stdint cimport int8_t, int32_t, int64_t


cdef enum Algorithm:
    RING, DIRECT, HALVING, TREE


cdef enum Kind:
    ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL


cdef enum Pays:
    NEVER, ALWAYS, EVERY_OTHER_ROUND


cdef enum EventKind:
    TAKEN_IN         # end of an endpoint delay; `size`: bytes to reduce now, or -1
    READY            # one more message has crossed the endpoint
    RECEIVED         # a message that arrived before it was expected
    BUS              # an event of the shared bus
    OFFERED          # a message that was requested before
    CALL             # a Python callback


cdef enum State:     # of a tree
    BEGIN, SENDING_UP, FROM_PARENT, END, FROM_TWO, FROM_ONE, SENDING_DOWN


cdef struct Row:         # counters per phase and member; times are -1 until known
    int64_t ready
    int64_t start
    int64_t end
    int64_t messages      # received
    int64_t network       # their total time in the network
    int64_t awaited       # their total time of being expected


cdef enum Intra:     # the order in a queue
    FIFO, RG, SMALLEST, FEWEST


cdef struct Phase:
    int32_t algorithm
    int32_t kind
    int32_t pays
    int32_t n             # members of a group
    int32_t stride        # ranks between neighbours in it
    int32_t direction
    int32_t queue         # of the NPU
    int32_t plane
    int32_t sends         # messages of a member
    int32_t parallel      # messages sent without waiting (P)
    int32_t others        # (Z) messages of a round that may cost a reduction
    int32_t middle        # direct all-reduce: receptions before the second half
    int32_t slots         # of each member's mail
    int32_t fast          # endpoint delay of a communicator group
    int64_t size          # of a message
    int64_t largest       # maximum of the bytes before and after the phase
    int64_t table         # halving: (size, bit) of each message; tree: (parent, left, right) of each place


cdef struct Mail:         # of one phase of one stream
    int32_t* balance      # per slot: messages arrived minus messages expected
    int32_t* surplus      # per slot: messages sent minus messages expected
    int64_t* first        # per slot: the first message in flight that is not expected,
    int64_t* last         # and the last one
    int64_t left          # members that have left the phase


cdef struct Stream:
    int64_t first         # member
    int32_t members
    int32_t phases
    int64_t step          # index of its first phase and mail
    Row* rows             # per phase and member
    bint at_once          # report finished members at once, not after the current event
    int32_t passes        # the barrier: members that may proceed,
    int32_t finished      # have finished this phase,
    int32_t suspended     # and wait
    int32_t* waiting      # ring buffer of waiting members, from `waiting_first` on
    int32_t waiting_first


cdef struct Member:
    int32_t stream
    int32_t rank
    int32_t npu
    int32_t tag           # labels its traffic
    int64_t priority      # among the members of its NPU
    int32_t next          # in its queue
    int32_t previous
    int32_t phase         # number, -1 before the first
    int8_t at_work        # its algorithm has started
    int8_t enabled
    int8_t toggle
    int8_t state
    int32_t left          # messages to send
    int32_t free          # messages that have crossed the endpoint
    int32_t unpaid        # of the present round
    int32_t payable
    int32_t inserted
    int32_t sent
    int32_t received


cdef struct ChunkQueue:         # a queue of an NPU
    int32_t first
    int32_t last
    int32_t running


cdef struct Flight:       # a message in the network
    int64_t turn
    int64_t at
    int64_t slot
    int64_t step
    int64_t next          # into the same slot, while it is not expected
    int32_t member        # the receiver; -1: `slot` is the number of a message from NPU to NPU
