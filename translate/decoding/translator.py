"""Text in, text out: the one way from a sentence to its translation, for every command."""

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.config import Config
from translate.data.batching import causal_mask, pad, padding_mask
from translate.data.encoding import TextSide
from translate.data.lines import tidy
from translate.data.text import MARK
from translate.data.vocabulary import EOS, SOS, UNK
from translate.decoding.prediction import forced_log_probabilities
from translate.decoding.request import Answer, Hypothesis, Request, length_penalty
from translate.decoding.sampling import Sampling
from translate.decoding.search import requests_at_a_time, search
from translate.model.layers import Weights
from translate.model.positions import LearnedPositions
from translate.model.transformer import Transformer

# What answers requests, in their order: models here, worker processes, or another engine.
Search = Callable[[Iterable[Request]], Iterable[Answer]]

_WORTH_A_SHARE = 256  # tokens of a batch, below which it is not divided among threads
_FULL = 1024  # tokens of a batch, above which a larger one is hardly faster


class Translation(NamedTuple):
    """`tokens` are as the model wrote them, without `<eos>`.

    A line that was translated in parts has the sums of their scores and log-probabilities.
    """

    text: str
    score: float  # log-probability over the length penalty
    log_probability: float  # nats; counts <eos>
    tokens: list[str]
    cut: bool  # it ended because it had reached the longest length allowed


class Attention(NamedTuple):
    """Of one sentence, by layer and head; row t of `decoder` and `cross` is what the decoder
    attended to when it wrote target token t. The keys of `decoder` are `<sos>`, then the target."""

    source: list[str]
    target: list[str]
    encoder: Float[Tensor, "layers heads source source"]
    decoder: Float[Tensor, "layers heads target target"]
    cross: Float[Tensor, "layers heads target source"]


