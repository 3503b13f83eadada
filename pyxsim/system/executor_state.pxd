"""Records of the executor: programs, tasks, messages in flight."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t


cdef struct Program:
    int32_t n
    int32_t count
    int32_t gate_count
    int32_t join_count
    int32_t* src
    int32_t* dst
    int64_t* size
    int64_t* cost
    int8_t* way
    bint piped          # the next fields are set
    bint offloaded      # messages pass the engines, otherwise the memories
    int64_t* read_out   # bytes read before a message leaves,
    int64_t* read_in    # and when it is taken in
    int64_t* written
    int8_t* access      # NULL: all messages are stores; else it and the next fields are set
    int32_t* fused      # the access of the switch that the message is a part of, or -1
    int32_t* fused_count
    int32_t* join
    int32_t* join_ptr
    int32_t* join_ids
    int32_t* free_ptr
    int32_t* free_ids
    int32_t* opens_ptr
    int32_t* opens_ids
    int32_t* gate_size
    int32_t* behind_ptr
    int32_t* behind_ids
    int32_t* need
    int32_t* held_ptr
    int32_t* held_ids
    int32_t* sends
    int32_t* receives

cdef struct Task:
    int32_t program
    int32_t plane
    int32_t back        # the plane of messages that go the other way
    int32_t tag         # labels its traffic
    int32_t open        # ranks that have not finished
    int32_t* members    # NPU of each rank
    int32_t* numbers    # one allocation for the next fields; NULL unless ranks are at work
    int32_t* to_send
    int32_t* to_receive
    int32_t* received
    int32_t* held       # per rank: list of messages that its window holds back, in the order of the schedule
    int32_t* early      # per rank: list of messages that arrived before it started
    int32_t* gates
    int32_t* joins
    int32_t* after      # per message: the next one in such a list, -1 at its end; or a MessageState
    uint8_t* started
    int64_t* delays     # per rank: total cycles of its received messages in the network

cdef struct Flight:
    int32_t task
    int32_t message
    int64_t at


cdef inline int64_t record_length(Program* p) noexcept:
    """Length of `numbers` of a task."""
    return 5 * p.n + p.gate_count + p.join_count + p.count


cdef inline void set_pointers(Task* t, Program* p) noexcept:
    """Point the fields of a task into `numbers`."""
    t.to_send, t.to_receive, t.received = t.numbers, t.numbers + p.n, t.numbers + 2 * p.n
    t.held, t.early = t.numbers + 3 * p.n, t.numbers + 4 * p.n
    t.gates = t.numbers + 5 * p.n
    t.joins = t.gates + p.gate_count
    t.after = t.joins + p.join_count
