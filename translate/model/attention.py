"""Attention (Vaswani et al. 2017, section 3.2)."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from translate.model.linear import Linear

Mask = Bool[Tensor, "#batch #heads #query key"]  # True = may attend
Bias = Float[Tensor, "#batch #heads #query key"]  # added to the scores


def attention(
    q: Float[Tensor, "batch heads query d_k"],
    k: Float[Tensor, "batch heads key d_k"],
    v: Float[Tensor, "batch heads key d_v"],
    mask: Mask | None = None,
    bias: Bias | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "batch heads query d_v"], Float[Tensor, "batch heads query key"]]:
    """Attention(Q, K, V) = softmax(QKᵀ / √d_k) V, equation 1; the readable reference.

    Returns the result and the weights before dropout. A query with nothing to attend to gets
    weights and a result of zero: softmax over −∞ alone would be NaN, forward and backward.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if bias is not None:
        scores = scores + bias
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return F.dropout(weights, dropout) @ v, weights


def fused_attention(
    q: Float[Tensor, "batch heads query d_k"],
    k: Float[Tensor, "batch heads key d_k"],
    v: Float[Tensor, "batch heads key d_v"],
    mask: Mask | None = None,
    bias: Bias | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query d_v"]:
    """The same result as `attention`, by PyTorch's fused kernels, which keep no weights."""
    in_search = q.size(2) <= 8 and len(q) >= 16 and not torch.is_grad_enabled() and not dropout
    if in_search and mask is None and bias is not None and q.device.type == "cpu":
        return _attention_of_few(q, k, v, bias)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, bias, dropout)
    # The kernels differ in what they make of a query with nothing to attend to: it attends to
    # everything, and its result is set to zero.
    something = mask.any(dim=-1, keepdim=True)
    allowed = mask | ~something
    if bias is not None:
        allowed = bias.masked_fill(~allowed, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, allowed, dropout) * something.to(q.dtype)


def _attention_of_few(
    q: Float[Tensor, "batch heads query d_k"],
    k: Float[Tensor, "batch heads key d_k"],
    v: Float[Tensor, "batch heads key d_v"],
    bias: Bias,
) -> Float[Tensor, "batch heads query d_v"]:
    """For few queries on a CPU: the kernel begins anew for every head of every row, which is too
    much for so little, and so is every operation that can be spared."""
    rows, queries, d_k = q.shape[:2], q.size(2), q.size(3)
    bias = bias.expand(*rows, queries, -1).flatten(0, 1)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    weights = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=d_k**-0.5).softmax(dim=-1)
    return torch.bmm(weights, v).view(*rows, queries, -1)


def as_bias(mask: Mask, bias: Bias | None = None) -> Bias:
    """A mask that leaves every query some key, and a bias, as one: made once and used often."""
    return torch.where(mask, 0.0 if bias is None else bias, -math.inf)


class KeyValues(NamedTuple):
    """Keys and values of one attention, kept between the steps of decoding."""

    k: Float[Tensor, "batch heads key d_k"]
    v: Float[Tensor, "batch heads key d_k"]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) Wᴼ, section 3.2.2.

    head_i = Attention(Q W_iᵠ, K W_iᴷ, V W_iⱽ) with d_k = d_v = d_model / h. The h small projections
    of the paper are the column blocks of one (d_model, d_model) matrix.
    """

    def __init__(self, d_model: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.w_q = Linear(d_model, d_model, bias=False)
        self.w_k = Linear(d_model, d_model, bias=False)
        self.w_v = Linear(d_model, d_model, bias=False)
        self.w_o = Linear(d_model, d_model, bias=False)

    def queries(
        self, x: Float[Tensor, "batch query d_model"]
    ) -> Float[Tensor, "batch heads query d_k"]:
        return self._split(self.w_q(x))

    def keys_values(self, x: Float[Tensor, "batch key d_model"]) -> KeyValues:
        return KeyValues(self._split(self.w_k(x)), self._split(self.w_v(x)))

    def queries_keys_values(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> tuple[Float[Tensor, "batch heads length d_k"], KeyValues]:
        """Of self-attention, where all come from the same place."""
        keys_values = self.keys_values(x)
        return self.queries(x), keys_values

    def forward(
        self,
        q: Float[Tensor, "batch heads query d_k"],
        keys_values: KeyValues,
        mask: Mask | None = None,
        bias: Bias | None = None,
        weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """If `weights` is a list, the attention weights are appended to it."""
        dropout = self.dropout if self.training else 0.0
        if weights is None:
            heads = fused_attention(q, *keys_values, mask, bias, dropout)
        else:
            heads, attended = attention(q, *keys_values, mask, bias, dropout)
            weights.append(attended)
        return self.w_o(heads.transpose(1, 2).flatten(2))  # Concat(head_1, …, head_h) Wᴼ

    def _split(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch heads length d_k"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
