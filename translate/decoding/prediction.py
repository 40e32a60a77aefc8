"""The next token's distribution: of one model or of several, without what must not be produced."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from translate.config import DecodingConfig
from translate.data.batching import causal_mask, pad, padding_mask
from translate.data.vocabulary import EOS, PAD, SOS, UNK
from translate.model.transformer import Transformer


class Prediction:
    """log p(y_t | y_<t, x) for the hypotheses of each sentence, side by side.

    Several models that share vocabularies are an ensemble: the mean of their probabilities. The
    keys and values of all that was fed are kept, and shared by the hypotheses of a sentence: each
    attends to its own past among them, so that nothing is copied when a beam changes.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        src: Int[Tensor, "batch source"],
        limits: Int[Tensor, " batch"],
        decoding: DecodingConfig,
    ) -> None:
        self.limits = limits  # tokens of a translation, <eos> included
        self._models = models
        self._decoding = decoding
        self._never = torch.tensor(never_produced(decoding), device=src.device)
        self._src_mask = padding_mask(src)
        self._memories = [model.encode(src, self._src_mask) for model in models]
        self._caches = [model.start_cache(memory)
                        for model, memory in zip(models, self._memories, strict=True)]

    def __call__(
        self,
        tokens: Int[Tensor, "batch beam length"],
        past: Bool[Tensor, "batch beam fed"] | None = None,
        rows: Int[Tensor, " rows"] | None = None,
    ) -> Float[Tensor, "rows vocabulary"]:
        """Log-probabilities in float32 of what follows `tokens`, `<sos>` first.

        Only the last token is new to the models. Of all that were fed so far for a sentence, step
        by step and in a step those of all hypotheses, `past` says which belong to a hypothesis;
        with one hypothesis all do. `rows` are the hypotheses asked for, those of all sentences
        numbered one after the other; None is all of them.
        """
        mask = None if past is None else past[:, None]
        states = [model.decode(tokens[..., -1], memory, self._src_mask, mask, cache)
                  for model, memory, cache in zip(
                      self._models, self._memories, self._caches, strict=True)]

        def asked_for(x: Tensor) -> Tensor:
            return x.flatten(0, 1) if rows is None else x.flatten(0, 1)[rows]

        step = _log_mean_probabilities([model.project(asked_for(x)) for model, x in zip(
            self._models, states, strict=True)])
        step.index_fill_(1, self._never, -torch.inf)
        length = tokens.size(2)  # of the translation, with the token to come
        if length <= self._decoding.min_length:
            limits = asked_for(self.limits[:, None].expand(-1, tokens.size(1)))
            step[:, EOS].masked_fill_(limits > length, -torch.inf)
        if self._decoding.no_repeat_ngram:
            _forbid_repeats(step, asked_for(tokens)[:, 1:], self._decoding.no_repeat_ngram)
        return step

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Go on with these sentences alone; those whose place does not change are not copied."""
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        self.limits, self._src_mask = self.limits[rows], self._src_mask[rows]
        self._memories = [memory[rows] for memory in self._memories]
        for cache in self._caches:
            for layer in cache:
                layer.select(rows, moved)


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
    """On a CPU, matrices laid out once, as its kernels want them, instead of in every step."""
    layers = {layer for model in models for layer in model.modules()
              if isinstance(layer, nn.Linear) and _gains(layer.weight)}
    try:
        for layer in layers:
            layer.forward = _packed(layer)  # type: ignore[assignment]
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)  # another search of the model may have ended first


def _gains(weight: Tensor) -> bool:
    return (weight.device.type == "cpu" and weight.dtype == torch.float32
            and weight.numel() >= 2**14 and not torch.is_autocast_enabled("cpu")
            and torch.backends.mkldnn.is_available())


def _packed(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    kernels, bias = torch.ops.mkldnn, None if layer.bias is None else layer.bias.detach()
    packed = kernels._reorder_linear_weight(layer.weight.detach(), None)
    return lambda x: kernels._linear_pointwise(x, packed, bias, "none", [], "")


def _log_mean_probabilities(
    logits: Sequence[Float[Tensor, "*batch vocabulary"]]
) -> Float[Tensor, "*batch vocabulary"]:
    if len(logits) == 1:
        return logits[0].float().log_softmax(dim=-1)
    return torch.stack(list(logits)).float().softmax(dim=-1).mean(dim=0).log()


def _forbid_repeats(
    step: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows length"], n: int
) -> None:
    """Take out every token that would complete an n-gram which `tokens` hold already."""
    length = tokens.size(1)
    if length < n:
        return
    ngrams = tokens.unfold(1, n, 1)
    begun = tokens[:, None, length - n + 1:]
    repeated = (ngrams[..., :-1] == begun).all(dim=-1)
    step.scatter_(1, ngrams[..., -1].where(repeated, PAD), -torch.inf)
