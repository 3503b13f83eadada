"""The parts of a layer's work, which models compute and task graphs name."""

from __future__ import annotations

from enum import IntEnum


class Part(IntEnum):
    """The parts of a layer's work, numbered as in the graph of tasks."""

    NONE = 0
    FORWARD = 1
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3
    UPDATE = 4
