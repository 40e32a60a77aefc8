"""Where attention goes: on what is masked, everywhere alike, or always to one place."""

import copy
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.data.batching import Batch
from translate.data.vocabulary import PAD, SPECIALS
from translate.diagnosis.probe import made_up_batch
from translate.diagnosis.report import Check, table
from translate.model.layers import Weights
from translate.model.transformer import Transformer

_EVEN, _ONE_PLACE = 0.99, 0.1  # evenness of a row, and of the mean row, of a dead head
_SATURATED = 0.45  # evenness of a row below which a new head is too uneven


class Layer(NamedTuple):
    """One attention. What its queries may see is read off the tokens, not off the batch's masks."""

    name: str
    weights: Float[Tensor, "batch heads query key"]  # zero in the rows of padded queries
    queries: Bool[Tensor, "batch 1 query 1"]  # False at padding
    keys: Bool[Tensor, "batch 1 1 key"]
    past: Bool[Tensor, "#query #key"]
    ids: Int[Tensor, "batch key"]

    def row_sums(self) -> Float[Tensor, " rows"]:
        return self.weights.sum(dim=-1)[self.queries[..., 0].expand(self.weights.shape[:3])]

    def share(self, where: Bool[Tensor, "batch 1 #query key"]) -> float:
        return float((self.weights * where).sum() / self.weights.sum())

    def evenness(self) -> tuple[Float[Tensor, " heads"], Float[Tensor, " heads"]]:
        """Of a row, and of the mean row over the queries of a sentence."""
        return (_evenness(self.weights, self.queries & self.keys & self.past),
                _evenness(self.weights.mean(dim=2, keepdim=True), self.keys))


def _evenness(
    w: Float[Tensor, "batch heads query key"], allowed: Bool[Tensor, "batch 1 query key"]
) -> Float[Tensor, " heads"]:
    """Mean entropy of the rows over that of equal weights; rows of one key say nothing."""
    keys = allowed.sum(dim=-1)
    entropy = torch.special.entr(w / w.sum(dim=-1, keepdim=True)).sum(dim=-1)
    return (entropy / keys.log()).where(keys > 1, 0.0).sum(dim=(0, 2)) / (keys > 1).sum()


def attention_layers(weights: Weights, batch: Batch) -> list[Layer]:
    src, tgt = (ids[:, None, None] != PAD for ids in (batch.src, batch.tgt_in))
    past = torch.ones_like(batch.tgt_mask[0, 0]).tril()
    return [Layer(f"{kind} {n}", w.detach().double() * queries.mT, queries.mT, keys, seen, ids)
            for kind, found, queries, keys, seen, ids in (
                ("encoder", weights.encoder, src, src, past.new_ones(1, 1), batch.src),
                ("decoder", weights.decoder, tgt, tgt, past, batch.tgt_in),
                ("cross", weights.cross, tgt, src, past.new_ones(1, 1), batch.src))
            for n, w in enumerate(found)]


def attention_table(layers: list[Layer]) -> str:
    """The evenness is that of the least and the most even head."""
    rows = [["attention", "row sums", "on padding", "on the future", "evenness of a row",
             "of the mean row"]]
    for layer in layers:
        sums = layer.row_sums()
        rows.append([layer.name, f"{sums.min():.6f} … {sums.max():.6f}",
                     f"{layer.share(~layer.keys):g}", f"{layer.share(layer.keys & ~layer.past):g}",
                     *(f"{x.min():.2f} … {x.max():.2f}" for x in layer.evenness())])
    return table(rows)


def check_rows(layers: list[Layer]) -> list[Check]:
    sums = {layer.name: float((layer.row_sums() - 1).abs().max()) for layer in layers}
    astray = {layer.name: layer.share(~(layer.keys & layer.past)) for layer in layers}
    return [  # not …, so that NaN is wrong too
        Check("attention rows sum to 1", [
            f"{name}: off by up to {x:.2g}" for name, x in sums.items() if not x < 1e-3]),
        Check("no attention falls on padding or on the future", [
            f"{name}: {x:.2g} of it" for name, x in astray.items() if x != 0])]


def check_dead_heads(layers: list[Layer]) -> Check:
    """Heads of a trained model that give the same whatever the query.

    Such a head attends to everything alike (evenness of a row at least 0.99), or all queries of a
    sentence attend to the same key (of the mean row at most 0.1). An uneven row alone is no fault:
    a head that looks at the previous token has evenness 0, and of the mean row about 1.
    """
    problems = []
    for layer in layers:
        for head, (row, mean) in enumerate(zip(*layer.evenness(), strict=True)):
            if row >= _EVEN:
                problems.append(f"{layer.name}, head {head}: attends to everything alike")
            elif mean <= _ONE_PLACE:
                place = layer.weights[:, head].sum(dim=1).argmax(dim=-1, keepdim=True)
                token = int(layer.ids.gather(1, place).mode(dim=0).values)
                what = SPECIALS[token] if token < len(SPECIALS) else "one place"
                problems.append(f"{layer.name}, head {head}: always attends to {what}")
    return Check("no head is dead", problems, warning=True)


def check_saturation(layers: list[Layer]) -> Check:
    """A new model's heads are even; scores so large that they are not hinder learning (3.2.1)."""
    return Check("no softmax is saturated at initialisation (1/√d_k)", [
        f"{layer.name}, head {head}: evenness {row:.2f}"
        for layer in layers for head, row in enumerate(layer.evenness()[0]) if row < _SATURATED
    ], warning=True)


def check_masked_rows(model: Transformer) -> Check:
    """Queries that may attend to nothing: to a source of padding alone, or by the target's mask."""
    model = copy.deepcopy(model)  # for its gradients
    batch = made_up_batch(model)
    no_source, no_row = batch.src.clone(), batch.tgt_mask.clone()
    no_source[0], no_row[0, :, 1] = PAD, False
    problems = []
    for what, src, tgt_mask in (("a source of padding alone", no_source, batch.tgt_mask),
                                ("a target position that may see nothing", batch.src, no_row)):
        for how, weights in (("fused", None), ("reference", Weights())):
            model.zero_grad()
            logits = model(src, batch.tgt_in, (src != PAD)[:, None, None], tgt_mask, weights)
            (logits * torch.randn_like(logits)).sum().backward()
            tensors = [logits, *(p.grad for p in model.parameters() if p.grad is not None)]
            if not all(tensor.isfinite().all() for tensor in tensors):
                problems.append(f"{what}, {how} attention")
    return Check("rows that are wholly masked give finite logits and gradients", problems)
