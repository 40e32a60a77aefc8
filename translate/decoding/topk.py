"""The few likeliest of many tokens."""

import torch
from jaxtyping import Float
from torch import Tensor


def topk(x: Float[Tensor, "*batch vocabulary"], k: int, chunk: int = 64) -> tuple[Tensor, Tensor]:
    """`x.topk(k)` in a fraction of its time: the k largest lie in the k chunks of largest maximum,
    or in what is left over behind the last whole chunk."""
    whole = x.size(-1) // chunk * chunk
    if x.size(-1) < 4 * k * chunk:
        return x.topk(k)
    chunks = x[..., :whole].unflatten(-1, (-1, chunk))
    best = chunks.amax(dim=-1).topk(k).indices
    inside = torch.arange(chunk, device=x.device)
    index = (best[..., None] * chunk + inside).flatten(-2)
    if whole < x.size(-1):
        rest = torch.arange(whole, x.size(-1), device=x.device)
        index = torch.cat([index, rest.expand(*index.shape[:-1], -1)], dim=-1)
    values, place = x.gather(-1, index).topk(k)
    return values, index.gather(-1, place)
