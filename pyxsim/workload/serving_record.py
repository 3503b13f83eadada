"""What a run measured of the requests that it served."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ServingRecord:
    """The rows of the datasets `requests`, `iterations` and `serving`, and notes for the user."""

    requests: dict[str, Any]
    iterations: dict[str, Any]
    summary: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    def summary_json(self) -> dict[str, Any]:
        """Return the summary; a missing number is None."""
        return {key: None if value != value else value for key, value in self.summary.items()}
