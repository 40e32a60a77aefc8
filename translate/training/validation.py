"""How good the model is on the validation split: loss a token, and BLEU of greedy translations."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from translate.config import Config
from translate.data.batching import TokenBatchSampler, make_batch
from translate.data.encoding import EncodedCorpus
from translate.decoding.scores import Score, bleu
from translate.decoding.translator import Attention, Translator
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.training.loss import LabelSmoothingLoss, batch_loss
from translate.training.precision import autocast

_DRAWN = 500  # characters of a sentence whose attention can still be seen


class ParallelText(NamedTuple):
    """Validation lines as they are on disk: the references are raw."""

    source: Sequence[str]
    reference: Sequence[str]


class Validation(NamedTuple):
    loss: float  # smoothed, nats a token
    perplexity: float  # of the correct tokens
    bleu: Score
    hypotheses: list[str]
    attention: Attention  # of the first sentence that can be drawn

    def metric(self, name: str) -> float:
        """What early stopping watches; higher is better."""
        return self.bleu.value if name == "bleu" else -self.loss


def validate(
    model: Transformer,
    criterion: LabelSmoothingLoss,
    config: Config,
    corpus: EncodedCorpus,
    text: ParallelText,
    dtype: torch.dtype,
) -> Validation:
    """Leaves the model in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    smoothed = nll = 0.0
    tokens = 0
    with torch.inference_mode(), autocast(device, dtype):
        sampler = TokenBatchSampler(corpus.validation, config.training.batch_tokens, seed=0)
        for rows in sampler.in_order():
            batch = make_batch(corpus.validation, rows)
            loss = batch_loss(model, criterion, batch.to(device))
            smoothed, nll = smoothed + loss.smoothed.item(), nll + loss.nll.item()
            tokens += batch.tokens
        translator = Translator([model], corpus.source, corpus.target, config)
        translations = [best[0] for best in translator.translate(text.source, beam=1)]
        shown = next((n for n, line in enumerate(text.source)
                      if len(line) < _DRAWN and translations[n].tokens), 0)
        attention = translator.attention(text.source[shown], translations[shown].tokens)
    hypotheses = [translation.text for translation in translations]
    return Validation(smoothed / tokens, perplexity(nll / tokens), bleu(hypotheses, text.reference),
                      hypotheses, attention)


def check_positions(config: Config, corpus: EncodedCorpus) -> None:
    """Validation pairs are never dropped, so a learned table must be long enough for them."""
    longest = int(max(side.lengths.max() for side in
                      (corpus.validation.source, corpus.validation.target))) + 1
    if config.model.positions == "learned" and longest > config.model.max_positions:
        raise UserError(f"model.max_positions={config.model.max_positions} is less than the "
                        f"longest validation sentence with <eos>, {longest} tokens; raise it")


def perplexity(nll: float) -> float:
    return math.exp(min(nll, 700.0))  # beyond, a float overflows
