"""The free VCs of a range in turn, the default of `va_allocator`: vc_allocator.pyx and the fast path implement it.

It has no request matrix.
"""

from pyxsim.plugins import allocators

allocators.register("rotating", stages=("va",), direct=("va",))(None)
