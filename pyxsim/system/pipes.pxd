"""Records of the pipes, and what the executor calls."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.heap cimport Entry, Heap


cdef enum Then:      # what follows when a flow has finished
    LEAVES           # a message enters the network
    TAKEN            # a message is taken in
    NOTIFY           # its key is returned

cdef enum:           # rows of `moved`: bytes of each NPU
    READ
    WRITTEN
    COMPUTED
    OFFLOADED

cdef struct Work:
    int64_t left     # cycles x ONE
    int64_t demand   # bytes per cycle x ONE that it moves at full speed
    int64_t full     # current limit: cycles x ONE of work per cycle
    int64_t speed    # current speed, likewise
    int64_t number
    int32_t key

cdef struct Pipe:
    int64_t rate     # bytes per cycle x ONE; 0: no limit
    int64_t limit    # of all its flows together; 0: the whole rate
    int64_t now      # the cycle up to which everything is counted
    int64_t served   # to each flow, bytes x ONE
    int64_t share    # of each flow in a cycle
    int64_t wake     # the cycle in which something finishes next; -1: none
    Heap flows       # by `served` at their end; kind: a Then
    Work* works      # by demand, then in order of beginning
    int64_t work_count, work_capacity
    int64_t busy     # cycles in which it served something
    bint changed

cdef class Pipes:
    cdef readonly int64_t npus, working
    cdef Pipe* pipes
    cdef Heap wakes          # by pipe number; entries that differ from the pipe's `wake` are stale
    cdef int32_t* dirty
    cdef int64_t dirty_count, dirty_capacity
    cdef Entry* finished      # what has just finished, in order
    cdef int64_t finished_count, finished_capacity
    cdef int64_t number
    cdef int64_t[:, ::1] moved
    cdef object counted

    cdef bint begin(self, int64_t pipe, int64_t size, int64_t now, int32_t then, int32_t task, int32_t place) except -1
    cdef int finish(self, int64_t now) except -1
    cdef int64_t upcoming(self) except -2
    cdef int _advance(self, Pipe* pipe, int64_t now) except -1
    cdef int _touch(self, int64_t number, int64_t now) except -1
    cdef int _set_shares(self, Pipe* pipe) except -1
    cdef int _collect(self, Pipe* pipe) except -1
    cdef int _finish(self, Entry flow, int64_t first) except -1
