"""Owner of flat arrays and of arrays of C structs, which live as long as it does."""

import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.latency.latency_records cimport LaneWait, LinkWait, VcOwner, VcWait, VcWaitDetail
from pyxsim.core.state.records cimport (
    CreditReturn, InPort, InputVc, Link, OutputVc, Replay, ReplayFlit, Router, RouterBounds, VcCredits, VcMasks,
    VcRange,
)

from pyxsim.core.state.large_pages import Pages
from pyxsim.core.state.record_dtypes import check_size

SIZES = {"inputs": sizeof(VcMasks), "in_port": sizeof(InPort), "bounds": sizeof(RouterBounds), "vc": sizeof(InputVc),
         "out": sizeof(OutputVc), "ranges": sizeof(VcRange), "link": sizeof(Link),
         "replay": sizeof(Replay), "replay_flit": sizeof(ReplayFlit),
         "credit_return": sizeof(CreditReturn), "vc_credits": sizeof(VcCredits),
         "router": sizeof(Router),
         "owner": sizeof(VcOwner),
         "vc_book": sizeof(VcWait), "vc_margin": sizeof(VcWaitDetail), "link_book": sizeof(LinkWait),
         "lane_book": sizeof(LaneWait)}


cdef class ArrayOwner:
    """Base class of EngineArrays."""

    cdef int _begin(self, bint large) except -1:
        """Own nothing yet. `large`: use large pages."""
        self.arrays = {}
        self.deciding = {}
        self.records = {}
        self.memory = []
        self.pages = Pages(large=large)
        return 0

    def _records(self, kind, fields, int count):
        """Allocate an array of C structs as a structured numpy array that begins with a cache line."""
        dtype = np.dtype({"names": list(fields), "formats": list(fields.values())}, align=True)
        check_size(kind, SIZES[kind], dtype.itemsize)
        room = self.pages.room(max(count, 1) * dtype.itemsize)
        records = room[: count * dtype.itemsize].view(dtype)
        self.memory.append(room)
        self.records[kind] = records
        return records

    cdef void* _address(self, records) except NULL:
        return <void*> <size_t> records.ctypes.data

    cdef object _own(self, str name, values, dtype, bint deciding):
        """Allocate or adopt a flat array that lives as long as the engine; empty ones get an entry for an address."""
        array = np.asarray(values)
        # Arrays of the right kind may be shared with the caller and other engines: they are not copied.
        if array.dtype != dtype or not array.flags.c_contiguous or not array.size:
            array = self.pages.room(max(array.size, 1) * np.dtype(dtype).itemsize).view(dtype)
            if np.any(values):   # zeros take no memory before they are written
                array[: np.size(values)] = np.reshape(values, -1)
        array = array.reshape(-1)
        self.arrays[name] = array
        self.deciding[name] = deciding
        return array

    cdef int32_t* _ints(self, str name, values, bint deciding=True) except NULL:
        cdef int32_t[::1] view = self._own(name, values, np.int32, deciding)
        return &view[0]

    cdef int64_t* _longs(self, str name, values, bint deciding=True) except NULL:
        cdef int64_t[::1] view = self._own(name, values, np.int64, deciding)
        return &view[0]

    cdef int16_t* _shorts(self, str name, values) except NULL:
        cdef int16_t[::1] view = self._own(name, values, np.int16, False)
        return &view[0]

    cdef uint64_t* _mask(self, str name, int64_t words) except NULL:
        cdef uint64_t[::1] view = self._own(name, np.zeros(words), np.uint64, True)
        return &view[0]

    cdef uint8_t* _bytes(self, str name, int64_t count, bint deciding=True) except NULL:
        cdef uint8_t[::1] view = self._own(name, np.zeros(count), np.uint8, deciding)
        return &view[0]
