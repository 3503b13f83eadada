"""L1, the engine: routers, virtual channels, credits and links, cycle by cycle. docs/router.md is its contract.

One pair of .pxd and .pyx a unit of hardware; every unit works on the plain arrays of one `State`. What enters is
arrays (`Links`, `Routes`), what comes out is message numbers and counters: no topology and no collective is known here.
"""
