"""What streams.pyx keeps in memory."""

from libc.stdint cimport int8_t, int32_t, int64_t


cdef enum Algorithm:
    RING, DIRECT, HALVING, TREE


cdef enum Kind:
    ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL


cdef enum Pays:
    NEVER, ALWAYS, EVERY_OTHER_ROUND


cdef enum EventKind:
    TAKEN_IN         # an endpoint delay is over; `size`: bytes that have to be reduced now, or 0
    READY            # the machine has one message more in its services
    RECEIVED         # a message that had come before it was expected
    BUS              # something on the shared bus
    OFFERED          # a message that had been asked for before
    CALL             # of Python


cdef enum State:     # of a tree
    BEGIN, SENDING_UP, FROM_PARENT, END, FROM_TWO, FROM_ONE, SENDING_DOWN


cdef struct Row:         # what is counted per phase and member; times are -1 until then
    int64_t ready
    int64_t start
    int64_t end
    int64_t messages      # that arrived
    int64_t network       # how long they were in the network, together
    int64_t awaited       # how long they were expected, together


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
    int32_t parallel      # sent without waiting (P), and rounds of so many
    int32_t others        # (Z) messages of a round that may cost a reduction
    int32_t middle        # direct all-reduce: receptions before the second half
    int32_t slots         # of each member's mail
    int32_t fast          # endpoint delay of a communicator group
    int64_t size          # of a message
    int64_t largest       # bytes: before or after the phase, whichever is more
    int64_t table         # halving: (size, bit) of each message; tree: (parent, left, right) of each place


cdef struct Mail:         # of one phase of one stream
    int32_t* balance      # per slot: messages that arrived less those that were expected
    int32_t* surplus      # per slot: messages that were sent less those that were expected
    int64_t* first        # per slot, where messages are under way that are not expected: the first of them,
    int64_t* last         # and the last
    int64_t left          # members that have left the phase


cdef struct Stream:
    int64_t first         # member
    int32_t members
    int32_t phases
    int64_t step          # of the first phase: where its phases and mail stand
    Row* rows             # per phase and member
    bint told             # who is through is told at once, not after what is being done
    int32_t passes        # the barrier: members that may go on,
    int32_t finished      # have finished this phase,
    int32_t suspended     # and wait
    int32_t* waiting      # the members that wait, from `waiting_first` on, in a circle
    int32_t waiting_first


cdef struct Member:
    int32_t stream
    int32_t rank
    int32_t npu
    int32_t tag           # whose traffic it sends
    int64_t priority      # among the members of its NPU
    int32_t next          # in its queue
    int32_t previous
    int32_t phase         # number, -1 before the first
    int8_t at_work        # its machine has begun
    int8_t enabled
    int8_t toggle
    int8_t state
    int32_t left          # messages still to be sent
    int32_t free          # messages in hand
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
