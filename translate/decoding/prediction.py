"""The next token's distribution: of one model or of several, without what must not be produced."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from translate.config import DecodingConfig
from translate.data.batching import causal_mask, pad, padding_mask, stack
from translate.data.vocabulary import EOS, PAD, SOS, UNK
from translate.model.attention import KeyValues, MultiHeadAttention
from translate.model.transformer import Transformer

_LEAVE = 0.95  # finished sentences leave the batch once less than this share of it is alive


class Prediction:
    """log p(y_t | y_<t, x) for the hypotheses of each sentence, side by side.

    Several models that share vocabularies are an ensemble: the mean of their probabilities. The
    keys and values of all that was fed are kept, and shared by the hypotheses of a sentence: each
    attends to its own past among them, so that nothing is copied when a beam changes. Sentences may
    join when others are under way; then theirs is the end of `tokens`, which is `<pad>` before.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        decoding: DecodingConfig,
    ) -> None:
        self.limits = np.array(limits)  # of each translation's length, <eos> included
        self.lengths = np.ones_like(self.limits)  # of each translation, with the token to come
        self._widths = np.array([len(ids) + 1 for ids in sources])
        self._models = models
        self._decoding = decoding
        src = pad(sources, [], [EOS]).to(next(models[0].parameters()).device)
        self.tokens = torch.full((len(src), 1, 1), SOS, device=src.device)  # of one hypothesis
        self._past = torch.zeros(len(src), 1, 0, dtype=torch.bool, device=src.device)
        self._src_mask = padding_mask(src)
        self._caches = [model.start_cache(model.encode(src, self._src_mask)) for model in models]
        self._never = torch.tensor(never_produced(decoding), device=src.device)

    def __call__(
        self, rows: Int[Tensor, " rows"] | None = None
    ) -> Float[Tensor, "rows vocabulary"]:
        """Log-probabilities in float32 of what follows `tokens`.

        `rows` are the hypotheses asked for, those of all sentences numbered one after the other;
        None is all of them. Where a translation has reached its limit, only `<eos>` may follow.
        """
        hypotheses, device = self.tokens.size(1), self.tokens.device
        itself = torch.eye(hypotheses, dtype=torch.bool, device=device)
        self._past = torch.cat([self._past, itself.expand(len(self._past), -1, -1)], dim=2)
        place = np.minimum(self.lengths, self.limits) - 1  # what has ended may be beyond its limit
        states = [model.decode(self.tokens[..., -1], None, self._src_mask, self._past[:, None],
                               cache, place=place)
                  for model, cache in zip(self._models, self._caches, strict=True)]

        def asked_for(x: Tensor) -> Tensor:
            return x.flatten(0, 1) if rows is None else x.flatten(0, 1)[rows]

        def asked_for_where(sentences: NDArray[np.bool_]) -> Tensor:
            return asked_for(torch.from_numpy(sentences).to(device)[:, None].expand(-1, hypotheses))

        step = _log_mean_probabilities([model.project(asked_for(x)) for model, x in zip(
            self._models, states, strict=True)])
        step.index_fill_(1, self._never, -torch.inf)
        at_limit = self.lengths == self.limits
        too_short = (self.lengths <= self._decoding.min_length) & (self.lengths < self.limits)
        if too_short.any():
            step[:, EOS].masked_fill_(asked_for_where(too_short), -torch.inf)
        if at_limit.any():
            others = torch.arange(step.size(1), device=device) != EOS
            step.masked_fill_(asked_for_where(at_limit)[:, None] & others, -torch.inf)
        if self._decoding.no_repeat_ngram:
            _forbid_repeats(step, asked_for(self.tokens), self._decoding.no_repeat_ngram)
        return step

    def extend(
        self,
        token: Int[Tensor, "batch hypotheses"],
        parent: Int[Tensor, "batch hypotheses"] | None = None,
    ) -> None:
        """Go on with these tokens, each behind the hypothesis that is its parent, or its own."""
        if parent is not None:
            self.tokens, self._past = take(self.tokens, parent), take(self._past, parent)
        self.tokens = torch.cat([self.tokens, token[..., None]], dim=2)
        self.lengths = self.lengths + 1

    def keep(self, rows: NDArray[np.int64]) -> Int[Tensor, " rows"]:
        """Go on with these sentences alone; those whose place does not change are not copied."""
        device = self.tokens.device
        moved = torch.from_numpy((rows != np.arange(len(rows))).nonzero()[0]).to(device)
        stay = torch.from_numpy(rows).to(device)
        self.limits, self.lengths, self._widths = (
            x[rows] for x in (self.limits, self.lengths, self._widths))
        self.tokens, self._past, self._src_mask = (
            x[stay] for x in (self.tokens, self._past, self._src_mask))
        unused = self.tokens.size(2) - int(self.lengths.max(initial=1))
        fed = sum(self._caches[0].fed[:unused])
        self.tokens, self._past = self.tokens[..., unused:], self._past[..., fed:]
        for cache in self._caches:
            cache.select(stay, moved)
            cache.forget(unused)
        return stay

    def join(self, other: "Prediction") -> None:
        """Go on with the sentences of the other, too."""
        self.limits, self.lengths, self._widths = (
            np.concatenate(pair) for pair in ((self.limits, other.limits),
                                              (self.lengths, other.lengths),
                                              (self._widths, other._widths)))
        source = int(self._widths.max())
        self.tokens = stack(self.tokens, other.tokens, behind=False, fill=PAD)
        self._past = stack(self._past, other._past, behind=False)
        self._src_mask = stack(self._src_mask, other._src_mask)[..., :source]
        for ours, theirs in zip(self._caches, other._caches, strict=True):
            ours.join(theirs, source)


