"""The arrays of all streams: see store.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.compat.astra.system.event_queue cimport EventQueue
from pyxsim.compat.astra.system.state cimport Flight, ChunkQueue, Mail, Member, Phase, Row, Stream


cdef class Store:
    cdef EventQueue events
    cdef Phase* phases
    cdef int64_t* tables
    cdef Stream* streams
    cdef Member* members
    cdef Mail* mail
    cdef int32_t* steps           # phase of each step
    cdef ChunkQueue* chunk_queues
    cdef Flight* flights          # ring buffer: message m is flights[m & mask], `oldest` <= m < `messages`
    cdef int64_t phase_count, phase_capacity, table_count, stream_count, stream_capacity, member_count, member_capacity
    cdef int64_t step_count, step_capacity, flight_capacity, oldest, messages, flushed, base
    cdef readonly int64_t now
    cdef int64_t endpoint_delay, group_delay, reduction_delay
    cdef double rate, scale
    cdef int32_t npus, queues, intra
    cdef bint barrier, boost, rendezvous
    cdef int32_t* slots_per_queue            # per queue
    cdef object outgoing          # int64[5, capacity]: source, destination, bytes, plane, tag
    cdef int64_t[:, ::1] out
    cdef int64_t out_count
    cdef list kept, ended         # rows; (stream, NPU) that have just finished all phases
    cdef public object bus
    cdef dict asked               # rendezvous: per (step, mail slot) requests that arrived before their messages,
    cdef dict held                # messages that wait for a request: arguments of `hand_over`,
    cdef dict offered             # and those that leave in this cycle, by number
    cdef int64_t offers
    cdef object through           # called with (stream, rank, time) of a finished member

    cdef Mail* mail_of(self, Member* m) except NULL
    cdef void drop_mail(self, Mail* mail) noexcept
    cdef int64_t hand_over(self, int32_t src, int32_t dst, int64_t size, int32_t plane, int32_t tag, int32_t member,
                           int64_t slot, int64_t step) except -1
    cdef int flush(self, network) except -1


cdef inline Phase* phase_of(Store s, Member* m) noexcept:
    return &s.phases[s.steps[s.streams[m.stream].step + m.phase]]


cdef inline Row* row_of(Store s, Member* m, int32_t phase) noexcept:
    cdef Stream* stream = &s.streams[m.stream]
    return &stream.rows[<int64_t> phase * stream.members + m.rank]


cdef inline Flight* flight_of(Store s, int64_t message) noexcept:
    return &s.flights[(message - s.base) & (s.flight_capacity - 1)]
