"""What was spent on a run before its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResumeInfo:
    """CPU seconds simulated up to the checkpoint, and how often the run was resumed."""

    cpu_s: float = 0.0
    resumed: int = 0

    @classmethod
    def of(cls, head: Mapping[str, Any]) -> ResumeInfo:
        """Return that of a run that is now resumed from a checkpoint with this head."""
        return cls(head["cpu_s"], head["resumed"] + 1)
