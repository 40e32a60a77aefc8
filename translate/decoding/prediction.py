"""The next token's distribution: of one model or of several, without what must not be produced."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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
        self._never = never_produced(decoding)
        self._src_mask = padding_mask(src)
        self._projections = [_projection(model) for model in models]
        self._memories = [model.encode(src, self._src_mask) for model in models]
        self._caches = [model.start_cache(memory)
                        for model, memory in zip(models, self._memories, strict=True)]

    def __call__(
        self,
        tokens: Int[Tensor, "batch beam length"],
        past: Bool[Tensor, "batch beam fed"] | None = None,
    ) -> Float[Tensor, "batch beam vocabulary"]:
        """Log-probabilities in float32 of what follows `tokens`, `<sos>` first.

        Only the last token is new to the models. Of all that were fed so far, (length × beam) for
        a sentence in the order of the steps, `past` says which belong to a hypothesis; with one
        hypothesis all do.
        """
        mask = None if past is None else past[:, None]
        logits = [project(model.decode(tokens[..., -1], memory, self._src_mask, mask, cache))
                  for model, project, memory, cache in zip(
                      self._models, self._projections, self._memories, self._caches, strict=True)]
        step = _log_mean_probabilities(logits)
        step[..., self._never] = -torch.inf
        length = tokens.size(2)  # of the translation, with the token to come
        if length <= self._decoding.min_length:
            step[..., EOS].masked_fill_((self.limits > length)[:, None], -torch.inf)
        if self._decoding.no_repeat_ngram:
            _forbid_repeats(step, tokens[..., 1:], self._decoding.no_repeat_ngram)
        return step

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Go on with these sentences alone."""
        self.limits, self._src_mask = self.limits[rows], self._src_mask[rows]
        self._memories = [memory[rows] for memory in self._memories]
        for cache in self._caches:
            for layer in cache:
                layer.select(rows)


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


def _projection(model: Transformer) -> Callable[[Tensor], Tensor]:
    """`model.project`; on a CPU with a large matrix laid out once, as its kernels want it, instead
    of in every step."""
    weight = model.output.weight
    if (weight.device.type != "cpu" or weight.dtype != torch.float32 or weight.numel() < 2**20
            or torch.is_autocast_enabled("cpu") or not torch.backends.mkldnn.is_available()):
        return model.project
    kernels = torch.ops.mkldnn
    packed = kernels._reorder_linear_weight(weight.detach(), None)
    return lambda states: kernels._linear_pointwise(states, packed, None, "none", [], "")


def _log_mean_probabilities(
    logits: Sequence[Float[Tensor, "*batch vocabulary"]]
) -> Float[Tensor, "*batch vocabulary"]:
    if len(logits) == 1:
        return logits[0].float().log_softmax(dim=-1)
    return torch.stack(list(logits)).float().softmax(dim=-1).mean(dim=0).log()


def _forbid_repeats(
    step: Float[Tensor, "batch beam vocabulary"], tokens: Int[Tensor, "batch beam length"], n: int
) -> None:
    """Take out every token that would complete an n-gram which `tokens` hold already."""
    length = tokens.size(2)
    if length < n:
        return
    ngrams = tokens.unfold(2, n, 1)
    begun = tokens[..., None, length - n + 1:]
    repeated = (ngrams[..., :-1] == begun).all(dim=-1)
    step.scatter_(2, ngrams[..., -1].where(repeated, PAD), -torch.inf)
