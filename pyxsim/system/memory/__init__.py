"""Remote memory: when accesses of NPUs end, to the cycle (docs/memory.md). Independent of tasks."""

from pyxsim.system.memory.flows import Used
from pyxsim.system.memory.memory_options import Access, MemoryOptions, resolve_memory
from pyxsim.system.memory.models import Memory, make_memory
from pyxsim.system.memory.shares import MOST_BYTES

__all__ = ["MOST_BYTES", "Access", "Memory", "MemoryOptions", "Used", "make_memory", "resolve_memory"]
