"""What a logit depends on and must not: later target tokens, padding, other sentences.

Told by gradient. Where there is no path, the derivative of a logit by an embedding is zero, exactly
and not nearly. So a leak is found wherever it is: attention weights show nothing of a convolution,
a mean over time or a batch norm.
"""

import copy
from collections import defaultdict

import torch
from torch import Tensor

from translate.data.batching import Batch
from translate.data.vocabulary import PAD
from translate.diagnosis.probe import made_up_batch, trace
from translate.diagnosis.report import Check
from translate.model.layers import Weights
from translate.model.transformer import Transformer

_CLAIMS = {"later": "no logit depends on a later target token",
           "padding": "no logit depends on padding",
           "sentence": "no logit depends on another sentence of its batch"}


def check_leaks(model: Transformer) -> list[Check]:
    """In training mode, with fused attention, and in evaluation mode, with the reference.

    Batch norm leaks in training alone, and one kind of attention may be right and the other wrong.
    """
    found: dict[str, defaultdict[str, list[str]]] = {kind: defaultdict(list) for kind in _CLAIMS}
    for mode in ("training", "evaluation"):
        for kind, problem in find_leaks(model, mode == "training").items():
            found[kind][problem].append(mode)
    return [Check(claim, [f"{problem} (in {' and '.join(modes)})"
                          for problem, modes in found[kind].items()])
            for kind, claim in _CLAIMS.items()]


def find_leaks(model: Transformer, training: bool) -> dict[str, str]:
    """The kinds of leaks into the logits: the first state that has it, and an example."""
    model = copy.deepcopy(model).train(training).requires_grad_(False)  # running means change
    batch = made_up_batch(model)
    states = trace(model, batch, None if training else Weights())
    if not states["logits"].isfinite().all():
        return dict.fromkeys(_CLAIMS, "nothing can be said: the logits are not finite")
    leaks = dict.fromkeys(forbidden(states, "logits", batch), "")
    for name in states:
        if not all(leaks.values()):
            for kind, example in forbidden(states, name, batch).items():
                if leaks.get(kind) == "":
                    leaks[kind] = f"from {name} on, {example}"
    return leaks


def forbidden(states: dict[str, Tensor], name: str, batch: Batch) -> dict[str, str]:
    """By kind, an example of what a state must not depend on and does."""
    real = {"source": batch.src != PAD, "target": batch.tgt_in != PAD}
    own = "source" if name.startswith(("source", "encoder")) else "target"
    leaks: dict[str, str] = {}
    for i, t in real[own].nonzero().tolist():
        state = states[name][i, t]
        # Along a random direction: all the numbers that a layer norm returns have a constant sum.
        gradients = torch.autograd.grad(state @ torch.randn_like(state),
                                        [states[f"{side} tokens"] for side in real],
                                        retain_graph=True, allow_unused=True)
        for side, gradient in zip(real, gradients, strict=True):
            if gradient is None:
                continue
            seen = gradient.ne(0).any(dim=-1)  # NaN is not 0 either
            later = (seen[i] & real[side][i])[t + 1:].nonzero()
            if side == "target" and len(later):
                leaks.setdefault("later", f"position {t} sees position {t + 1 + int(later[0])}")
            if (seen[i] & ~real[side][i]).any():
                leaks.setdefault("padding", f"position {t} sees padding of the {side}")
            seen[i] = False
            if seen.any():
                leaks.setdefault("sentence", f"position {t} sees the {side} of another sentence")
    return leaks
