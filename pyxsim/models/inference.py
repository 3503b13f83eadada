"""What an NPU computes of a transformer that answers requests: prompts, and tokens one by one with a KV cache.

The layers are those of training (transformer.py) for the tokens of an iteration, except for attention: each request
attends to its own tokens, whose keys and values come from memory, once for each layer (Pope et al. 2023, Efficiently
scaling transformer inference, section 2.1). As in training, all scores count: the causal mask saves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyxsim.models.expert_work import expert_work
from pyxsim.models.layer import Elements, Layer, Part, Share, Work
from pyxsim.models.transformer import Transformer


class Span(NamedTuple):
    """Tokens of a request in an iteration: `new` ones, after `context` ones in the KV cache."""

    new: int
    context: int


@dataclass(frozen=True)
class InferenceLayers:
    """The layers of a transformer, as `share` divides them."""

    model: Transformer
    share: Share

    @property
    def head_size(self) -> int:
        """Elements of a head."""
        return self.model.hidden // self.model.heads

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values on an NPU; with more NPUs than heads, several NPUs have the same one."""
        return len(self.heads_of(0))

    def heads_of(self, rank: int) -> range:
        """Return the heads of keys and values that a tensor-parallel NPU has."""
        heads, tensor = self.model.kv_heads or self.model.heads, self.share.tensor
        return range(rank * heads // tensor, -(-(rank + 1) * heads // tensor))

    @property
    def kv_elements(self) -> int:
        """Elements of the keys and values of a token in a layer, on an NPU."""
        return 2 * self.kv_heads * self.head_size

    def embedding(self, tokens: int) -> tuple[Work, ...]:
        """Return the lookup of tokens."""
        return self._work(self.model.embedding_layer(max(tokens, 1)), tokens)

    def attention(self, spans: Sequence[Span]) -> tuple[Work, ...]:
        """Return projections for all tokens, and for each request its scores and weighted values."""
        tokens = sum(span.new for span in spans)
        if not tokens:
            return ()
        layer = self.model.attention_layer(tokens)
        dense = replace(
            layer,
            gemms=tuple(gemm for gemm in layer.gemms if gemm.weights),
            moved=Elements(layer.moved.whole, layer.moved.divided - layer.core_moved),
        )
        heads, size = -(-self.model.heads // self.share.tensor), self.head_size
        works = list(dense.work(Part.FORWARD, 1, self.share))
        for new, context in spans:
            known = new + context
            queries, cache = new * size * heads, known * self.kv_elements // 2
            scores = 0 if self.model.fused_attention else new * known * heads
            works.append(Work(new, known, size, heads, queries + cache + scores))
            works.append(Work(new, size, known, heads, scores + cache + queries))
            if scores:  # the softmax reads and writes them
                works.append(Work(elements=2 * scores))
        return tuple(works)

    def mlp(self, tokens: int) -> tuple[Work, ...]:
        """Return an MLP."""
        return self._work(self.model.mlp_layer(max(tokens, 1)), tokens)

    def router(self, tokens: int) -> tuple[Work, ...]:
        """Return the gating layer before the experts."""
        return self._work(self.model.router_layer(max(tokens, 1)), tokens)

    def experts(self, rows: Sequence[int], tokens: int) -> tuple[Work, ...]:
        """Return a layer of experts: `rows` tokens of each expert of the NPU, `tokens` tokens that it sorts."""
        layer = self.model.experts_layer(max(tokens, 1))
        return expert_work(layer, Part.FORWARD, rows, min(tokens, 1), self.share)

    def head(self, rows: int) -> tuple[Work, ...]:
        """Return the logits of some tokens."""
        return self._work(self.model.head_layer(max(rows, 1)), rows)

    def _work(self, layer: Layer, tokens: int) -> tuple[Work, ...]:
        return layer.work(Part.FORWARD, 1, self.share) if tokens else ()
