"""Constants and records of the engine: one struct per VC, link, router, packet, message and calendar slot.

Comments mark what a field is for: "fixed" never changes, "counting" only counts, "scratch" is valid within one router
visit, "derived" follows from other fields (`rebuild_masks`). Every other field decides what happens next.
record_dtypes.py describes the same records to numpy.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t


cdef enum VcState:
    IDLE = 0      # no packet at the front
    WAITING = 1   # its head waits for an output VC
    HOLDING = 2   # it holds one, and its head has not left
    ACTIVE = 4    # its head has left, other flits have not
    ROUTING = 8   # its head is routed in the next step, from the credits as they are then


cdef enum Event:
    # Kinds of calendar entries. An entry is one number, and each kind has its own list.
    HEAD = 0          # a head reaches the input VC with this number
    BODY = 1          # a body or tail flit does
    SINK = 2          # a flit reaches a sink; more of its packet follow
    LAST = 3          # a tail reaches a sink
    CREDIT = 4        # a credit reaches the sender of this VC, a router
    LANE_CREDIT = 5   # a credit reaches an injection lane
    LAUNCH = 6        # the link of this output port is available again
    WAKE = 7          # a router, a lane, or a link whose credits return must be visited: numbered in this order


cdef enum:
    KINDS = 8
    ROUTE_SHIFT = 8   # State.routes.cached: (link << ROUTE_SHIFT) | VC class


cdef enum Stall:
    STALL_VC = 1
    STALL_CREDIT = 2
    STALL_SERIAL = 4
    STALL_ARBITRATION = 8


cdef enum MultiRequest:
    # Bits of `InputVc.multi`: the head requests several ranges.
    MULTI_EACH = 1     # all candidates, anew in every try
    MULTI_ESCAPE = 2   # the current one belongs to the escape plane
    MULTI_TURNED = 4   # the packet switched to its last plane at this router


cdef enum:
    # As in pyxsim/core/engine_options.py.
    CUT_THROUGH = 1
    STORE_AND_FORWARD = 2
    SELECT_RANDOM = 0
    SELECT_LEAST = 1
    SELECT_TWO = 2
    SELECT_EACH = 3
    SELECT_WEIGHTED = 4
    VIA_NONE = 0
    VIA_ANY = 1
    VIA_BOX = 2


cdef enum PacketEvent:
    # Events of the watched packet, in the order of EVENTS in pyxsim/core/engine_options.py.
    OPENED = 0
    ROUTED = 1
    GRANTED = 2
    SWITCHED = 3
    LAUNCHED = 4
    ARRIVES = 5
    WASTED = 6


cdef enum RankBy:
    # What the front packets of VCs are ranked by, below the priority of their class; as in engine_options.py.
    RANK_BY_CLASS = 0
    RANK_BY_AGE = 1
    RANK_BY_NETWORK_AGE = 2
    RANK_BY_LOCAL_AGE = 3
    RANK_BY_HOPS = 4
    RANK_BY_QUEUE = 5


cdef enum:
    NONE = -1


cdef enum:
    # Layout of a rank (smaller wins): penalty of a speculative bid or an escape candidate, then priority, then age.
    PRIORITY_SHIFT = 50
    PENALTY_SHIFT = 60


# --- hardware -------------------------------------------------------------------------------------------------------

cdef struct InputVc:
    # The downstream end of a VC: an input VC of a router, or a sink. One cache line; those of a router are adjacent.
    int64_t ready           # tick of its next try; with `bitmask_sa` of its first one
    int32_t packet          # first packet, whose head may still be on its way; or NONE
    int32_t mask_bit        # fixed: its bit in the masks of input VCs
    int32_t occupancy       # flits in the buffer
    int32_t left            # flits of the front packet that have not left
    int32_t out_link        # output link of the front packet
    int32_t out_vc          # output VC that it holds; for a waiting head the first VC of its range
    int32_t head            # FIFO of the packets behind the first one
    int32_t tail
    int32_t link            # fixed
    int32_t router          # fixed; NONE: a sink
    int32_t port            # fixed: index into State.ports.input
    int32_t range_row       # row of low, high and range_mask: the VCs that the front packet may use
    uint8_t state           # VcState
    uint8_t multi           # MultiRequest
    int16_t vc_class        # fixed
    int32_t occupancy_max   # counting


cdef struct OutputVc:
    # The upstream end of a VC: what its sender knows about it.
    int32_t credit        # below 0: slots of the shared pool that it uses
    int32_t link          # fixed
    int32_t holder        # derived, with `bitmask_sa`: mask bit of the input VC that holds it, or no_holder_bit
    int32_t send_packet   # lanes: the open packet
    int32_t send_left     # lanes: its flits not yet launched
    int32_t src           # fixed: router, or NONE: a lane


cdef struct VcRange:
    # VA, rotating: a range of VCs, stored at the index of its first VC.
    int32_t next        # VC number at which the search for a free VC starts
    int32_t requester   # round-robin pointer: input VC to serve next
    int32_t pick        # scratch: best requester, in batches its index in their list; or NONE
    int32_t word        # fixed: word of its link in the VC masks of senders
    uint64_t mask       # fixed: its VCs in that word
    int32_t base        # fixed: of its link
    int32_t outlet      # fixed: of its link


cdef struct Link:
    # --- routing, launch and the fast path: one cache line ---
    int64_t free             # time at which it can start the next flit, in 1 / den cycles; INT64_MAX: it is down
    int64_t flits            # counting
    int64_t num              # serialisation: num / den cycles per flit
    int64_t den
    int32_t delay
    int32_t base             # its first VC
    int32_t word             # its first word in the VC masks of senders
    int32_t outlet           # fixed: index of its output port among those of all routers
    int32_t range            # row of (virtual network 0, class 0) in low and high
    int32_t group
    int32_t launch_pointer   # lanes: VC to launch from next
    int16_t classes          # VC classes
    uint8_t sink             # fixed: 1 if it ends at an interface
    uint8_t queued           # 1 if it has an output queue
    # --- the router with every option, stalls ---
    int64_t pick_key         # scratch, SA: key of the best candidate for this output
    int32_t pick_vc
    int32_t pick_port        # scratch, SA
    int32_t eligible         # scratch, SA: flits that could go
    int32_t out_port         # number of its output port at its router
    int32_t src              # router, or NONE: an interface
    int32_t dst
    int32_t vcs
    int32_t words
    int32_t depth            # flits per VC
    int32_t out_offset       # number of its VC 0 among the output VCs of its router
    uint8_t stalled          # Stall causes in the last tick visited
    uint8_t stalled_before   # causes in the earlier ticks of the same cycle
    # --- the rest ---
    int64_t stall_vc
    int64_t stall_credit
    int64_t stall_serial
    int64_t stall_arbitration
    int64_t queued_since
    int32_t credit_delay
    int32_t queue_head       # output queue
    int32_t queue_tail
    int32_t port             # number of the input port at its end
    int32_t vc_offset        # number of its VC 0 among the input VCs of its router
    int32_t pool_left        # free slots of the pool that its VCs share


cdef struct Router:
    int32_t in_start    # into in_links
    int32_t in_end
    int32_t out_start   # into out_links
    int32_t out_end
    int32_t base        # its first input VC
    int32_t input_vcs
    int32_t output_vcs
    int32_t word        # its first word in the masks of input VCs
    int32_t words
    int32_t port_word   # its first word in the mask of output ports
    int32_t port_words
    int32_t unrouted    # heads to be routed
    uint64_t filled     # derived, without `bitmask_sa`: its words with an occupied VC (buffer.pxd)
    int64_t looked      # counting: last cycle visited


cdef struct VcMasks:
    # Masks of 64 input VCs of a router: one cache line. `InputVc.mask_bit` is the number of the bit.
    uint64_t occupied   # VCs with a flit in the buffer
    uint64_t heads      # VCs whose head waits for an output VC, or for its route
    uint64_t holding    # derived, with `bitmask_sa`: the front packet holds an output VC
    uint64_t credit     # derived, with `bitmask_sa`: that output VC has a credit
    uint64_t early[4]   # derived, with `bitmask_sa`: the head may not try yet, by the tick (modulo 4) of its try


cdef struct InPort:
    int32_t base           # fixed: its first VC
    int32_t credit_delay   # fixed
    int32_t credit_kind    # fixed: Event
    int32_t group          # fixed: of its link
    int32_t following      # fixed: number of the next port at the router, cyclically


cdef struct RouterBounds:
    # A copy of what the fast path reads for every flit: four routers in a cache line.
    int32_t base   # its first input VC
    int32_t input_vcs
    int32_t out_start
    int32_t in_ports


# --- packets and messages -------------------------------------------------------------------------------------------

cdef struct Packet:
    # 64 bytes; what routers read comes first.
    int32_t message
    int32_t number
    int32_t flits
    int32_t dst
    int32_t plane      # NONE: a way is still to be chosen
    int32_t via        # intermediate NPU, or NONE
    int16_t last       # plane to use from there on
    uint8_t lost       # 1: a flit of it was lost on a link; its sink drops it
    int32_t eject      # link
    int32_t exit       # router at its beginning
    int16_t vnet
    int16_t granted_class   # of the VC that it was granted last, where classes share VCs
    int32_t hops       # counting: routers at which its head has come to the front
    int32_t next       # free list
    uint64_t key       # of its random draws
    int64_t launched   # counting: when its head was launched


cdef struct Message:
    int32_t lane         # injection link
    int32_t eject        # ejection link
    int32_t exit         # router at its beginning
    int32_t dst
    int32_t plane
    int32_t packets
    int32_t flits        # per packet
    int32_t last_flits   # of the last packet
    int32_t opened
    int32_t delivered
    int32_t next         # in the source queue, or in the free list
    int16_t klass        # message class
    int16_t tag          # counting: traffic class for attribution
    int32_t lost         # packets that arrived with a lost flit, and were dropped
    int64_t serial       # number of the call that sent it
    int64_t at           # cycle in which it joins its source queue
    int64_t hops         # counting: routers passed by its heads
    int64_t first        # counting: when its first flit was launched
    int64_t last         # counting: when its last flit arrived; before, -2 - the cycle of its latest opened packet


cdef struct FifoNode:
    # An entry of a FIFO: packet of a VC behind the first one, or flit of an output queue.
    int32_t packet
    int32_t next


cdef struct QueuedFlit:
    # What a node of an output queue holds in addition.
    int64_t at     # cycle in which the flit enters the queue
    int64_t tick   # in which it is through the switch
    int32_t vc
    int32_t flit
    int32_t kind   # Event: of its arrival


cdef struct Replay:
    # Retry at a link, at its sending end (retry.pyx). Flits have the numbers `oldest` to `newest` - 1; the slot
    # of a flit is its sequence number modulo `slots`. INT64_MAX is a cycle that does not come.
    int64_t oldest       # the first flit that is not acknowledged
    int64_t next         # the flit to send again next; `newest`: none
    int64_t newest
    int64_t rewind_at    # cycle in which the sender goes back to flit `rewind_to`; INT64_MAX: it has no reason to
    int64_t rewind_to
    int64_t due          # cycle of the calendar entry for the next flit to send again, or INT64_MAX
    int64_t timeout      # fixed: cycles from the end of a flit on the wire
    int32_t slots        # fixed; 0: no retry on this link
    int32_t base         # fixed: number of its first slot
    int32_t ack          # fixed: cycles of an acknowledgement beyond the credit delay of the link
    int32_t count_most   # counting: most flits in the buffer
    int64_t resent       # counting: launches of flits that had been launched before
    int64_t timeouts     # counting
    int64_t full         # counting: cycles in which a flit could go but for a full buffer
    int64_t full_at      # counting: the last one
    int64_t held         # counting: cycles that acknowledged flits have been in the buffer, together


cdef struct ReplayFlit:
    # A slot of a replay buffer.
    int64_t arrival   # of the launch that the receiver accepts, or INT64_MAX
    int64_t acked     # cycle in which its acknowledgement arrives, or INT64_MAX
    int64_t entered   # counting
    int32_t vc
    int32_t packet
    int32_t flit
    int32_t kind      # Event: of its arrival


cdef struct CreditReturn:
    # Credits as messages (credit_return.pyx): how those of a link return, at its receiving end. INT64_MAX: never.
    int64_t num          # cycles of a message on the opposite link, in its units of 1 / den; 0: it takes none
    int64_t timeout      # fixed: cycles after which fewer credits than a batch are due
    int64_t due_at       # cycle since which credits have been due without a message; INT64_MAX: none are
    int64_t wake_at      # cycle of its calendar entry
    int64_t listed_at    # cycle in which it was listed last (`StepScratch.credit_links`)
    int64_t flit_at      # of this link itself: cycle in which it launched a new flit last
    int64_t flit_arrival   # its arrival
    int64_t launched     # messages and, with retry, their repetitions: a part of the number of a launch
    int32_t opposite     # fixed: the link that carries its messages; NONE: its credits return ideally
    int32_t pointer      # VC to serve next, where a message has the credits of one VC
    int32_t reset        # 1: this link is down, has lost its flits, and will exchange credits anew
    int32_t flit_wrong   # 1: the new flit that this link launched last has a bit error
    int64_t messages     # counting: of their own
    int64_t riding       # counting: flits that carried credits
    int64_t destroyed    # counting: messages and riding credits of flits that did not arrive
    int64_t busy         # counting: time of the opposite link that messages took, in its units of 1 / den


cdef struct VcCredits:
    # The credits of a VC at its receiving end.
    int64_t since        # cycle of the first slot that has been emptied since the last message
    int32_t pending      # emptied slots whose credits wait
    int32_t lost         # credits that were destroyed on the way
    int32_t forced       # 1: they are due whatever their number
    int32_t spare
    int64_t returned     # counting: credits that have started back
    int64_t carried      # counting: in so many messages
    int64_t destroyed    # counting: credits destroyed on the way
    int64_t restored     # counting: of these, sent again
    int64_t empty        # counting: cycles in which its sender had no credit
    int64_t empty_since  # counting: since when it has none; INT64_MAX: it has some


cdef struct CalendarSlot:
    # One cycle of the calendar: two cache lines.
    int32_t* events[8]   # of each kind
    int32_t count[8]
    int32_t capacity[8]


# --- logs, deliveries, requests -------------------------------------------------------------------------------------

cdef struct Launch:
    int64_t cycle
    int64_t message
    int32_t packet
    int32_t link
    int32_t vc
    int32_t flit


cdef struct PacketNote:
    # An event of the watched packet.
    int64_t cycle
    int32_t what   # PacketEvent
    int32_t link
    int32_t vc     # number of a VC or flit, or NONE
    int32_t flit


cdef struct Arrival:
    # A delivered message, where message records are recycled.
    int64_t serial
    int64_t klass
    int64_t at
    int64_t first
    int64_t last
    int64_t hops
    int64_t packets
    int64_t flits
    int64_t parts[9]   # of its latency, with attribution


cdef struct Request:
    # One entry of a request matrix: input `i` requests output `o`; their pointers are at `in_id` and `out_id`.
    int64_t rank
    int32_t turn     # wavefront: the diagonal
    int32_t i
    int32_t o
    int32_t in_id
    int32_t out_id
    int32_t vc       # the requesting input VC
    int32_t target   # VA: the requested VC; SA: 1 if it is a speculative bid
    int32_t escape   # VA: of the escape plane
    int32_t vc_class   # VA: of the candidate
    int32_t empty    # SA: a bid that would win without an output VC


cdef struct RequestMatrix:
    # The requests of one router and stage in one tick, in State.matching.requests, and the pointers of its allocator.
    int32_t count        # of requests
    int32_t inputs
    int32_t outputs
    int32_t iterations
    int32_t router
    int32_t in_va        # 1: VA; 0: SA
    int32_t* grant       # at `out_id` of a request: next input to serve
    int32_t* accept      # at `in_id`: next output to serve
    int32_t* wave        # wavefront: the diagonal that goes first


cdef struct MailboxEntry:
    # What one part of a partitioned network sends to another (mailbox.pyx).
    int64_t cycle
    int32_t vc
    int32_t packet   # packet that was granted the VC; NONE: a calendar entry
    int32_t kind     # Event


cdef struct Outbox:
    MailboxEntry* entries
    int32_t count
    int32_t capacity
    int64_t soonest   # cycle of its first calendar entry
    int64_t latest    # and of its last
