"""The attribution records of a packet network."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray

_MESSAGES = ("src", "dst", "bytes", "tag", "sent")


class PacketAttribution:
    """The `AttributionRecords` of a packet network."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.level = network.attribution_level

    def messages(self) -> dict[str, IntArray]:
        """Return the table of messages."""
        network = self._network
        columns = (network._src, network._dst, network._bytes, network._tags, network._at)
        table = {name: np.array(values, np.int64) for name, values in zip(_MESSAGES, columns, strict=True)}
        table["bytes"] = np.where(table["bytes"] < 0, -table["bytes"] * network.settings.flit, table["bytes"])
        table["arrived"] = np.full(len(network._bytes), -1)
        for messages, cycles in network._arrivals:
            table["arrived"][messages] = cycles
        return table

    def splits(self) -> IntArray:
        """Return the parts of each message's latency, in cycles."""
        parts: IntArray = self._network.engine.splits()
        return parts

    def waits(self) -> dict[str, Any]:
        """Return the waits by link, victim and culprit."""
        waits: dict[str, Any] = self._network.engine.waits()
        return waits

    def stays(self) -> IntArray:
        """Return the stays of packets."""
        stays: IntArray = self._network.engine.stays()
        return stays
