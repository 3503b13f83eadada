"""The VCs of a range in turn: vc_allocator.pyx and the fast path implement it, without a request matrix."""

from pyxsim.plugins import allocators

allocators.register("rotating", stages=("va",), direct=("va",))(None)
