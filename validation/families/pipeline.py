"""Pipelines of equal stages: the share of the time in which a stage waits is (p - 1) / (v m + p - 1)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

from pyxsim import library
from pyxsim.models import Gemm, Kind, Layer, Model
from pyxsim.models.npu import Npu
from pyxsim.network.backends import make_backend
from pyxsim.settings import Workload, load_experiment
from pyxsim.system import make_system, resolve
from pyxsim.topology.build import build
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.parallel import make_plan, program
from validation.case import Case, Found, exact, must

DRAWN = 40
SEED = 1
SOURCE = "Narayanan et al. 2021, section 2.2; Huang et al. 2019, section 2.3"
# Each message takes less than a cycle, which is truncated.
NETWORKS: tuple[dict[str, Any], ...] = (
    {"topology": "ring"},
    {"topology": "switch"},
    {"topology": "fully-connected"},
)
INFINITE = Fraction(10**30)


def equal_blocks(count: int, rows: int) -> Model:
    """Blocks with one product of `rows` rows each; an embedding that takes no time, whose inputs need no gradient."""
    gemm = Gemm("product", rows, rows, rows)
    blocks = [Layer(f"block {number}", Kind.MLP, 1, 1, (gemm,), block=number) for number in range(count)]
    return Model("equal", (Layer("embedding", Kind.EMBEDDING, 1, 1, block=0), *blocks), "a sample")


def time_of(schedule: str, stages: int, micro_batches: int, chunks: int, rows: int, network: dict[str, Any]) -> int:
    """Cycles of a step in which a row takes one cycle and nothing else takes time."""
    tables = {
        "network": {"bandwidth": "100 GB/s", "latency": "1 ps", "shape": [stages], **network},
        "collective": {"kind": "barrier"},
    }
    experiment = load_experiment(tables)
    settings = experiment.network
    topology = build(settings.topology, settings.shape)
    over = make_backend("analytical", experiment, topology, 10**9)
    options = resolve(experiment.system, topology, settings.clock, over.injection_bandwidths(), seed=1)
    system = make_system(over, topology.shape, options)
    own: dict[str, Any] = {"pipeline": stages, "schedule": schedule}
    if chunks > 1:
        own["chunks"] = chunks
    workload = Workload.model_validate({"model": "equal", "batch": micro_batches, "parallelism": own})
    npu = Npu(lambda work: Fraction(work.m, 10**9), INFINITE)
    plan = make_plan(equal_blocks(stages * chunks, rows), workload, npu, topology.shape, settings.clock)
    job = GraphJob(program(plan))
    job.begin(system)
    system.run()
    must(not job.left, "not all tasks have ended")
    return job.end


def bubbles(schedule: str) -> Found:
    """Return the idle share of drawn pipelines."""
    library.load_all()
    random = Random(f"{SEED} {schedule}")
    pairs = []
    for _ in range(DRAWN):
        stages, rows, network = random.randint(2, 12), random.randint(1, 1000), random.choice(NETWORKS)
        chunks = random.randint(2, 4) if schedule == "interleaved" else 1
        micro_batches = random.randint(1, 4) * stages if chunks > 1 else random.randint(1, 40)
        whole = time_of(schedule, stages, micro_batches, chunks, rows, network)
        wait = whole - 3 * rows * chunks * micro_batches
        pairs.append((Fraction(stages - 1, chunks * micro_batches + stages - 1), Fraction(wait, whole)))
    _, picture = exact([(float(wanted), float(found)) for wanted, found in pairs], "share of the bubble")
    worst = max(abs(wanted - found) for wanted, found in pairs)  # of fractions: exact
    return Found(float(worst), picture, {"machines": str(DRAWN)})


def cases() -> Iterator[Case]:
    for schedule in ("1f1b", "gpipe", "interleaved"):
        v = "v m" if schedule == "interleaved" else "m"
        claim = f"Equal stages idle for (p - 1) / ({v} + p - 1) of the time with {schedule}, if messages take no time"
        yield Case(f"pipeline/{schedule}", claim, SOURCE, 0, "of the time", partial(bubbles, schedule), 5)


FAMILY = ("pipeline", "Pipelines", ("machines",), cases)
