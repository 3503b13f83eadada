"""A decoder-only transformer, from its hyper-parameters to its layers.

An embedding, blocks of attention and an MLP (or experts), a head. Tensor parallelism follows Megatron-LM (Shoeybi et
al. 2019; sequence parallelism and activations: Korthikanti et al. 2022).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.models.layer import Elements, Gemm, Kind, Layer, Split
from pyxsim.settings.types import Flag, Table, Word, whole

_Count = Annotated[int, *whole(1, 2**31 - 1)]
_Some = Annotated[int, *whole(0, 2**31 - 1)]
MAX_BLOCKS = 16_384  # each becomes objects of Python; the largest published models have a few hundred


class Transformer(Table):
    """A file that describes a transformer."""

    kind: Literal["transformer"] = Field(description="Kind of model; selects this table.")
    help: Word = Field(description="Description in one line.")
    source: Word = Field(description="Source of the numbers.")
    layers: Annotated[int, *whole(1, MAX_BLOCKS)] = Field(description="Blocks of attention and MLP.")
    hidden: _Count = Field(description="Elements of a token.")
    heads: _Count = Field(description="Heads of the attention.")
    kv_heads: _Count | None = Field(default=None, description="Heads of keys and values. Default: heads.")
    ffn: _Count = Field(description="Inner elements of the MLP, or of an expert.")
    gated: Flag = Field(default=False, description="Whether the MLP has a third matrix, a gate (SwiGLU).")
    experts: _Some = Field(default=0, description="Experts of each block; 0: a plain MLP.")
    top_k: _Some = Field(default=0, description="Experts that each token is routed to.")
    vocabulary: _Count = Field(description="Size of the vocabulary in tokens.")
    tied: Flag = Field(default=False, description="Whether the output head shares the parameters of the embedding.")
    positions: _Some = Field(default=0, description="Rows of learned position embeddings; 0: positions are computed.")
    bias: Flag = Field(
        default=False, description="Whether matrices have biases and norms have a shift (LayerNorm instead of RMSNorm)."
    )
    dropout: Flag = Field(default=False, description="Whether dropout follows attention, MLP and scores.")
    fused_attention: Flag = Field(
        default=False,
        description="Whether scores stay on the chip (FlashAttention), so that they are neither moved nor stored.",
    )
    sequence: _Count = Field(description="Tokens per sample, unless the experiment sets them.")

    @model_validator(mode="after")
    def _fits(self) -> Transformer:
        faults = []
        if self.hidden % self.heads:
            problem = f"{self.hidden} elements cannot be divided among {self.heads} heads"
            faults.append(InputError(problem, key="heads", allowed=f"a divisor of {self.hidden}"))
        if self.kv_heads is not None and self.heads % self.kv_heads:
            problem = f"{self.heads} heads cannot be divided among {self.kv_heads}"
            faults.append(InputError(problem, key="kv_heads", allowed=f"a divisor of {self.heads}"))
        if not bool(self.experts) <= self.top_k <= self.experts:
            problem = f"tokens are routed to {self.top_k} of {self.experts} experts"
            faults.append(InputError(problem, key="top_k", allowed=f"{min(self.experts, 1)} to {self.experts}"))
        raise_all(faults)
        return self

    def build(self, tokens: int) -> list[Layer]:
        """Return the layers for samples of `tokens` tokens."""
        if self.positions and tokens > self.positions:
            problem = f"{tokens} tokens, but the model has {self.positions} positions"
            raise InputError(problem, key="sequence", allowed=f"1 to {self.positions}")
        blocks: list[Layer] = []
        for block in range(self.layers):
            blocks.append(self.attention_layer(tokens, block))
            if self.experts:
                blocks += [self.router_layer(tokens, block), self.experts_layer(tokens, block)]
            else:
                blocks.append(self.mlp_layer(tokens, block))
        return [self.embedding_layer(tokens), *blocks, self.head_layer(tokens)]

    @property
    def _norm(self) -> int:
        return self.hidden * (2 if self.bias else 1)

    def embedding_layer(self, tokens: int) -> Layer:
        """Return the embedding for samples of `tokens` tokens."""
        hidden = self.hidden
        return Layer(
            "embedding",
            Kind.EMBEDDING,
            inputs=tokens,
            outputs=tokens * hidden,
            parameters=Elements(whole=self.positions * hidden, divided=self.vocabulary * hidden),
            forward_sum=tokens * hidden,
            # A row is read and written; positions are read.
            moved=Elements(whole=tokens * hidden * (3 if self.positions else 2)),
            kept=Elements(whole=tokens * hidden if self.dropout else 0),  # a mask
        )

    def attention_layer(self, tokens: int, block: int = 0) -> Layer:
        """Return an attention for samples of `tokens` tokens."""
        hidden, heads = self.hidden, self.heads
        size = hidden // heads
        keys = (self.kv_heads or heads) * size  # elements of the keys of a token
        scores = heads * tokens * tokens
        on_chip = 0 if self.fused_attention else None
        # Of the norm: in and out. Of the residual: both in, one out. Dropout is fused with it.
        whole = 5 * tokens * hidden
        divided = 0 if self.positions else 2 * tokens * (hidden + keys)  # rotary positions
        kept = 2 * tokens * (2 * hidden + 2 * keys)  # queries, attention outputs; keys, values
        core_moved = core_kept = 0
        if not self.fused_attention:
            core_moved = (4 if self.dropout else 2) * scores  # softmax and dropout: in and out
            core_kept = (5 if self.dropout else 2) * scores  # results, and a mask of one byte
        return Layer(
            f"block {block}: attention",
            Kind.ATTENTION,
            inputs=tokens * hidden,
            outputs=tokens * hidden,
            gemms=(
                Gemm("query, key, value", tokens, hidden + 2 * keys, hidden, split=Split.COLUMN),
                Gemm("scores", tokens, tokens, size, heads, Split.HEADS, weights=False, result=on_chip),
                Gemm("values", tokens, size, tokens, heads, Split.HEADS, weights=False, left=on_chip),
                Gemm("projection", tokens, hidden, hidden, split=Split.ROW),
            ),
            parameters=Elements(
                whole=self._norm + (hidden if self.bias else 0),
                divided=2 * hidden * hidden + 2 * hidden * keys + (hidden + 2 * keys if self.bias else 0),
            ),
            forward_sum=tokens * hidden,
            backward_sum=tokens * hidden,
            moved=Elements(whole, divided + core_moved),
            # In and out of the norm; a mask.
            kept=Elements(tokens * hidden * (5 if self.dropout else 4), kept + core_kept),
            core_moved=core_moved,
            core_kept=core_kept,
            block=block,
        )

    def mlp_layer(self, tokens: int, block: int = 0) -> Layer:
        """Return an MLP for samples of `tokens` tokens."""
        hidden, ffn, inner = self.hidden, self.ffn, self.ffn * (2 if self.gated else 1)
        return Layer(
            f"block {block}: MLP",
            Kind.MLP,
            inputs=tokens * hidden,
            outputs=tokens * hidden,
            gemms=(
                Gemm("up", tokens, inner, hidden, split=Split.COLUMN),
                Gemm("down", tokens, hidden, ffn, split=Split.ROW),
            ),
            parameters=Elements(
                whole=self._norm + (hidden if self.bias else 0),
                divided=hidden * inner + ffn * hidden + (inner if self.bias else 0),
            ),
            forward_sum=tokens * hidden,
            backward_sum=tokens * hidden,
            moved=Elements(5 * tokens * hidden, tokens * (inner + ffn)),
            kept=Elements(tokens * hidden * (5 if self.dropout else 4), 2 * tokens * (inner + ffn)),
            block=block,
        )

    def router_layer(self, tokens: int, block: int = 0) -> Layer:
        """Return a gating layer for samples of `tokens` tokens."""
        hidden, experts = self.hidden, self.experts
        return Layer(
            f"block {block}: router",
            Kind.ROUTER,
            inputs=tokens * hidden,
            outputs=tokens * hidden,
            gemms=(Gemm("router", tokens, experts, hidden),),
            parameters=Elements(whole=self._norm + hidden * experts),
            # The norm and the softmax over experts: in and out.
            moved=Elements(2 * tokens * hidden + 2 * tokens * experts),
            kept=Elements(4 * tokens * hidden),
            block=block,
        )

    def experts_layer(self, tokens: int, block: int = 0) -> Layer:
        """Return a layer of experts for samples of `tokens` tokens."""
        hidden, ffn, inner = self.hidden, self.ffn, self.ffn * (2 if self.gated else 1)
        rows = tokens * self.top_k
        bias = inner + hidden if self.bias else 0
        return Layer(
            f"block {block}: experts",
            Kind.EXPERTS,
            inputs=tokens * hidden,
            outputs=tokens * hidden,
            gemms=(
                Gemm("up", rows, inner, hidden, split=Split.COLUMN, experts=self.experts),
                Gemm("down", rows, hidden, ffn, split=Split.ROW, experts=self.experts),
            ),
            expert_parameters=self.experts * (hidden * inner + ffn * hidden + bias),
            forward_sum=tokens * hidden,
            backward_sum=tokens * hidden,
            dispatched=rows * hidden,
            # Tokens are sorted by expert and back, in and out each time; the residual: two in, one out.
            moved=Elements(3 * tokens * hidden + 4 * rows * hidden, rows * (inner + ffn)),
            kept=Elements(2 * rows * hidden, 2 * rows * (inner + ffn)),
            block=block,
        )

    def head_layer(self, tokens: int) -> Layer:
        """Return the head for samples of `tokens` tokens."""
        hidden, vocabulary = self.hidden, self.vocabulary
        return Layer(
            "head",
            Kind.HEAD,
            inputs=tokens * hidden,
            outputs=tokens,
            gemms=(Gemm("logits", tokens, vocabulary, hidden, split=Split.COLUMN),),
            parameters=Elements(self._norm, vocabulary * hidden),
            tied="embedding" if self.tied else "",
            backward_sum=tokens * hidden,
            # The norm; the softmax of the loss. Logits are kept with four bytes.
            moved=Elements(2 * tokens * hidden, 2 * tokens * vocabulary),
            kept=Elements(4 * tokens * hidden, 4 * tokens * vocabulary),
        )
