"""[workload.experts]: how tokens are spread over the experts of a mixture of experts."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Table, Word, number, whole

WORKLOADS = ("W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7")


class Experts(Table):
    """How many tokens each expert receives. Without this table, each receives the same number."""

    routing: Literal["balanced", "zipf", "dirichlet", "W0", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "file"] = Field(
        default="balanced",
        description="Distribution of tokens: in turn (balanced); by Zipf's law; by shares drawn from a Dirichlet "
        "distribution; one of the workloads W0 to W7 of Megatron-LM's benchmark of imbalance; from a file. "
        "[training.md](training.md#how-are-tokens-spread-over-experts) defines them.",
    )
    exponent: Annotated[Fraction, *number(0, 100)] | None = Field(
        default=None,
        description="Of `zipf`: the k-th most popular expert of a layer has a share proportional to k^-exponent. "
        "Default: 1.",
    )
    concentration: Annotated[Fraction, *number(0, 10**6)] | None = Field(
        default=None,
        description="Of `dirichlet`, for each expert: smaller values give more uneven shares. Default: 1.",
    )
    file: Word | None = Field(
        default=None,
        description="A routing trace (.jsonl, experts of each token and layer) or a table of counts (.csv: layer, "
        "source, expert, tokens). Relative to the folder of the experiment.",
    )
    capacity_factor: Annotated[Fraction, *number(0, 10**6)] | None = Field(
        default=None,
        description="Each NPU sends an expert at most this factor times the mean of its tokens per expert, rounded up; "
        "the rest are dropped. Default: no limit.",
    )
    seed: Annotated[int, *whole(0, 2**31 - 1)] = Field(default=0, description="Seed of what is drawn.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Experts:
        faults = []
        for key, routing in (("exponent", "zipf"), ("concentration", "dirichlet"), ("file", "file")):
            if getattr(self, key) is not None and self.routing != routing:
                problem = f"has no effect on {self.routing}"
                faults.append(InputError(problem, key=key, allowed=f'with routing = "{routing}"'))
        if self.routing == "file" and self.file is None:
            faults.append(InputError("is missing", key="file", allowed="a routing trace (.jsonl) or counts (.csv)"))
        for key in ("concentration", "capacity_factor"):
            if getattr(self, key) == 0:
                faults.append(InputError("0 is too small", key=key, allowed="a number above zero"))
        raise_all(faults)
        return self
