"""Models, NPUs and plans that are easy to count with: an element is a byte, a row of a product takes a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from pyxsim.models import Elements, Gemm, Kind, Layer, Model, Split, Work
from pyxsim.settings import Workload
from pyxsim.workload.graph import TaskGraph, check
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.parallel.plan import Plan, make_plan
from pyxsim.workload.parallel.program import program
from tests.workload.services import FixedHands

GHZ = Fraction(10**9)


class Rows:
    """An NPU: a row of a product takes a nanosecond, whatever is moved; the optimizer a ns for so many parameters."""

    def __init__(self, parameters_per_ns: int | None = None) -> None:
        self._rate = parameters_per_ns

    def seconds(self, works: Iterable[Work], element: int) -> Fraction:
        return Fraction(sum(work.m * work.count for work in works), 10**9)

    def update_seconds(self, parameters: int, element: int) -> Fraction:
        return Fraction(parameters, self._rate * 10**9) if self._rate else Fraction(0)

    def update_bytes(self, parameters: int, element: int) -> int:
        return 3 * parameters


def equal_blocks(count: int, rows: int = 7) -> Model:
    """Blocks of a layer each, with as much to do: an embedding that takes no time stands in the first."""
    gemm = Gemm("product", rows, rows, rows)
    blocks = [
        Layer(f"block {number}", Kind.MLP, 10, 10, (gemm,), Elements(whole=60), block=number, kept=Elements(5))
        for number in range(count)
    ]
    return Model("blocks", (Layer("embedding", Kind.EMBEDDING, 1, 10, block=0), *blocks), "a sample")


def transformer(blocks: int, hidden: int = 8, tokens: int = 4, *, tied: bool = False, experts: int = 0) -> Model:
    """The layers of a transformer with tensor-parallel sums, an embedding and a head."""
    size = tokens * hidden
    gemms = (Gemm("in", tokens, 8, hidden, split=Split.COLUMN), Gemm("out", tokens, hidden, 8, split=Split.ROW))
    layers = [
        Layer("embedding", Kind.EMBEDDING, tokens, size, parameters=Elements(divided=16 * hidden), forward_sum=size)
    ]
    for block in range(blocks):
        sums: dict[str, Any] = {"forward_sum": size, "backward_sum": size, "block": block}
        own = Elements(whole=2 * hidden, divided=16 * hidden)
        layers.append(Layer(f"block {block}: attention", Kind.ATTENTION, size, size, gemms, own, **sums))
        if experts:
            layers.append(
                Layer(
                    f"block {block}: experts",
                    Kind.EXPERTS,
                    size,
                    size,
                    (Gemm("in", 2 * tokens, 8, hidden, split=Split.COLUMN, experts=experts),),
                    expert_parameters=experts * 8 * hidden,
                    dispatched=2 * size,
                    **sums,
                )
            )
        else:
            layers.append(Layer(f"block {block}: MLP", Kind.MLP, size, size, gemms, own, **sums))
    head = Gemm("logits", tokens, 16, hidden, split=Split.COLUMN)
    held = Elements(divided=16 * hidden)
    name = "embedding" if tied else ""
    layers.append(Layer("head", Kind.HEAD, size, tokens, (head,), held, tied=name, backward_sum=size))
    return Model("transformer", tuple(layers), "a sequence", tokens)


def planned(model: Model, shape: tuple[int, ...], npu: Any = None, *, in_switch: bool = False, **keys: Any) -> Plan:
    """A plan with an element of a byte, and whatever else is given."""
    workload = Workload.model_validate({"model": model.name, "element": "1 B", **keys})
    return make_plan(model, workload, npu or Rows(), shape, GHZ, in_switch=in_switch)


def built(plan: Plan) -> TaskGraph:
    """Its graph, checked."""
    graph = program(plan)
    check(graph, plan.shape)
    return graph


def end(plan: Plan, collective: int = 0, message: int = 0) -> int:
    """When it is over, where a collective and a message take so many cycles each."""
    job = GraphJob(built(plan))
    hands = FixedHands(plan.shape, lambda size: collective, lambda size: message)
    job.begin(hands)
    hands.run()
    assert job.left == 0
    return job.end
