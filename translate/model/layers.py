"""Encoder and decoder layers (Vaswani et al. 2017, sections 3.1 and 3.3)."""

from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from translate.model.attention import Bias, Mask, MultiHeadAttention
from translate.model.cache import LayerCache
from translate.model.dropout import Dropout
from translate.model.linear import Linear

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu"]


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂, equation 2; GELU instead of max(0, ·) if asked for."""

    def __init__(
        self, d_model: int, d_ff: int, activation: Activation = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.w_1 = Linear(d_model, d_ff)
        self.w_2 = Linear(d_ff, d_model)
        self.activation = nn.ReLU() if activation == "relu" else nn.GELU()
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.w_2(self.dropout(self.activation(self.w_1(x))))


class Residual(nn.Module):
    """What goes around every sublayer: a shortcut, dropout (section 5.4) and layer normalisation.

    post (the paper):                    x ← LayerNorm(x + Dropout(Sublayer(x)))
    pre (Xiong et al. 2020, steadier):   x ← x + Dropout(Sublayer(LayerNorm(x)))
    """

    def __init__(self, d_model: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def enter(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """What the sublayer sees of x."""
        return self.norm(x) if self.pre else x

    def leave(
        self, x: Float[Tensor, "*batch d_model"], sublayer: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """x and the sublayer's result, put together."""
        x = x + self.dropout(sublayer)
        return x if self.pre else self.norm(x)


@dataclass
class Weights:
    """Attention weights by layer, each (batch, heads, query, key), filled on a forward pass."""

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        dropout: float,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: Norm = "post",
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, heads, attention_dropout)
        self.feed_forward = FeedForward(d_model, d_ff, activation, activation_dropout)
        self.around_attention = Residual(d_model, norm, dropout)
        self.around_feed_forward = Residual(d_model, norm, dropout)

    def forward(
        self,
        x: Float[Tensor, "batch source d_model"],
        mask: Mask | None,
        bias: Bias | None = None,
        weights: Weights | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        y = self.around_attention.enter(x)
        y = self.self_attention(*self.self_attention.queries_keys_values(y), mask, bias,
                                weights and weights.encoder)
        x = self.around_attention.leave(x, y)
        y = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, y)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's memory, then a feed-forward network."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        dropout: float,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: Norm = "post",
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, heads, attention_dropout)
        self.cross_attention = MultiHeadAttention(d_model, heads, attention_dropout)
        self.feed_forward = FeedForward(d_model, d_ff, activation, activation_dropout)
        self.around_self_attention = Residual(d_model, norm, dropout)
        self.around_cross_attention = Residual(d_model, norm, dropout)
        self.around_feed_forward = Residual(d_model, norm, dropout)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"] | None,
        mask: Bool[Tensor, "#batch 1 target past"] | None,
        memory_mask: Bool[Tensor, "#batch 1 1 source"] | None,
        bias: Bias | None = None,
        memory_bias: Float[Tensor, "#batch 1 1 source"] | None = None,
        cache: LayerCache | None = None,
        weights: Weights | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """With a cache, `x` holds the newest tokens alone, and no `memory` is needed."""
        y = self.around_self_attention.enter(x)
        q, own = self.self_attention.queries_keys_values(y)
        y = self.self_attention(q, cache.with_newest(own) if cache else own, mask, bias,
                                weights and weights.decoder)
        x = self.around_self_attention.leave(x, y)

        y = self.around_cross_attention.enter(x)
        if cache:
            of_memory = cache.memory
        else:
            assert memory is not None
            of_memory = self.cross_attention.keys_values(memory)
        y = self.cross_attention(self.cross_attention.queries(y), of_memory, memory_mask,
                                 memory_bias, weights and weights.cross)
        x = self.around_cross_attention.leave(x, y)

        y = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, y)
