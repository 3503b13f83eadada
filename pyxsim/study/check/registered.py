"""The registry of checks: what `pyxsim check` proves, computes and measures before a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyxsim.library import used
from pyxsim.registry import Registry
from pyxsim.runner.prepared import Prepared, PreparedTraffic


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Parameters
    ----------
    rows
        (label, text) pairs for the text output; equal labels in sequence are shown once.
    data
        Keys of the JSON object; values that `json` can write.
    """

    rows: Sequence[tuple[str, str]] = ()
    data: dict[str, Any] = field(default_factory=dict)


Check = Callable[[Prepared | PreparedTraffic], Finding | None]

checks: Registry[Check] = Registry("check")
"""Checks by name. `order` sorts them; those of users come last, in the order of their names, before the cost.

A check takes what is ready to run and returns a Finding, or None where it does not apply. It raises InputError or a
SimulationError to refuse the experiment.
"""

LAST = 1000  # the order of a check that gives none


def in_order() -> list[tuple[str, Check]]:
    """Return the checks in the order in which they run."""
    entries = sorted(filter(used, checks.entries), key=lambda entry: (entry.info.get("order", LAST), entry.name))
    return [(entry.name, entry.value) for entry in entries]
