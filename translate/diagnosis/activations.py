"""The scale of the states through depth (Xiong et al. 2020, section 3)."""

import torch
from torch import Tensor

from translate.config import Config
from translate.data.batching import Batch
from translate.data.vocabulary import PAD
from translate.diagnosis.probe import trace
from translate.diagnosis.report import Check, table
from translate.model.transformer import Transformer
from translate.runs import build_model

Scales = dict[str, float]  # "encoder input", "encoder 0", … -> root mean square


def rms(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt())


@torch.no_grad()
def scales(model: Transformer, batch: Batch) -> Scales:
    """Of what enters and leaves each layer, at positions that are not padding."""
    states = trace(model, batch)
    real = {"encoder": batch.src != PAD, "decoder": batch.tgt_in != PAD}
    return {name: rms(state[real[name.split()[0]]]) for name, state in states.items()
            if name.split()[0] in real}


def both_norms(config: Config, model: Transformer, batch: Batch) -> dict[str, Scales]:
    """Of the same model at initialisation, once with either place of the normalisation."""
    found = {}
    for norm in ("pre", "post"):
        changed = config.model_copy(update={
            "model": config.model.model_copy(update={"norm": norm})})
        torch.manual_seed(config.seed)
        built = build_model(changed, model.source_embedding.num_embeddings,
                            model.target_embedding.num_embeddings)
        found[f"{norm}-norm, untrained"] = scales(built.to(batch.src.device).eval(), batch)
    return found


def scale_table(found: dict[str, Scales]) -> str:
    names = list(next(iter(found.values())))
    return table([["root mean square", *found], *(
        [name, *(f"{scale[name]:.2f}" for scale in found.values())] for name in names)])


@torch.no_grad()
def check_embeddings(model: Transformer, batch: Batch) -> Check:
    """That positions do not drown the tokens, as they do where √d_model is missing.

    What enters the first layer is a · token + position, and a is found by least squares.
    """
    states, problems = trace(model, batch), []
    for side, stack, ids in (("source", "encoder", batch.src), ("target", "decoder", batch.tgt_in)):
        token, x = (states[name][ids != PAD] for name in (f"{side} tokens", f"{stack} input"))
        token = token * ((x * token).sum() / token.square().sum())
        if not rms(token) * 2 > rms(x - token):
            problems.append(f"{side}: root mean square {rms(token):.2g} of the tokens, "
                            f"{rms(x - token):.2g} of the rest")
    return Check("positions do not drown the tokens", problems, warning=True)