def never_produced(decoding: DecodingConfig) -> list[int]:
    return [PAD, SOS, UNK] if decoding.forbid_unk else [PAD, SOS]


@torch.inference_mode()
def forced_log_probabilities(
    models: Sequence[Transformer],
    src: Int[Tensor, "batch source"],
    targets: Sequence[Sequence[int]],
) -> list[float]:
    """log p(y | x) in nats of given translations (ids without `<sos>` and `<eos>`)."""
    tgt_in, tgt_out = pad(targets, [SOS], []).to(src.device), pad(targets, [], [EOS]).to(src.device)
    mask = causal_mask(tgt_in.size(1), src.device)[None, None]
    step = _log_mean_probabilities([model(src, tgt_in, padding_mask(src), mask)
                                    for model in models])
    chosen = step.gather(-1, tgt_out[..., None])[..., 0]
    return chosen.masked_fill(tgt_out == PAD, 0.0).sum(dim=1).tolist()


@contextmanager
def laid_out(models: Sequence[Transformer]) -> Iterator[None]:
    """On a CPU, matrices laid out once, as its kernels want them, instead of in every step.

    The three of self-attention, which are multiplied with the same, become one.
    """
    layers = {layer for model in models for layer in model.modules()
              if isinstance(layer, nn.Linear) and _gains(layer.weight)}
    attentions = {layer.self_attention for model in models for layer in
                  (*model.encoder, *model.decoder) if layer.self_attention.w_q in layers}
    try:
        for layer in layers:
            layer.forward = _packed(layer.weight, layer.bias)  # type: ignore[assignment]
        for attention in attentions:
            attention.queries_keys_values = _packed_together(attention)
        yield
    finally:  # another search of the model may have ended first
        for layer in layers:
            vars(layer).pop("forward", None)
        for attention in attentions:
            vars(attention).pop("queries_keys_values", None)


def _gains(weight: Tensor) -> bool:
    return (weight.device.type == "cpu" and weight.dtype == torch.float32
            and weight.numel() >= 2**14 and not torch.is_autocast_enabled("cpu")
            and torch.backends.mkldnn.is_available())


def _packed(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    kernels, bias = torch.ops.mkldnn, None if bias is None else bias.detach()
    packed = kernels._reorder_linear_weight(weight.detach(), None)
    return lambda x: kernels._linear_pointwise(x, packed, bias, "none", [], "")


def _packed_together(
    attention: MultiHeadAttention
) -> Callable[[Tensor], tuple[Tensor, KeyValues]]:
    product = _packed(torch.cat([attention.w_q.weight, attention.w_k.weight, attention.w_v.weight]))

    def queries_keys_values(x: Tensor) -> tuple[Tensor, KeyValues]:
        q, k, v = product(x).unflatten(-1, (3, attention.heads, -1)).permute(2, 0, 3, 1, 4)
        return q, KeyValues(k, v)

    return queries_keys_values


def staying(live: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """The live rows, the last of them in the places of those that leave: few have to move.

    None while so few have ended that all stay.
    """
    alive = int(live.sum())
    if alive >= _LEAVE * len(live):
        return None
    order = np.arange(alive)
    order[~live[:alive]] = alive + live[alive:].nonzero()[0]
    return order


def take(
    x: Shaped[Tensor, "batch beam width"], index: Int[Tensor, "batch chosen"]
) -> Shaped[Tensor, "batch chosen width"]:
    """Of each sentence, the hypotheses named."""
    return x.gather(1, index[..., None].expand(-1, -1, x.size(2)))


def _log_mean_probabilities(
    logits: Sequence[Float[Tensor, "*batch vocabulary"]]
) -> Float[Tensor, "*batch vocabulary"]:
    if len(logits) == 1:
        return logits[0].float().log_softmax(dim=-1)
    return torch.stack(list(logits)).float().softmax(dim=-1).mean(dim=0).log()


def _forbid_repeats(
    step: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows length"], n: int
) -> None:
    """Take out every token that would complete an n-gram which `tokens` hold already.

    They may hold `<pad>` and `<sos>` in front, once, so that no n-gram with these comes again.
    """
    length = tokens.size(1)
    if length < n:
        return
    ngrams = tokens.unfold(1, n, 1)
    begun = tokens[:, None, length - n + 1:]
    repeated = (ngrams[..., :-1] == begun).all(dim=-1)
    step.scatter_(1, ngrams[..., -1].where(repeated, PAD), -torch.inf)
