"""What must not depend on how it is computed: the same logits, in four ways."""

import torch
from torch import Tensor

from translate.diagnosis.probe import made_up_batch
from translate.diagnosis.report import Check
from translate.model.layers import Weights
from translate.model.transformer import Transformer

_TOLERANCE = 1e-4  # of the largest logit: rounding errors stay far below


@torch.no_grad()
def check_agreement(model: Transformer) -> list[Check]:
    batch = made_up_batch(model)
    logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    reference = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask, Weights())
    alone = torch.zeros_like(logits)
    for n in range(len(logits)):
        one = made_up_batch(model, (n,))
        alone[n, :one.tgt_in.size(1)] = model(one.src, one.tgt_in, one.src_mask, one.tgt_mask)[0]
    memory = model.encode(batch.src, batch.src_mask)
    cache = model.start_cache(memory)
    steps = [model.project(model.decode(token, memory, batch.src_mask, None, cache))
             for token in batch.tgt_in.split(1, dim=1)]

    def compare(claim: str, other: Tensor) -> Check:
        off = (logits - other).flatten(0, 1)[batch.places].abs().max() / logits.abs().max()
        equal = bool(off <= _TOLERANCE)  # NaN is not
        return Check(claim, [] if equal else [f"they differ by {off:.2g} of the largest"])

    return [compare("a sentence has the same logits alone and in a batch", alone),
            compare("decoding with a cache gives the logits of training", torch.cat(steps, dim=1)),
            compare("fused attention and the readable reference give the same logits", reference)]
