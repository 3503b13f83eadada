"""A deep learning recommendation model (DLRM, Naumov et al. 2019), from its sizes to its layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError
from pyxsim.models.layer import Elements, Gemm, Kind, Layer, Split
from pyxsim.settings.types import Table, Word, whole

_Count = Annotated[int, *whole(1, 2**31 - 1)]
_Counts = Annotated[tuple[_Count, ...], Field(min_length=1)]


def linear(name: str, rows: int, outputs: int, inputs: int, *, bias: bool = True, moved: int = 0) -> Layer:
    """A layer that is one product with a matrix; tensor parallelism divides its outputs."""
    return Layer(
        name,
        Kind.LINEAR,
        inputs=rows * inputs,
        outputs=rows * outputs,
        gemms=(Gemm(name, rows, outputs, inputs, split=Split.COLUMN),),
        parameters=Elements(divided=inputs * outputs + (outputs if bias else 0)),
        backward_sum=rows * inputs,
        gathered=rows * outputs,
        moved=Elements(divided=moved),
        kept=Elements(whole=2 * rows * inputs),
    )


class Recommendation(Table):
    """A file that describes a DLRM."""

    kind: Literal["recommendation"] = Field(description="Kind of model; selects this table.")
    help: Word = Field(description="Description in one line.")
    source: Word = Field(description="Source of the numbers.")
    dense: _Count = Field(description="Number of dense features.")
    bottom: _Counts = Field(description="Outputs of each layer of the bottom MLP, which processes the dense features.")
    rows: _Counts = Field(description="Rows of each embedding table.")
    embedding: _Count = Field(description="Elements of a row of an embedding table.")
    lookups: _Count = Field(default=1, description="Rows that a sample looks up in each table; their sum is used.")
    top: _Counts = Field(description="Outputs of each layer of the top MLP.")

    @model_validator(mode="after")
    def _fits(self) -> Recommendation:
        if self.bottom[-1] != self.embedding:
            problem = (
                f"the last layer has {self.bottom[-1]} outputs, but a row of a table has {self.embedding} elements"
            )
            raise InputError(problem, key="bottom", allowed=f"a list that ends with {self.embedding}")
        return self

    def build(self) -> list[Layer]:
        """Return the layers: bottom MLP, tables, interaction, top MLP."""
        vectors = len(self.rows) + 1
        # The products of all pairs of vectors, and the dense vector itself.
        mixed = vectors * (vectors - 1) // 2 + self.embedding
        return [
            *_mlp("bottom", (self.dense, *self.bottom)),
            self._tables(),
            self._interaction(vectors, mixed),
            *_mlp("top", (mixed, *self.top)),
        ]

    def _tables(self) -> Layer:
        tables = len(self.rows)
        return Layer(
            "tables",
            Kind.TABLES,
            inputs=tables * self.lookups,
            outputs=tables * self.embedding,
            expert_parameters=sum(self.rows) * self.embedding,
            dispatched=tables * self.embedding,
            # Each selected row is read, each sum is written.
            moved=Elements(whole=tables * self.embedding * (self.lookups + 1)),
        )

    def _interaction(self, vectors: int, mixed: int) -> Layer:
        return Layer(
            "interaction",
            Kind.INTERACTION,
            inputs=vectors * self.embedding,
            outputs=mixed,
            gemms=(Gemm("pairs", vectors, vectors, self.embedding, weights=False),),
            moved=Elements(whole=2 * mixed),
            kept=Elements(whole=2 * vectors * self.embedding),
        )


def _mlp(name: str, sizes: Sequence[int]) -> list[Layer]:
    return [
        linear(f"{name} {number}", 1, outputs, inputs, moved=2 * outputs)  # ReLU: in and out
        for number, (inputs, outputs) in enumerate(pairwise(sizes))
    ]
