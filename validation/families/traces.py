"""Chakra traces: the microbenchmarks of ASTRA-sim 2, and training loops converted to traces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyxsim import chakra
from pyxsim.chakra import Attribute, CommType, Node, NodeType
from pyxsim.runner.lifecycle import run
from pyxsim.settings import Workload
from pyxsim.workload import START, read_text_workload
from pyxsim.workload.export import export
from pyxsim.workload.logical_dims import logical_dims
from pyxsim.workload.training_loop import LoopOptions, training_loop
from validation.case import Case, Found, exact
from validation.families.astra import LARGE, Measured, backend, groups, network, system_2

SHAPES = ((4, 2), (2, 4), (8,))
HEADS = {
    "MICRO": "",
    "DATA": "",
    "MODEL": "",
    "HYBRID_DATA_MODEL": "",
    "HYBRID_MODEL_DATA": "",
    "HYBRID_DLRM": "1",
    "HYBRID_DLRM_ENHANCED": "0",
    "HYBRID_TRANSFORMER": "model_parallel_NPU_group: 2",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": "model_parallel_NPU_group: 4 checkpoints: 1 0 checkpoint_initiates: 1 2",
    "HYBRID_CUSTOMIZED": "",
    "DISTRIBUTED_INFERENCE": "",
}
LAYERS = (
    "a -1 500 ALLGATHER 4096 700 REDUCESCATTER 8192 900 ALLREDUCE 65536 10",
    "b -1 1234 ALLREDUCE 8192 0 ALLTOALL 4096 90 ALLREDUCE 1000000 0",
    "c -1 0 REDUCESCATTER 4096 7000 NONE 0 2000 ALLGATHER 30000 500",
)


def micro(case: Measured) -> tuple[list[int], list[int]]:
    """(measured, here): when each NPU ends, or the first and the last; ns."""
    told = {"comm_type": int(CommType[case["kind"].upper().replace("-", "_")]), "comm_size": case["bytes"]}
    nodes = [Node(0, "micro", NodeType.COMM_COLL, attr=[Attribute(k, "int64_val", v) for k, v in told.items()])]
    with TemporaryDirectory() as folder:
        for npu in range(math.prod(case["npus"])):
            chakra.write(Path(folder, f"micro.{npu}.et"), nodes)
        workload = {"file": str(Path(folder, "micro"))}
        result = run({"network": network(case), "system": system_2(case), "workload": workload}, backend=backend(case))
    ends = result.npus["finished"].tolist()
    return case["ends"], ends if len(case["ends"]) == len(ends) else [min(ends), max(ends)]


def microbenchmarks(measured: list[Measured]) -> Found:
    """Run all cases of a group and return the largest difference of an NPU."""
    pairs = [pair for case in measured for pair in zip(*micro(case), strict=True)]
    worst, picture = exact(pairs, "ns")
    npus = [math.prod(case["npus"]) for case in measured]
    return Found(worst, picture, {"runs": str(len(measured)), "NPUs": f"{min(npus)} to {max(npus)}"})


def same_end(name: str) -> Found:
    """Each keyword on each network, as text and as traces: the largest difference of their ends."""
    pairs = []
    with TemporaryDirectory() as folder:
        for keyword, head in HEADS.items():
            own = " HYBRID_DATA_MODEL" if keyword == "HYBRID_CUSTOMIZED" else ""
            file = Path(folder, f"{keyword}.txt")
            file.write_text(f"{keyword} {head}\n3\n" + "".join(f"{layer}{own}\n" for layer in LAYERS), encoding="utf-8")
            for shape in SHAPES:
                pairs.append(_both(file, shape, name))
    worst, picture = exact(pairs, "ns")
    return Found(worst, picture, {"runs": str(2 * len(pairs)), "NPUs": "8"})


def _both(file: Path, shape: tuple[int, ...], name: str) -> tuple[float, float]:
    """The ends of a text and of its traces; with packets, NPUs begin texts a little later, as ASTRA-sim 1 does."""
    text, settings = read_text_workload(file), Workload(file=str(file), passes=2)
    dims = logical_dims(text, shape)
    written = export(training_loop(text, settings, dims, LoopOptions())[0], file.with_suffix(""), dims.shape)
    table: dict[str, Any] = {"topology": "torus", "shape": list(shape), "bandwidth": "50 GB/s", "latency": "100 ns"}
    workloads = ({"file": str(file), "passes": 2}, {"file": written.files})
    ours, theirs = (run({"network": table, "workload": workload}, backend=name).time_ns for workload in workloads)
    return float(ours) - (START if name == "packet" else 0), float(theirs)


def cases() -> Iterator[Case]:
    claim = "Each NPU ends in the same nanosecond as in ASTRA-sim 2, from a trace with one collective"
    source = "measurements in inputs/reference/astra2.json"
    for name, what, measured in groups():
        small = [case for case in measured if math.prod(case["npus"]) < LARGE]
        if small:
            yield Case(f"traces/2-{name}", f"{claim}: {what}", source, 0, "ns", partial(microbenchmarks, small), 30)
    claim = "A training loop written as traces ends when its workload file does: all eleven keywords on three networks"
    for name in ("packet", "analytical"):
        told = f"{claim} ({name})"
        yield Case(f"traces/loops-{name}", told, "the workload file itself", 0, "ns", partial(same_end, name), 20)


FAMILY = ("traces", "Chakra traces", ("runs", "NPUs"), cases)
