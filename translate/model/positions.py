"""How the model knows the order of the tokens (Vaswani et al. 2017, section 3.5)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def sinusoidal(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same.

    Wavelengths grow from 2π to 10000·2π, and PE(pos + k) is a rotation of PE(pos) that depends on
    k alone.
    """
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    frequency = torch.exp(two_i * (-math.log(10000.0) / d_model))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(pos * frequency)
    table[:, 1::2] = torch.cos(pos * frequency)
    return table.float()


class SinusoidalPositions(nn.Module):
    """A fixed table, a buffer and not a parameter, that grows to any length asked for."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal(256, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        end, table = start + length, self.table  # which another thread may replace
        if end > len(table):
            table = self.table = sinusoidal(2 * end, table.size(1)).to(table)
        return table[start:end]


class LearnedPositions(nn.Module):
    """A learned vector for each position up to `max_positions` (Gehring et al. 2017)."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        if start + length > len(self.table):
            raise ValueError(f"{start + length} tokens are more than the {len(self.table)} "
                             "positions that this model has learned")
        return self.table[start:start + length]


class RelativeBias(nn.Module):
    """The relative positions of T5 (Raffel et al. 2020, section 2.1).

    A learned number for each head and each bucket of the distance j − i is added to the score of
    query i and key j. Half of the buckets are one distance each, the others grow logarithmically up
    to `max_distance`, and all that is farther shares the last. No position is added to the
    embeddings.
    """

    def __init__(
        self, heads: int, bidirectional: bool, buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.max_distance = max_distance
        self.bias = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, start: int, queries: int, keys: int) -> Float[Tensor, "1 heads query key"]:
        """The bias of queries at positions start, start + 1, … for keys at 0, 1, …"""
        device = self.bias.device
        i = torch.arange(start, start + queries, device=device)[:, None]
        j = torch.arange(keys, device=device)[None, :]
        return self.bias[:, self.bucket(j - i)][None]

    def bucket(self, distance: Int[Tensor, "query key"]) -> Int[Tensor, "query key"]:
        buckets = self.bias.size(1)
        if self.bidirectional:  # one half for the keys behind the query, one for those before it
            buckets //= 2
            side = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            side = torch.zeros_like(distance)
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        growth = torch.log(distance.clamp(min=1) / exact) / math.log(self.max_distance / exact)
        far = (exact + growth * (buckets - exact)).long().clamp(max=buckets - 1)
        return side + torch.where(distance < exact, distance, far)
