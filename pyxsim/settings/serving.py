"""[workload.serving]: requests that a model answers, the instances that serve them, and how they form batches."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.types import Flag, PositiveTime, Table, Time, Word, number, whole, written

_Count = Annotated[int, *whole(1, 2**20)]
MOST_REQUESTS = 2**20
MOST_TOKENS = 2**24


class Lengths(Table):
    """How many tokens a prompt or an output has."""

    distribution: Literal["fixed", "uniform", "geometric", "lognormal"] = Field(
        default="fixed", description="Distribution of the lengths."
    )
    tokens: Annotated[int, *whole(1, MOST_TOKENS)] | None = Field(
        default=None, description="The length (fixed), or its mean before bounds (geometric, lognormal)."
    )
    least: Annotated[int, *whole(1, MOST_TOKENS)] | None = Field(
        default=None, description="Least length. Required for uniform. Default: 1."
    )
    most: Annotated[int, *whole(1, MOST_TOKENS)] | None = Field(
        default=None, description="Largest length. Required for uniform. Default: no bound."
    )
    sigma: Annotated[Fraction, *number(0, 10)] | None = Field(
        default=None, description="Standard deviation of the logarithm (lognormal). Default: 1."
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Lengths:
        faults, kind = [], self.distribution
        if kind == "uniform":
            missing = [key for key in ("least", "most") if getattr(self, key) is None]
            faults += [InputError("is missing", key=key, allowed="a number of tokens") for key in missing]
            if self.tokens is not None:
                faults.append(InputError("has no effect on uniform", key="tokens", allowed="`least` and `most`"))
        elif self.tokens is None:
            faults.append(InputError("is missing", key="tokens", allowed="a number of tokens"))
        if kind == "fixed":
            given = [key for key in ("least", "most") if getattr(self, key) is not None]
            faults += [InputError("has no effect on fixed", key=key, allowed="`tokens`") for key in given]
        if self.sigma is not None and kind != "lognormal":
            faults.append(InputError(f"has no effect on {kind}", key="sigma", allowed='with "lognormal"'))
        if self.least is not None and self.most is not None and self.least > self.most:
            faults.append(InputError(f"{self.least} is more than `most`", key="least", allowed=f"1 to {self.most}"))
        raise_all(faults)
        return self


class Arrivals(Table):
    """When requests arrive."""

    process: Literal["poisson", "uniform", "together", "file"] = Field(
        default="poisson",
        description="Independent arrivals (poisson), one every 1/rate (uniform), all at time 0 (together), or those of "
        "a file.",
    )
    rate: Annotated[Fraction, *number(0, 10**12)] | None = Field(
        default=None, description="Mean number of requests per second (poisson, uniform)."
    )
    file: Word | None = Field(
        default=None,
        description="A trace of requests, .jsonl or .csv, with the time, prompt tokens and output tokens of each "
        "([serving.md](serving.md#which-traces-of-requests-can-be-read)). Relative to the folder of the experiment.",
    )
    time_scale: Annotated[Fraction, *number(0, 10**6)] | None = Field(
        default=None, description="Factor for the times of a file: 0.5 doubles the load. Default: 1."
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Arrivals:
        faults, rated = [], self.process in ("poisson", "uniform")
        if rated and not self.rate:
            faults.append(InputError("is missing", key="rate", allowed="a number of requests per second above zero"))
        if not rated and self.rate is not None:
            problem = f"has no effect on {self.process}"
            faults.append(InputError(problem, key="rate", allowed='with "poisson" or "uniform"'))
        for key in ("file", "time_scale"):
            if self.process != "file" and getattr(self, key) is not None:
                problem = f"has no effect on {self.process}"
                faults.append(InputError(problem, key=key, allowed='with process = "file"'))
        if self.process == "file" and self.file is None:
            faults.append(InputError("is missing", key="file", allowed="a trace of requests, .jsonl or .csv"))
        if self.time_scale == 0:
            faults.append(InputError("0 is too small", key="time_scale", allowed="a number above zero"))
        raise_all(faults)
        return self


class Instances(Table):
    """Instances of the model, each on tensor x pipeline x expert NPUs."""

    count: _Count = Field(default=1, description="Number of instances.")
    tensor: _Count = Field(default=1, description="NPUs that divide the matrices of each layer, as in training.")
    pipeline: _Count = Field(default=1, description="Pipeline stages; as many batches are in progress at a time.")
    expert: _Count = Field(
        default=1,
        description="Ranks of an instance that divide the experts of each layer. Each has all other layers, and "
        "serves requests of its own.",
    )

    @property
    def size(self) -> int:
        """NPUs of an instance."""
        return self.tensor * self.pipeline * self.expert

    @property
    def npus(self) -> int:
        """NPUs of all instances."""
        return self.count * self.size


class Objective(Table):
    """A service-level objective (SLO): limits that a good request keeps."""

    ttft: PositiveTime | None = Field(default=None, description="Largest time to the first token. Default: no limit.")
    tpot: PositiveTime | None = Field(
        default=None, description="Largest mean time between the tokens of a request. Default: no limit."
    )


class Serving(Table):
    """Requests, instances and batching."""

    requests: Annotated[int, *whole(1, MOST_REQUESTS)] | None = Field(
        default=None, description="Number of requests. Required without a file; with one at most so many are read."
    )
    arrivals: Arrivals = Field(description="When requests arrive.")
    prompt: Lengths | None = Field(default=None, description="Tokens of the prompts. Required without a file.")
    output: Lengths | None = Field(default=None, description="Tokens of the outputs. Required without a file.")
    seed: Annotated[int, *whole(0, 2**31 - 1)] = Field(default=0, description="Seed of arrivals and lengths.")
    instances: Instances | None = Field(
        default=None, description="Instances that serve requests from prompt to last token. Default: one on one NPU."
    )
    prefill: Instances | None = Field(
        default=None, description="Instead of `instances`: those that process prompts. The first NPUs of the network."
    )
    decode: Instances | None = Field(
        default=None,
        description="Instead of `instances`: those that generate all tokens but the first, from keys and values that "
        "the prefill instances send. The NPUs after these.",
    )
    balance: Literal["least-loaded", "round-robin"] = Field(
        default="least-loaded",
        description="Which instance gets a request: that with the fewest unfinished requests, or the next one.",
    )
    max_batch: Annotated[int, *whole(1, 2**16)] = Field(default=256, description="Most requests in an iteration.")
    max_tokens: Annotated[int, *whole(1, MOST_TOKENS)] = Field(
        default=8192, description="Most tokens in an iteration: one for each output in progress, the rest of prompts."
    )
    chunked_prefill: Flag = Field(
        default=True,
        description="Whether prompts may be cut, and share iterations with outputs. Otherwise an iteration has either "
        "whole prompts, which come first, or outputs.",
    )
    kv_block: Annotated[int, *whole(1, 2**16)] = Field(
        default=16, description="Tokens of a block of the KV cache, of which each request has a whole number."
    )
    kv_tokens: Annotated[int, *whole(1, 2**40)] | None = Field(
        default=None,
        description="Tokens for which the NPUs of a rank have room in their KV cache. Default: what the memory of the "
        "NPUs leaves.",
    )
    memory_share: Annotated[Fraction, *number(0, 1)] = Field(
        default=Fraction(9, 10), description="Share of the memory for weights, activations and KV cache."
    )
    admission: Literal["preempt", "reserve"] = Field(
        default="preempt",
        description="A request starts when the KV cache has room for its prompt, and the latest one starts again if "
        "the cache is full (preempt); or when it has room for prompt and output (reserve).",
    )
    overhead: Time = Field(
        default=written("0 ns"), description="Time before each iteration in which its NPUs do nothing: the scheduler."
    )
    blocks: _Count | None = Field(
        default=None,
        description="Blocks of layers of each stage that are simulated in an iteration; the others take the mean time "
        "of these. Default: all.",
    )
    until: PositiveTime | None = Field(
        default=None, description="Time after which no iteration starts. Unfinished requests are listed. Default: none."
    )
    slo: Objective | None = Field(default=None, description="What a good request keeps. Default: no limits.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Serving:
        faults = []
        if self.arrivals.process == "file":
            given = [key for key in ("prompt", "output") if getattr(self, key) is not None]
            faults += [InputError("is in the file of arrivals", key=key, allowed="no such table") for key in given]
        else:
            missing = [key for key in ("requests", "prompt", "output") if getattr(self, key) is None]
            faults += [InputError("is missing", key=key, allowed="a value, or arrivals of a file") for key in missing]
        if (self.prefill is None) != (self.decode is None):
            key = "prefill" if self.prefill is None else "decode"
            faults.append(InputError("is missing", key=key, allowed="both `prefill` and `decode`, or neither"))
        if self.instances is not None and self.prefill is not None:
            faults.append(InputError("cannot be combined with `prefill`", key="instances", allowed="one of them"))
        if self.memory_share == 0:
            faults.append(InputError("0 is too small", key="memory_share", allowed="a number above zero, at most 1"))
        raise_all(faults)
        return self

    @property
    def groups(self) -> tuple[tuple[str, Instances], ...]:
        """The instances by role: "serve", or "prefill" and "decode", in the order of their NPUs."""
        if self.prefill is not None and self.decode is not None:
            return ("prefill", self.prefill), ("decode", self.decode)
        return (("serve", self.instances or Instances()),)