class Translator:
    """Translates lines; line i of the result belongs to line i of the input.

    Several models are an ensemble; they share the vocabularies. `at_a_time` is how many requests
    `answer` works at.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        source: TextSide,
        target: TextSide,
        config: Config,
        answer: Search | None = None,
        positions: int = sys.maxsize,
        at_a_time: int = 1,
    ) -> None:
        self._models = models
        self._source = source
        self._target = target
        self._decoding = config.decoding
        self._answer = answer or partial(search, models, config.decoding)
        self._at_a_time = at_a_time if answer else requests_at_a_time(models)
        tables = [len(model.source_positions.table) for model in models
                  if isinstance(model.source_positions, LearnedPositions)]
        self._positions = min([positions, *tables])  # tokens of any sequence, <eos> too
        self._longest = min(config.data.max_length, self._positions - 1)

    def translate(
        self,
        lines: Sequence[str],
        beam: int | None = None,
        n_best: int = 1,
        sampling: Sampling | None = None,
    ) -> list[list[Translation]]:
        """Up to `n_best` translations of each line that differ, the best first; of an empty line
        an empty one.

        `beam` replaces the config's; 1 is greedy search. Sampling draws one translation.
        """
        beam = max(beam or self._decoding.beam, n_best)
        parts = [self._parts(line, number) for number, line in enumerate(lines, start=1)]
        flat = [part for of_line in parts for part in of_line]
        found = iter(self._translate_parts(flat, beam, n_best, sampling))
        return [_joined([next(found) for _ in of_line]) for of_line in parts]

    def translate_best(self, lines: Sequence[str], beam: int | None = None) -> list[str]:
        return [translations[0].text for translations in self.translate(lines, beam)]

    def score(
        self, lines: Sequence[str], translations: Sequence[str | Sequence[str]]
    ) -> list[Translation]:
        """Given translations, text or tokens, with the log-probability that the model gives them.

        A text becomes the tokens that it would have in training; a model may have written the same
        text with others. No line is cut into parts.
        """
        sources = [self._source.vocabulary.ids(self._split(line)[:self._positions - 1])
                   for line in lines]
        results: list[Translation] = [Translation("", 0.0, 0.0, [], False)] * len(lines)
        tokens = [self._target.pipeline.split(tidy(one)) if isinstance(one, str) else list(one)
                  for one in translations]
        lengths = [max(len(ids), len(of_line))
                   for ids, of_line in zip(sources, tokens, strict=True)]
        for rows in batches(lengths, self._decoding.batch_tokens):
            targets = [self._target.vocabulary.ids(tokens[row]) for row in rows]
            with _evaluating(self._models):
                found = forced_log_probabilities(
                    self._models, self._ids([sources[row] for row in rows]), targets)
            for row, ids, value in zip(rows, targets, found, strict=True):
                penalty = length_penalty(len(ids) + 1, self._decoding.length_penalty)
                results[row] = Translation(self._text(tokens[row]), value / float(penalty), value,
                                           tokens[row], False)
        return results

    def attention(self, line: str, tokens: Sequence[str]) -> Attention:
        """What the first model attends to in `line` while it writes `tokens` and `<eos>`."""
        return self._attend(self._split(line)[:self._positions - 1], tokens)

    @torch.inference_mode()
    def _attend(self, source: Sequence[str], tokens: Sequence[str]) -> Attention:
        src = self._ids([self._source.vocabulary.ids(source)])
        tgt = pad([self._target.vocabulary.ids(tokens)], [SOS], []).to(src.device)
        weights = Weights()
        with _evaluating(self._models[:1]):
            self._models[0](src, tgt, padding_mask(src),
                            causal_mask(tgt.size(1), src.device)[None, None], weights)
        return Attention([*source, "<eos>"], [*tokens, "<eos>"],
                         *(torch.cat(kind).cpu() for kind in
                           (weights.encoder, weights.decoder, weights.cross)))

    def _split(self, line: str) -> list[str]:
        """Typed or pasted text is tidied as the training text was."""
        return self._source.pipeline.split(tidy(line))

    def _parts(self, line: str, number: int) -> list[list[str]]:
        """The tokens of a line; of one longer than the model was trained on, in parts that end
        where sentences do."""
        tokens = self._split(line)
        if len(tokens) <= self._longest:
            return [tokens] if tokens else []
        parts: list[list[str]] = []
        for sentence in self._source.pipeline.sentences(tidy(line)):
            cut = self._source.pipeline.split(sentence)
            if parts and len(parts[-1]) + len(cut) <= self._longest:
                parts[-1] += cut
            else:
                parts.append(cut[:self._longest])
        lost = len(tokens) - sum(map(len, parts))
        print(f"warning: line {number} has {len(tokens):,} tokens, more than the {self._longest:,} "
              f"that this model was trained for: it is translated in {len(parts)} parts, cut "
              "between sentences"
              + (f"; {lost:,} tokens at the ends of longer sentences are left out" if lost else ""),
              file=sys.stderr)
        return parts

    def _translate_parts(
        self, parts: Sequence[Sequence[str]], beam: int, n_best: int, sampling: Sampling | None
    ) -> list[list[Translation]]:
        sources = [self._source.vocabulary.ids(part) for part in parts]
        limits = [min(self._decoding.limit(len(ids)), self._positions) for ids in sources]
        of_rows = batches([len(ids) for ids in sources], self._decoding.batch_tokens // beam,
                          self._at_a_time)
        requests = (Request([sources[i] for i in rows], [limits[i] for i in rows], beam, n_best,
                            sampling) for rows in of_rows)
        results: list[list[Translation]] = [[] for _ in parts]
        with _evaluating(self._models):
            for rows, answer in zip(of_rows, self._answer(requests), strict=True):
                for row, hypotheses in zip(rows, answer, strict=True):
                    results[row] = [self._translation(parts[row], limits[row], hypothesis)
                                    for hypothesis in hypotheses]
        return results

    def _ids(self, sources: Sequence[Sequence[int]]) -> Tensor:
        return pad(sources, [], [EOS]).to(next(self._models[0].parameters()).device)

    def _translation(
        self, source: Sequence[str], limit: int, hypothesis: Hypothesis
    ) -> Translation:
        vocabulary = self._target.vocabulary.tokens
        tokens = [MARK + vocabulary[i] if i == UNK else vocabulary[i] for i in hypothesis.tokens]
        shown = tokens
        if self._decoding.replace_unk and UNK in hypothesis.tokens:
            last = self._attend(source, tokens).cross[-1, ..., :-1].mean(dim=0)  # <eos> is no word
            pointed = last.argmax(dim=-1).tolist()
            shown = [MARK + source[pointed[n]].removeprefix(MARK) if i == UNK else tokens[n]
                     for n, i in enumerate(hypothesis.tokens)]
        return Translation(self._text(shown), hypothesis.score, hypothesis.log_probability, tokens,
                           cut=len(tokens) + 1 >= limit)

    def _text(self, tokens: Sequence[str]) -> str:
        # Tidied, or a model that writes the byte of a line break would shift all lines after it.
        return tidy(self._target.pipeline.join(tokens))


def batches(lengths: Sequence[int], budget: int, at_a_time: int = 1) -> list[list[int]]:
    """Rows of some length, the longest first: sentences × longest source, `<eos>` counted, are at
    most `budget` tokens.

    Where several are worked at, there are about as many for each: 3 batches would keep the second
    of 2 threads waiting, so there are 4 smaller ones. Each gets two at least, if these are full, so
    that a slower one may do less.
    """
    rows = sorted((row for row, n in enumerate(lengths) if n), key=lambda row: -lengths[row])

    def divided(budget: int) -> list[list[int]]:
        parts, start = [], 0
        while start < len(rows):
            size = max(1, budget // (lengths[rows[start]] + 1))
            parts.append(rows[start:start + size])
            start += size
        return parts

    parts = divided(budget)
    each = 2 if sum(lengths) >= 2 * at_a_time * _FULL else 1
    even = max(each, -(-len(parts) // at_a_time)) * at_a_time
    if at_a_time == 1 or len(parts) == even:
        return parts
    least = min(budget, _WORTH_A_SHARE)
    return divided(bisect_left(range(budget), -even, lo=least, key=lambda n: -len(divided(n))))


def _joined(parts: Sequence[Sequence[Translation]]) -> list[Translation]:
    """The n-th translation of a line from the n-th ones of its parts, none with the same text."""
    if not parts:
        return [Translation("", 0.0, 0.0, [], False)]
    distinct: dict[str, Translation] = {}
    for of_rank in zip(*parts, strict=False):
        whole = Translation(" ".join(part.text for part in of_rank if part.text),
                            sum(part.score for part in of_rank),
                            sum(part.log_probability for part in of_rank),
                            [token for part in of_rank for token in part.tokens],
                            any(part.cut for part in of_rank))
        distinct.setdefault(whole.text, whole)
    return list(distinct.values())


@contextmanager
def _evaluating(models: Sequence[Transformer]) -> Iterator[None]:
    """Without dropout, for a while."""
    before = [model.training for model in models]
    for model in models:
        model.eval()
    yield
    for model, training in zip(models, before, strict=True):
        model.train(training)
