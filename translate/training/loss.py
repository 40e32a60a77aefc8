"""The training criterion (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7)."""

import math
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.data.batching import Batch
from translate.model.layers import Weights
from translate.model.transformer import Transformer
from translate.training.fused_loss import FusedLoss


class Loss(NamedTuple):
    """Sums over tokens, in nats."""

    smoothed: Float[Tensor, ""]  # KL divergence from the smoothed target: what is minimised
    nll: Float[Tensor, ""]  # −log p(correct token): its mean's exp is the perplexity


class LabelSmoothingLoss(nn.Module):
    """KL(q ‖ p), with q = (1 − ε) · onehot + ε · uniform over the vocabulary without padding.

    With n = V − 1 tokens that are not padding, the cross-entropy of q and p is
    (1 − ε)(−log p_y) + ε · mean over n of (−log p_i), and KL is that less the constant entropy
    of q. So it differs from `CrossEntropyLoss(label_smoothing=ε)` in two ways: by H(q), which has
    no gradient, and in that PyTorch's also spreads mass on `<pad>`. Over the columns without
    `<pad>` (its logit at −∞), the two agree up to H(q).
    """

    def __init__(self, vocabulary: int, padding: int, smoothing: float = 0.1) -> None:
        super().__init__()
        self.padding = padding
        self.smoothing = smoothing
        self.others = vocabulary - 1
        rest = smoothing / self.others
        peak = 1 - smoothing + rest
        self.entropy = -peak * math.log(peak)
        if smoothing:
            self.entropy -= (self.others - 1) * rest * math.log(rest)

    def forward(
        self, logits: Float[Tensor, "tokens vocabulary"], target: Int[Tensor, " tokens"]
    ) -> Loss:
        """Every row counts: leave padding out before the projection, it saves its work too."""
        log_p = logits.log_softmax(dim=-1)
        nll = -log_p.gather(-1, target[:, None]).sum()
        uniform = (log_p[:, self.padding].sum() - log_p.sum()) / self.others
        cross_entropy = (1 - self.smoothing) * nll + self.smoothing * uniform
        return Loss(cross_entropy - len(target) * self.entropy, nll.detach())


def batch_loss(
    model: Transformer, criterion: LabelSmoothingLoss, batch: Batch, weights: Weights | None = None
) -> Loss:
    """The loss of a batch; padded places are neither projected nor counted."""
    memory = model.encode(batch.src, batch.src_mask, weights)
    states = model.decode(batch.tgt_in, memory, batch.src_mask, batch.tgt_mask, weights=weights)
    states, target = states.flatten(0, 1)[batch.places], batch.tgt_out.flatten()[batch.places]
    if FusedLoss.pays(states):
        cross_entropy, nll = FusedLoss.apply(states, model.output.weight, target,
                                             criterion.padding, criterion.smoothing)
        return Loss(cross_entropy - len(target) * criterion.entropy, nll)
    return criterion(model.project(states).float(), target)
