"""The Transformer (Vaswani et al. 2017, figure 1)."""

import math
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from translate.model.attention import Bias, as_bias
from translate.model.cache import Cache
from translate.model.dropout import Dropout
from translate.model.layers import (
    Activation,
    DecoderLayer,
    EncoderLayer,
    Norm,
    Weights,
)
from translate.model.linear import Linear
from translate.model.positions import LearnedPositions, RelativeBias, SinusoidalPositions


class Transformer(nn.Module):
    """Encoder and decoder; the defaults are the paper's base model (table 3).

    Args:
        source_size, target_size: tokens in the two vocabularies.
        dropout: on embeddings and on every sublayer's result (section 5.4).
        attention_dropout, activation_dropout: on attention weights, and inside the feed-forward
            network; the paper has neither.
        positions: sinusoidal (the paper), learned (Gehring et al. 2017) or relative (T5, Raffel
            et al. 2020).
        tie_output: the output projection is the target embedding (section 3.4).
        tie_source: the source embedding is the target embedding too; one joint vocabulary.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        d_model: int = 512,
        heads: int = 8,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: Norm = "post",
        positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal",
        activation: Activation = "relu",
        max_positions: int = 2048,
        tie_output: bool = True,
        tie_source: bool = False,
    ) -> None:
        super().__init__()
        if tie_source and source_size != target_size:
            raise ValueError(f"tie_source needs one vocabulary, not {source_size} and "
                             f"{target_size} tokens")
        layer = (d_model, heads, d_ff, dropout, attention_dropout, activation_dropout, norm,
                 activation)
        self.target_embedding = nn.Embedding(target_size, d_model)
        self.source_embedding = (self.target_embedding if tie_source
                                 else nn.Embedding(source_size, d_model))
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(decoder_layers))
        pre = norm == "pre"  # nothing normalises the sum that leaves a pre-norm stack
        self.encoder_norm = nn.LayerNorm(d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model) if pre else nn.Identity()
        self.output = Linear(d_model, target_size, bias=False)
        self.dropout = Dropout(dropout)
        self._initialise()
        if tie_output:
            self.output.weight = self.target_embedding.weight

        self.source_positions: SinusoidalPositions | LearnedPositions | None = None
        self.target_positions: SinusoidalPositions | LearnedPositions | None = None
        self.encoder_bias = self.decoder_bias = None
        if positions == "sinusoidal":
            self.source_positions = self.target_positions = SinusoidalPositions(d_model)
        elif positions == "learned":
            self.source_positions = LearnedPositions(max_positions, d_model)
            self.target_positions = LearnedPositions(max_positions, d_model)
        else:
            self.encoder_bias = RelativeBias(heads, bidirectional=True)
            self.decoder_bias = RelativeBias(heads, bidirectional=False)

    def forward(
        self,
        src: Int[Tensor, "batch source"],
        tgt_in: Int[Tensor, "batch target"],
        src_mask: Bool[Tensor, "batch 1 1 source"],
        tgt_mask: Bool[Tensor, "#batch 1 target target"],
        weights: Weights | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of the token that follows each token of `tgt_in`."""
        memory = self.encode(src, src_mask, weights)
        states = self.decode(tgt_in, memory, src_mask, tgt_mask, weights=weights)
        return self.project(states)

    def encode(
        self,
        src: Int[Tensor, "batch source"],
        src_mask: Bool[Tensor, "batch 1 1 source"],
        weights: Weights | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        where = self.source_positions(0, src.size(1)) if self.source_positions else None
        x = self._embed(src, self.source_embedding, where)
        bias = self.encoder_bias(0, src.size(1), src.size(1)) if self.encoder_bias else None
        for layer in self.encoder:
            x = layer(x, src_mask, bias, weights)
        return self.encoder_norm(x)

    def decode(
        self,
        tgt: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"] | None,
        src_mask: Bool[Tensor, "batch 1 1 source"],
        tgt_mask: Bool[Tensor, "#batch 1 target past"] | None,
        cache: Cache | None = None,
        weights: Weights | None = None,
        place: Int[np.ndarray, " batch"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """States of the target tokens; `project` makes logits of them.

        With a cache from `start_cache`, which holds what is needed of the memory and knows no
        gradient, `tgt` is the newest token of each row, and the states equal those of a pass over
        all tokens so far. It may be several, all for one place: the newest tokens of hypotheses
        that share a source. Then `tgt_mask`, (batch, 1, target, past), says which of the tokens fed
        so far each of them follows, itself included. `place` is that of the newest token in each
        row, where rows have begun in different steps.
        """
        past = len(cache.fed) if cache else 0
        length = 1 if cache else tgt.size(1)
        where = None
        if self.target_positions:
            where = (self.target_positions(past, length) if place is None
                     else self.target_positions(0, int(place.max()) + 1)[place, None])
        x = self._embed(tgt, self.target_embedding, where)
        bias = self.decoder_bias(past, length, past + length) if self.decoder_bias else None
        if not cache:
            for layer in self.decoder:
                x = layer(x, memory, tgt_mask, src_mask, bias, weights=weights)
        else:
            bias = _bias_of_fed([*cache.fed, tgt.size(1)], tgt_mask, bias)
            memory_bias = as_bias(src_mask)
            for layer, kept in zip(self.decoder, cache.extend(tgt.size(1)), strict=True):
                x = layer(x, memory, None, None, bias, memory_bias, kept)
        return self.decoder_norm(x)

    def project(
        self, states: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        """Logits; their softmax is the next token's distribution (section 3.4)."""
        return self.output(states)

    def start_cache(self, memory: Float[Tensor, "batch source d_model"]) -> Cache:
        return Cache.empty(
            layer.cross_attention.keys_values(memory)  # type: ignore[union-attr, operator]
            for layer in self.decoder)

    def _embed(
        self,
        tokens: Int[Tensor, "batch length"],
        embedding: nn.Embedding,
        positions: Float[Tensor, "... #length d_model"] | None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Embeddings times √d_model (section 3.4), plus positions (section 3.5)."""
        x = embedding(tokens) * math.sqrt(embedding.embedding_dim)
        if positions is not None:
            x = x + positions
        return self.dropout(x)

    def _initialise(self) -> None:
        """Xavier (Glorot & Bengio 2010) for matrices; embeddings so that √d_model · e ~ N(0, 1)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def _bias_of_fed(
    fed: list[int],
    mask: Bool[Tensor, "#batch 1 target past"] | None,
    bias: Float[Tensor, "1 heads 1 places"] | None,
) -> Bias | None:
    """For all that was fed, `fed` tokens at each place, which share the bias of the place."""
    if bias is not None:
        bias = bias.repeat_interleave(torch.tensor(fed, device=bias.device), -1)
    return bias if mask is None else as_bias(mask, bias)
