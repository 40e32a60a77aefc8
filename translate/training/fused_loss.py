"""The projection and the criterion in one, for training on a CPU.

`LabelSmoothingLoss` of all logits is the definition, and what runs elsewhere. It reads and writes
(tokens, vocabulary) numbers many times over, forward and backward. Here some rows at a time go all
the way, down to the gradients of states and projection, while they are in the processor's cache.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.model.linear import linear

ROWS = 512


class FusedLoss(torch.autograd.Function):
    """Sums over tokens: the cross-entropy H(q, p), and −log p(correct token), without a gradient.

    With the q of `LabelSmoothingLoss`, the gradient of H(q, p) by the logits is p − q.
    """

    @staticmethod
    def pays(states: Tensor) -> bool:
        return (not torch.compiler.is_compiling() and states.device.type == "cpu"
                and states.requires_grad and not torch.is_autocast_enabled("cpu"))

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "tokens d_model"],
        weight: Float[Tensor, "vocabulary d_model"],
        target: Int[Tensor, " tokens"],
        padding: int,
        smoothing: float,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        rest = smoothing / (len(weight) - 1)
        states_grad, weight_grad = torch.empty_like(states), torch.zeros_like(weight)
        nll, others = states.new_zeros(2)
        for x, y, x_grad in zip(states.split(ROWS), target.split(ROWS), states_grad.split(ROWS),
                                strict=True):
            log_p = linear(x, weight).log_softmax(dim=-1)
            nll -= log_p.gather(-1, y[:, None]).sum()
            others -= log_p.sum() - log_p[:, padding].sum()
            logits_grad = log_p.exp_().sub_(rest)
            logits_grad[:, padding] += rest
            logits_grad[torch.arange(len(y)), y] -= 1 - smoothing
            x_grad.copy_(linear(logits_grad, weight.T))
            weight_grad.addmm_(logits_grad.T, x)
        ctx.save_for_backward(states_grad, weight_grad)
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + rest * others, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        states_grad, weight_grad = ctx.saved_tensors
        return grad * states_grad, grad * weight_grad, None, None, None
