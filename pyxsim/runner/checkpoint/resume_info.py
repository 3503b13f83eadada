"""What a run has behind it that was taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResumeInfo:
    """`cpu_s`: CPU seconds of simulating up to the checkpoint; `resumed`: how often it was taken up again."""

    cpu_s: float = 0.0
    resumed: int = 0

    @classmethod
    def of(cls, head: Mapping[str, Any]) -> ResumeInfo:
        """Of a run that is taken up now from a checkpoint with this head."""
        return cls(head["cpu_s"], head["resumed"] + 1)
