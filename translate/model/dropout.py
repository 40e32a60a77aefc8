"""Dropout (Srivastava et al. 2014)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets elements to zero with probability p while training, and divides the others by 1 − p.

    Like `nn.Dropout`, which draws for one element after the other on a CPU: 4% of an update of a
    small model goes there. Here 64 bits are drawn at once and serve four elements. So p is rounded
    to a multiple of 2⁻¹⁶, and the others are divided by exactly what is left.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training:
            return x
        dropped = round(self.p * 2**16)
        on_cpu = not torch.compiler.is_compiling() and x.device.type == "cpu"
        if not (on_cpu and 0 < dropped < 2**16):
            return F.dropout(x, self.p)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        draws = bits.view(torch.int16)[:x.numel()].view(x.shape)  # −2¹⁵ … 2¹⁵ − 1
        kept = torch.ge(draws, dropped - 2**15, out=torch.empty_like(x))  # 1.0 or 0.0
        return x * kept * (2**16 / (2**16 - dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"
