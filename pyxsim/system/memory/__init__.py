"""Remote memory: when accesses of NPUs end. docs/memory.md has the rules, to the cycle.

A memory is told of accesses as they begin, and asked in which cycle something ends next. Nothing here knows tasks.
"""

from pyxsim.system.memory.flows import Used
from pyxsim.system.memory.models import Memory, make_memory
from pyxsim.system.memory.options import Access, MemoryOptions, resolve_memory
from pyxsim.system.memory.shares import MOST_BYTES

__all__ = ["MOST_BYTES", "Access", "Memory", "MemoryOptions", "Used", "make_memory", "resolve_memory"]
