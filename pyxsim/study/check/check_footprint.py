"""The memory that a model needs on an NPU."""

from __future__ import annotations

from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import Finding, checks


@checks.register("footprint", order=85)
def footprint(prepared: Prepared | PreparedTraffic) -> Finding | None:
    """Report the memory of an NPU of the fullest stage and its largest terms."""
    if prepared.mode == "open":
        return None
    if text := prepared.job.footprint_text():
        return Finding([("NPU memory", text)], {"npu_memory": text})
    if prepared.job.training is None:
        return None
    step = prepared.job.training
    stage = f"stage {step.fullest.stage}: " if len(step.stages) > 1 else ""
    data = {
        "footprint": step.memory_rows(),
        "npu_memory": {"stage": step.fullest.stage, "bytes": step.fullest.total, "capacity": step.capacity},
    }
    return Finding([("NPU memory", f"{stage}{step.memory_text()}")], data)
