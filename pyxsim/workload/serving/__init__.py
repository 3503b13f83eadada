"""Serving: requests that arrive at instances of a model (docs/serving.md)."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from pathlib import Path

from pyxsim.errors import InputError, raise_all
from pyxsim.models.expert_routing import expert_routing
from pyxsim.models.npu import capacity, processor
from pyxsim.models.shelf import load_transformer
from pyxsim.settings import Workload
from pyxsim.settings.experts import Experts
from pyxsim.settings.faults import join
from pyxsim.settings.npu import Npu
from pyxsim.workload.serving.plan import InstancePlan
from pyxsim.workload.serving.serving_job import ServingJob

__all__ = ["InstancePlan", "ServingJob", "serving_job", "serving_plans"]


def serving_plans(
    workload: Workload, npu: Npu | None, shape: tuple[int, ...], clock: Fraction, folder: Path = Path()
) -> list[InstancePlan]:
    """Return the instances by role. Raises InputError with the key.

    `folder`: where relative paths start.
    """
    serving, name = workload.serving, workload.model
    assert serving is not None
    assert name is not None
    if npu is None:
        allowed = "a table [system.npu] with `device`, or with `peak` and `memory_bandwidth`"
        raise InputError("the speed of the NPUs is missing", key="system.npu", allowed=allowed)
    if Path(name).suffix:
        name = str(folder / name)
    try:
        description, model = load_transformer(name)
    except InputError as error:
        raise (error.named_by("workload.model") if error.file else _below("workload", error)) from None
    try:
        machine = processor(npu)
    except InputError as error:
        raise _below("system.npu", error) from None
    routing = None
    if description.experts:
        try:
            routing = expert_routing(workload.experts or Experts(), description.experts, description.top_k, folder)
        except InputError as error:
            raise error.named_by("workload.experts.file") from None
    elif workload.experts is not None:
        raise InputError(f"{model.name} has no experts", key="workload.experts", allowed="a model with experts")
    npus, needed = prod(shape), sum(instances.npus for _, instances in serving.groups)
    if needed > npus:
        role, _ = serving.groups[0]
        key = "instances" if role == "serve" else "decode"
        problem = f"the instances need {needed} NPUs, but the network has {npus}"
        raise InputError(problem, key=f"workload.serving.{key}", allowed=f"at most {npus} NPUs in all")
    plans, first = [], 0
    for role, instances in serving.groups:
        plans.append(InstancePlan(role, instances, first, model, description, workload, machine, clock, routing))
        first += instances.npus
    raise_all([fault for plan in plans for fault in plan.faults()])
    return plans


def serving_job(
    workload: Workload, npu: Npu | None, shape: tuple[int, ...], clock: Fraction, folder: Path = Path()
) -> ServingJob:
    """Return the job that serves the requests of a workload. Raises InputError, as `serving_plans`."""
    plans = serving_plans(workload, npu, shape, clock, folder)
    assert npu is not None
    return ServingJob(workload, plans, clock, capacity(npu), folder)


def _below(table: str, error: InputError) -> InputError:
    return InputError(error.problem, key=join(table, error.key), allowed=error.allowed, given=error.given)
