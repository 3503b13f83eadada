"""The keys and values of a request from the NPUs of a prefill instance to those of a decode instance."""

from __future__ import annotations

from pyxsim.workload.serving.plan import InstancePlan


def kv_messages(source: InstancePlan, target: InstancePlan, tokens: int) -> list[tuple[int, int, int, int, int]]:
    """Return rows (source stage, source position, target stage, target position, bytes), of rank 0 at both ends.

    Each NPU of the target gets the heads of its layers from the first NPU of the source that has them; what an NPU
    gets from another one is one message.
    """
    rows = []
    size = 2 * source.layers.head_size * tokens * source.element
    scale = source.workload.comm_scale
    for stage in range(target.instances.pipeline):
        wanted = set(target.blocks_of(stage))
        for position in range(target.instances.tensor):
            heads: dict[int, int] = {}  # head -> NPU of the source
            for head in target.layers.heads_of(position):
                heads[head] = next(at for at in range(source.instances.tensor) if head in source.layers.heads_of(at))
            for origin in range(source.instances.pipeline):
                layers = len(wanted & set(source.blocks_of(origin)))
                for at in sorted(set(heads.values())):
                    count = layers * sum(one == at for one in heads.values())
                    if count:
                        nbytes = max(count * size * scale.numerator // scale.denominator, 1)
                        rows.append((origin, at, stage, position, nbytes))
    return rows
