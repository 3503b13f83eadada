"""A heap of events that Python objects own, in order of (cycle, number)."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free

from pyxsim.heap cimport Entry, heap_saved, load_heap
from pyxsim.heap cimport pop as heap_pop, push as heap_push


cdef class Events:
    def __dealloc__(self):
        free(self.heap.items)

    def __len__(self):
        return self.heap.count

    cdef int push(self, int64_t cycle, int64_t number, int64_t item) except -1:
        """Add an event. Raises MemoryError."""
        return heap_push(&self.heap, Entry(cycle, number, item, 0, 0))

    cdef Entry pop(self) noexcept nogil:
        """Remove and return the first event of a heap that is not empty."""
        return heap_pop(&self.heap)

    def __getstate__(self):
        return heap_saved(&self.heap)

    def __setstate__(self, heap):
        load_heap(&self.heap, heap)
