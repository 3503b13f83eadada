"""What is going to happen: a heap of events, first the earliest, of one cycle the one with the lowest number.

Who gives out numbers in the order of sending gets arrivals of one cycle back in that order.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from pyxsim.raw cimport loaded, saved


cdef inline bint before(const Event* a, const Event* b) noexcept nogil:
    return a.cycle < b.cycle or (a.cycle == b.cycle and a.number < b.number)


cdef class Events:
    def __cinit__(self):
        self.count = self.room = 0
        self.heap = NULL

    def __dealloc__(self):
        free(self.heap)

    def __len__(self):
        return self.count

    cdef bint push(self, int64_t cycle, int64_t number, int64_t what) noexcept nogil:
        """Whether there was memory for it."""
        cdef Event *larger
        cdef Event event = Event(cycle, number, what)
        cdef int64_t place = self.count, above
        if self.count == self.room:
            larger = <Event*> realloc(self.heap, (2 * self.room + 64) * sizeof(Event))
            if larger == NULL:
                return False
            self.heap, self.room = larger, 2 * self.room + 64
        self.count += 1
        while place:
            above = (place - 1) >> 1
            if not before(&event, &self.heap[above]):
                break
            self.heap[place] = self.heap[above]
            place = above
        self.heap[place] = event
        return True

    cdef Event pop(self) noexcept nogil:
        """The first event; call it only if there is one."""
        cdef Event first = self.heap[0], last
        cdef int64_t place = 0, below = 1
        self.count -= 1
        last = self.heap[self.count]
        while below < self.count:
            if below + 1 < self.count and before(&self.heap[below + 1], &self.heap[below]):
                below += 1
            if not before(&self.heap[below], &last):
                break
            self.heap[place] = self.heap[below]
            place = below
            below = 2 * place + 1
        self.heap[place] = last
        return first

    def __getstate__(self):
        return saved(self.heap, self.count, sizeof(Event))

    def __setstate__(self, heap):
        self.heap = <Event*> loaded(heap)
        self.count = self.room = len(heap) // <int64_t> sizeof(Event)
