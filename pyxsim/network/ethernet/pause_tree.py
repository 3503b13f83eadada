"""Victims of PFC: messages that waited behind pauses whose cause they do not use."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, Int32Array, IntArray

MOST_HOPS = 64
NONE = -1


def victims(
    paths: Int32Array, root: IntArray, span: FloatArray, time: FloatArray, paused: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the link whose queue paused each message that does not use it, and for how long.

    Parameters
    ----------
    paths
        int32[hops, messages]: the links that a message and its acknowledgments take; -1: none.
    root
        int64[links]: the link whose queue the pauses of each link are due to, -1: none.
    span
        float64[messages, 2]: when each message started and ended.
    time
        float64[windows + 1]: the ends of windows, from 0, in the unit of `span`.
    paused
        int64[windows + 1, links]: how long each link was paused up to then (ps).

    Returns
    -------
    cause
        int64[messages]: the root of the link that was paused longest during the life of the message, of those links on
        its path whose root is not on its path; -1: the message is no victim.
    waited
        int64[messages]: how long that link was paused then (ps).
    """
    cause = np.full(paths.shape[1], NONE, np.int64)
    waited = np.zeros(paths.shape[1], np.int64)
    for link in np.flatnonzero(paused[-1] > 0).tolist():
        uses = np.flatnonzero((paths == link).any(axis=0))
        alien = uses[~(paths[:, uses] == root[link]).any(axis=0)]
        begin, end = (np.interp(span[alien, i], time, paused[:, link]) for i in (0, 1))
        longer = np.rint(end - begin).astype(np.int64)
        more = longer > waited[alien]
        waited[alien[more]], cause[alien[more]] = longer[more], root[link]
    return cause, waited
