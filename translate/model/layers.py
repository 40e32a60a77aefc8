"""Encoder and decoder layers (Vaswani et al. 2017, sections 3.1 and 3.3)."""

from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from translate.model.attention import Bias, KeyValues, Mask, MultiHeadAttention
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


@dataclass
class LayerCache:
    """Keys and values of one decoder layer: of the memory, and of the target tokens so far.

    The buffers of the target hold more than is filled, so that a step copies nothing but its own.
    """

    memory: KeyValues
    target: KeyValues | None = None
    fed: list[int] = field(default_factory=list)  # target tokens of each step

    def extend(self, new: KeyValues) -> KeyValues:
        """All keys and values so far, the new ones last."""
        start = sum(self.fed)
        self.fed.append(new.k.size(2))
        end = sum(self.fed)
        if self.target is None or end > self.target.k.size(2):
            room = [x.new_empty(*x.shape[:2], 2 * end + 16, x.size(3)) for x in new]
            for buffer, old in zip(room, self.target or (), strict=False):
                buffer[:, :, :start] = old[:, :, :start]
            self.target = KeyValues(*room)
        for buffer, x in zip(self.target, new, strict=True):
            buffer[:, :, start:end] = x
        return KeyValues(*(x[:, :, :end] for x in self.target))

    def select(
        self, rows: Shaped[Tensor, " rows"], moved: Int[Tensor, " moved"] | None = None
    ) -> None:
        """Keep these rows (indices or a mask) of the batch.

        If `moved` names those of the new rows that were others before, the rest is not copied.
        """
        def keep(x: Tensor, filled: int) -> Tensor:
            if moved is None:
                return x[rows]
            x[moved, :, :filled] = x[rows[moved], :, :filled]
            return x[:len(rows)]

        self.memory = KeyValues(*(keep(x, x.size(2)) for x in self.memory))
        if self.target is not None:
            self.target = KeyValues(*(keep(x, sum(self.fed)) for x in self.target))


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
        y = self.self_attention(y, self.self_attention.keys_values(y), mask, bias,
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

    def start_cache(self, memory: Float[Tensor, "batch source d_model"]) -> LayerCache:
        # Contiguous, since every step reads them: a third less time for a step on a CPU.
        return LayerCache(KeyValues(*(x.contiguous()
                                      for x in self.cross_attention.keys_values(memory))))

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "#batch 1 target past"] | None,
        memory_mask: Bool[Tensor, "#batch 1 1 source"] | None,
        bias: Bias | None = None,
        memory_bias: Float[Tensor, "#batch 1 1 source"] | None = None,
        cache: LayerCache | None = None,
        weights: Weights | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """With a cache, `x` holds the newest tokens alone and `memory` is not read again."""
        y = self.around_self_attention.enter(x)
        own = self.self_attention.keys_values(y)
        y = self.self_attention(y, cache.extend(own) if cache else own, mask, bias,
                                weights and weights.decoder)
        x = self.around_self_attention.leave(x, y)

        y = self.around_cross_attention.enter(x)
        of_memory = cache.memory if cache else self.cross_attention.keys_values(memory)
        y = self.cross_attention(y, of_memory, memory_mask, memory_bias,
                                 weights and weights.cross)
        x = self.around_cross_attention.leave(x, y)

        y = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, y)
