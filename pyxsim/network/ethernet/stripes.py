"""Messages that are divided among several queue pairs (network.ethernet.queue_pairs)."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import IntArray


class Stripes:
    """Which flows carry which message.

    Parameters
    ----------
    queue_pairs
        Flows of a message; a message with fewer packets has one for each packet.
    mtu
        Payload of a packet, in bytes.

    Attributes
    ----------
    message
        int64[..], the message of each flow; longer than there are flows.
    """

    def __init__(self, queue_pairs: int, mtu: int) -> None:
        self._queue_pairs, self._mtu = queue_pairs, mtu
        self._flows = self._messages = 0
        self.message: IntArray = np.zeros(0, np.int64)
        self._under_way: IntArray = np.zeros(0, np.int64)  # flows of each message that have not ended

    def cut(self, nbytes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Divide messages into flows of whole packets, as even as possible.

        Returns
        -------
        which, size, number
            int64[flows]: the message among those given, its bytes in the flow, the number of the flow in the message.
        """
        packets = -(-nbytes // self._mtu)
        count = np.minimum(packets, self._queue_pairs)
        which = np.repeat(np.arange(len(nbytes)), count)
        number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        begin, end = (packets[which] * (number + i) // count[which] * self._mtu for i in (0, 1))
        self.message = _longer(self.message, self._flows, self._messages + which)
        self._under_way = _longer(self._under_way, self._messages, count)
        self._flows += len(which)
        self._messages += len(nbytes)
        return which, np.minimum(end, nbytes[which]) - begin, number

    def complete(self, flows: IntArray, cycles: IntArray) -> tuple[IntArray, IntArray]:
        """Return the messages whose last flow has ended, and when, from flows that have ended."""
        order = np.lexsort((flows, cycles))[::-1]  # the last one first
        messages, first, ended = np.unique(self.message[flows[order]], return_index=True, return_counts=True)
        self._under_way[messages] -= ended
        last = self._under_way[messages] == 0
        return messages[last], cycles[order][first[last]]


def _longer(column: IntArray, used: int, more: IntArray) -> IntArray:
    """A column with more values behind those that are used."""
    if used + len(more) > len(column):
        column = np.concatenate([column[:used], np.zeros(used + 2 * len(more), np.int64)])
    column[used : used + len(more)] = more
    return column
