"""The products with weight matrices, which are four fifths of training on a CPU."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def onednn_suits(x: Tensor) -> bool:
    return (not torch.compiler.is_compiling()  # it multiplies by oneDNN anyway
            and x.device.type == "cpu" and x.dtype is torch.float32
            and torch.backends.mkldnn.is_available() and not torch.is_autocast_enabled("cpu"))


def linear(
    x: Float[Tensor, "*batch d_in"],
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, " d_out"] | None = None,
) -> Float[Tensor, "*batch d_out"]:
    """`F.linear` without a gradient, by oneDNN where that can be.

    PyTorch multiplies by MKL outside of compiled code. On processors that are not Intel's, MKL
    leaves part of the vector units idle: on a Zen 4, oneDNN does a sixth more a second.
    """
    if onednn_suits(x):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """`nn.Linear`, with `linear` in training, forward and backward."""

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        if torch.is_grad_enabled() and onednn_suits(x):
            return _Product.apply(x, self.weight, self.bias)
        return super().forward(x)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        # MKL is as good at the product of the two tall matrices.
        return (linear(grad, weight.T), rows.T @ x.flatten(0, -2),
                None if bias is None else rows.sum(dim=0))
