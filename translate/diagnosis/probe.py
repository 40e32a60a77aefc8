"""Three made-up sentence pairs, and every state of a model between embeddings and logits."""

from contextlib import ExitStack
from typing import Any

import numpy as np
from torch import Tensor, nn

from translate.data.batching import Batch, make_batch
from translate.data.ragged import Pairs, Ragged
from translate.data.vocabulary import SPECIALS
from translate.errors import UserError
from translate.model.layers import Weights
from translate.model.transformer import Transformer


def made_up_batch(model: Transformer, rows: tuple[int, ...] = (0, 1, 2)) -> Batch:
    """Pairs of random tokens on the model's device; all three together have padding everywhere."""
    random = np.random.default_rng(0)

    def side(embedding: nn.Embedding, lengths: list[int]) -> Ragged:
        ids = random.integers(len(SPECIALS), embedding.num_embeddings, sum(lengths), dtype=np.int32)
        return Ragged(ids, np.cumsum([0, *lengths]))

    pairs = Pairs(side(model.source_embedding, [8, 5, 2]), side(model.target_embedding, [4, 7, 6]))
    return make_batch(pairs, np.array(rows)).to(next(model.parameters()).device)


def trace(model: Transformer, batch: Batch, weights: Weights | None = None) -> dict[str, Tensor]:
    """The states of a forward pass, each (batch, length, size), in the order of computation.

    First "source tokens" and "target tokens", what the embeddings return, as leaves of the graph.
    Then "encoder input", with positions, "encoder 0", …, the same of the decoder, and "logits".

    Raises:
        UserError: the model does not call either embedding once, so nothing can be followed.
    """
    tokens: list[Tensor] = []
    states: dict[str, Tensor] = {}

    def cut(module: nn.Module, inputs: Any, result: Tensor) -> Tensor:
        tokens.append(result.detach().requires_grad_())
        return tokens[-1].clone()  # the model may change it in place

    with ExitStack() as hooks:
        for embedding in {model.source_embedding, model.target_embedding}:  # one if they are tied
            hooks.enter_context(embedding.register_forward_hook(cut))
        for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
            hooks.enter_context(layers[0].register_forward_pre_hook(
                lambda _, inputs, name=f"{stack} input": states.update({name: inputs[0]})))
            for n, layer in enumerate(layers):
                hooks.enter_context(layer.register_forward_hook(
                    lambda _, inputs, result, name=f"{stack} {n}": states.update({name: result})))
        logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask, weights)
    if len(tokens) != 2:
        raise UserError("this report follows what source_embedding and target_embedding return, "
                        f"once each; the model calls them {len(tokens)} times")
    return {"source tokens": tokens[0], "target tokens": tokens[1], **states, "logits": logits}
