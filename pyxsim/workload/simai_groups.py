"""The groups of NPUs of SimAI's collectives.

NPU = (d * ep + e) * tp + t: a tensor group (TP) has all t, an expert group (EP) all e, the data group of an expert
(DP_EP) all d, and a data group (DP) all e and d. Source: SimAI, MockNcclGroup.cc, which its simulation uses. A text
describes one pipeline stage, which has a part of the NPUs; as in SimAI's simulation, all NPUs of the network together
form this stage.
"""

from __future__ import annotations

import numpy as np

from pyxsim.errors import InputError
from pyxsim.workload.text_workload import TextWorkload

Members = tuple[tuple[int, ...], ...]


def groups_of(text: TextWorkload, npus: int) -> dict[str, Members]:
    """Return the groups by name, in each the NPUs in ascending order. Raises InputError for another number of NPUs."""
    groups, tensor = text.groups, text.header.model_npus
    assert groups is not None
    stage = groups.npus // groups.pipeline
    if groups.npus and npus not in (groups.npus, stage):
        allowed = f"{stage}, one pipeline stage, or {groups.npus}" if groups.pipeline > 1 else str(stage)
        raise InputError(f"is not for {npus} NPUs", file=text.file, key="all_gpus:", allowed=allowed)
    if npus % (tensor * groups.expert):
        problem = f"groups of tp {tensor} x ep {groups.expert} do not divide {npus} NPUs"
        raise InputError(problem, file=text.file, key="model_parallel_NPU_group:", allowed="divisors")
    grid = np.arange(npus).reshape(-1, groups.expert, tensor)
    rows = {
        "TP": grid.reshape(-1, tensor),
        "EP": grid.transpose(0, 2, 1).reshape(-1, groups.expert),
        "DP_EP": grid.transpose(1, 2, 0).reshape(-1, len(grid)),
        "DP": grid.reshape(-1, tensor).T,
    }
    return {name: tuple(map(tuple, of.tolist())) for name, of in rows.items()}
