"""Lines of NPUs that do the same: a backend may simulate the first one for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyxsim.arrays import Int32Array, IntArray


@dataclass(frozen=True, eq=False)
class Lines:
    """The groups of NPUs along a dimension, with the same messages in each.

    Attributes
    ----------
    members
        int32[lines, ranks]: the NPUs of each line.
    messages
        int64[K, 5]: source and destination (ranks), plane, bytes, number of messages.
    """

    members: Int32Array
    messages: IntArray

    @property
    def traffic(self) -> IntArray:
        """int64[lines * K, 5]: the messages of all lines, between NPUs."""
        src, dst, *others = self.messages.T
        ends = [self.members[:, ranks].ravel() for ranks in (src, dst)]
        columns: IntArray = np.column_stack([*ends, *(np.tile(column, len(self.members)) for column in others)])
        return columns
