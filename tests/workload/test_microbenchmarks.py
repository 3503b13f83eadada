"""The microbenchmarks of ASTRA-sim 2, a collective in a trace: each NPU ends in the same nanosecond as there."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, CommType, Node, NodeType
from pyxsim.compat.astra.workload.sequential_job import SequentialGraphJob
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.system import make_system
from pyxsim.workload.traces import Rules, read_traces
from validation.families.astra import backend, network, system_2
from validation.reference import reference

SMALL = [
    case
    for case in reference("astra2")["cases"]
    if case["ends"] is not None and math.prod(case["npus"]) <= 16 and case["bytes"] <= 1 << 24
]


@pytest.mark.parametrize("case", SMALL[::3], ids=lambda case: str(case["case"]))
def test_ends_as_in_astra_sim_2(case: dict[str, Any], tmp_path: Path) -> None:
    """`ends`: of each NPU, or the first and the last."""
    kind = case["kind"].replace("-", "_")
    collective = {"kind": case["kind"], "size": f"{case['bytes']} B"}
    experiment = load_experiment({"network": network(case), "system": system_2(case), "collective": collective})
    made = prepare(experiment, backend=backend(case))
    assert isinstance(made, Prepared)
    for npu in range(math.prod(case["npus"])):
        told = {"comm_type": int(CommType[kind.upper()]), "comm_size": case["bytes"]}
        attributes = [Attribute(name, "int64_val", value) for name, value in told.items()]
        chakra.write(tmp_path / f"micro.{npu}.et", [Node(npu, "micro", NodeType.COMM_COLL, attr=attributes)])
    graph = read_traces(tmp_path / "micro", made.topology.shape, Rules(Fraction(10**9), exact=False))
    job = SequentialGraphJob(graph)
    on = make_system(made.network, made.topology.shape, made.system.options)
    job.begin(on)
    on.run()
    ends = job.times().end.tolist()
    assert (ends if len(case["ends"]) == len(ends) else [min(ends), max(ends)]) == case["ends"]
