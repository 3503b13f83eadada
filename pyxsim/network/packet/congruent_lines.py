"""Which groups of messages stand for those of other lines.

If only the first of several lines of NPUs is simulated, each of its groups of messages stands for a group of every
other line: the one that has the messages between the same ranks. The two must be congruent, and so must the lines: the
same ranks share a group in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyxsim.arrays import IntArray, unique_rows
from pyxsim.network.lines import Lines
from pyxsim.network.packet.congruent_groups import CongruentGroups


def represented(groups: CongruentGroups, kinds: Sequence[Lines]) -> CongruentGroups | None:
    """Return the groups of the first line of each kind, with those that they stand for; None if lines differ."""
    count = len(groups.used)
    class_of = np.empty(count, np.int64)
    for number, members in enumerate(groups.members):
        class_of[members] = number
    place = _places(groups.of_pair)
    keys = _keys(groups.pairs, groups.pairs)
    claimed = np.zeros(count, bool)
    copies: dict[int, IntArray] = {}
    for lines in kinds:
        src, dst, plane = unique_rows(lines.messages[:, :3])[0].T
        ends = lines.members[:, src], lines.members[:, dst]
        shape = ends[0].shape
        pairs = np.stack(np.broadcast_arrays(*ends, plane), axis=-1).reshape(-1, 3).astype(np.int64)
        pair = np.searchsorted(keys, _keys(pairs, groups.pairs))
        group = groups.of_pair[pair]
        of_line = np.repeat(np.arange(shape[0]), shape[1]) * count + group
        _, first, which = np.unique(of_line, return_index=True, return_inverse=True)
        together = first[which.ravel()] % shape[1]  # the first pair of the line in the same group
        for column in (class_of[group], place[pair], together):
            if (column.reshape(shape) != column[: shape[1]]).any():
                return None
        used = group[first]
        if claimed[used].any() or len(np.unique(used)) < len(used):  # shared by lines
            return None
        claimed[used] = True
        by_line = group.reshape(shape)
        copies |= {int(by_line[0, at]): by_line[:, at].copy() for at in np.unique(together[: shape[1]]).tolist()}
    if not claimed.all():
        return None
    simulated = np.zeros(count + 1, bool)
    simulated[list(copies)] = True
    kept = tuple(members[simulated[members]] for members in groups.members)
    if not all(len(own) and own[0] == all_[0] for own, all_ in zip(kept, groups.members, strict=True)):
        return None  # the paths of a class are those of its first group
    return replace(groups, group=np.where(simulated[groups.group], groups.group, -1), members=kept, copies=copies)


def _places(group: IntArray) -> IntArray:
    """The place of each pair among those of its group."""
    order = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - begin[group[order]]
    return place


def _keys(pairs: IntArray, known: IntArray) -> IntArray:
    """A number for each pair of `known`, in their order; `pairs`: some of them."""
    npus, planes = int(known[:, :2].max()) + 1, int(known[:, 2].max()) + 2
    keys: IntArray = (pairs[:, 0] * npus + pairs[:, 1]) * planes + pairs[:, 2] + 1
    return keys
