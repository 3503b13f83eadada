from libc.stdint cimport int64_t

from pyxsim.network.ethernet.records cimport Fabric

cdef dict port_counters(Fabric *fabric)
cdef object window_peaks(Fabric *fabric)
cdef dict flow_table(Fabric *fabric, int64_t most)
cdef dict flow_times(Fabric *fabric, int64_t most)
cdef dict flow_control(Fabric *fabric, int64_t most)
