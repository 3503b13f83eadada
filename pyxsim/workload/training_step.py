"""A training step of a model: the operations that count, and the memory that each NPU needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pyxsim.errors import InputError
from pyxsim.units import percent, rounded

_LISTED = 3  # terms in a line
_STATES = "a larger tensor or pipeline"
_SMALLER = {
    "weights": f"{_STATES}, zero = 3",
    "expert weights": f"{_STATES}, a larger expert, zero = 3",
    "tables": "more NPUs",
    "gradients": f"{_STATES}, zero = 2 or 3",
    "optimizer": f"{_STATES}, zero = 1 to 3, offload",
    "activations": "recompute, sequence = true, a smaller micro_batch, a larger tensor",
    "logits": "a smaller micro_batch, a larger tensor",
    "recomputed block": "a smaller micro_batch, a larger tensor",
    "communication": "a smaller micro_batch",
    "fragments": "a smaller system.npu.fragments",
    "reserved": "a smaller system.npu.reserved",
}


@dataclass(frozen=True)
class StageMemory:
    """The memory of each NPU of a pipeline stage: bytes by term (`parallel.footprint.TERMS`)."""

    stage: int
    npus: int
    terms: dict[str, int]

    @property
    def total(self) -> int:
        """Bytes of all terms."""
        return sum(self.terms.values())

    @property
    def largest(self) -> list[tuple[str, int]]:
        """The terms that are not zero, largest first."""
        return sorted(((term, size) for term, size in self.terms.items() if size), key=lambda each: -each[1])


@dataclass(frozen=True)
class TrainingStep:
    """A training step.

    Attributes
    ----------
    model_flops
        Operations of the model, over all NPUs: three times those of the forward pass (forward, gradients of inputs and
        of weights), without what is recomputed (Chowdhery et al. 2022, PaLM, appendix B).
    samples, tokens
        Of all replicas; `tokens` is 0 for a model without tokens.
    peak
        FLOP/s of an NPU.
    stages
        Memory by pipeline stage.
    capacity
        Bytes of memory of an NPU; None if unknown.
    """

    model: str
    npus: int
    passes: int
    samples: int
    tokens: int
    model_flops: int
    peak: Fraction
    stages: tuple[StageMemory, ...]
    capacity: int | None = None

    @property
    def fullest(self) -> StageMemory:
        """The stage that needs most memory."""
        return max(self.stages, key=lambda stage: stage.total)

    @property
    def fits(self) -> bool:
        """Whether each NPU has the memory that it needs, as far as known."""
        return self.capacity is None or self.fullest.total <= self.capacity

    def memory_text(self) -> str:
        """Return the need of the fullest stage, of what there is, and its largest terms."""
        terms = ", ".join(f"{term} {rounded(size, 'B')}" for term, size in self.fullest.largest[:_LISTED])
        need = rounded(self.fullest.total, "B")
        if self.capacity is None:
            return f"{need}: {terms}"
        return f"{need} of {rounded(self.capacity, 'B')} ({percent(self.fullest.total / self.capacity)}): {terms}"

    def check_memory(self, *, allowed: bool = False) -> list[str]:
        """Return a warning if the memory is too small. Raises InputError instead, unless that is `allowed`."""
        if self.fits:
            return []
        assert self.capacity is not None
        place = f"an NPU of stage {self.fullest.stage}" if len(self.stages) > 1 else "an NPU"
        need, memory = rounded(self.fullest.total, "B"), rounded(self.capacity, "B")
        (term, size), *_ = self.fullest.largest
        problem = f"{place} needs {need} of memory and has {memory}; largest term: {term}, {rounded(size, 'B')}"
        if allowed:
            return [problem]
        change = _SMALLER.get(term, _STATES)
        raise InputError(problem, key="workload.parallelism", allowed=f"{change}; or --allow-oom")

    def memory_rows(self) -> list[dict[str, Any]]:
        """Return a row per stage and term that is not zero."""
        return [
            {"stage": stage.stage, "npus": stage.npus, "term": term, "bytes": size}
            for stage in self.stages
            for term, size in stage.largest
        ]

    def throughput(self, seconds: Fraction) -> dict[str, Any]:
        """Return the row of the dataset `training` for a run of all passes that took `seconds`."""
        step = seconds / self.passes
        rate = 1 / step if step else Fraction(0)
        return {
            "model": self.model,
            "steps": self.passes,
            "step": float(step),
            "samples": self.samples,
            "tokens": self.tokens,
            "model_flops": float(self.model_flops),
            "peak_flops": float(self.peak),
            "mfu": float(self.model_flops * rate / (self.peak * self.npus)),
            "samples_per_s": float(self.samples * rate),
            "tokens_per_s": float(self.tokens * rate),
            "tokens_per_s_npu": float(self.tokens * rate / self.npus),
            "memory": self.fullest.total,
            "capacity": -1 if self.capacity is None else self.capacity,
        }
