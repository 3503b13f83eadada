"""The pipes of all NPUs, as the executor uses them."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.heap cimport Entry, Heap


cdef enum Then:      # what follows when something has gone through a pipe
    LEAVES           # a message goes to the network
    TAKEN            # a message is taken in
    TOLD             # somebody else is told

cdef enum:           # rows of `moved`: bytes of each NPU
    READ
    WRITTEN
    COMPUTED
    OFFLOADED

cdef struct Work:
    int64_t left     # cycles x ONE
    int64_t demand   # bytes a cycle x ONE that it moves when nothing holds it up
    int64_t full     # cycles x ONE that it does in a cycle at most, now
    int64_t speed    # what it does in a cycle, now
    int64_t number
    int32_t key

cdef struct Pipe:
    int64_t rate     # bytes a cycle x ONE; 0: without limit
    int64_t limit    # what all its flows together may take; 0: everything
    int64_t now      # the cycle up to which all this is counted
    int64_t served   # to each flow, bytes x ONE
    int64_t share    # of each flow in a cycle
    int64_t wake     # the cycle in which something is through next; -1: none
    Heap flows       # by how much has been served to each when they are through; what follows is their kind
    Work* works      # the most modest first; of one demand, in order of beginning
    int64_t work_count, work_room
    int64_t busy     # cycles in which it served something
    bint changed

cdef class Pipes:
    cdef readonly int64_t npus, working
    cdef Pipe* pipes
    cdef Heap wakes          # of pipes, whose numbers they have; those of a pipe that woke otherwise are old
    cdef int32_t* dirty
    cdef int64_t dirty_count, dirty_room
    cdef Entry* through      # what has just gone through, in order
    cdef int64_t through_count, through_room
    cdef int64_t number
    cdef int64_t[:, ::1] moved
    cdef object counted

    cdef bint begin(self, int64_t pipe, int64_t size, int64_t now, int32_t then, int32_t task, int32_t place) except -1
    cdef int finish(self, int64_t now) except -1
    cdef int64_t upcoming(self) except -2
    cdef int _advance(self, Pipe* pipe, int64_t now) except -1
    cdef int _touch(self, int64_t number, int64_t now) except -1
    cdef int _share_out(self, Pipe* pipe) except -1
    cdef int _collect(self, Pipe* pipe) except -1
    cdef int _let_out(self, Entry flow, int64_t first) except -1
