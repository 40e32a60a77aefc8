"""Text in, text out: the one way from a sentence to its translation, for every command."""

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.batching import causal_mask, pad, padding_mask
from translate.data.encoding import TextSide
from translate.data.lines import tidy
from translate.data.text import MARK
from translate.data.vocabulary import EOS, SOS, UNK
from translate.decoding.search import Hypothesis, beam_search, greedy_search
from translate.model.layers import Weights
from translate.model.positions import LearnedPositions
from translate.model.transformer import Transformer


class Translation(NamedTuple):
    text: str
    score: float  # log-probability in nats over the length penalty
    tokens: list[str]


class Translator:
    """Translates lines with one model; line i of the result belongs to line i of the input."""

    def __init__(
        self, model: Transformer, source: TextSide, target: TextSide, decoding: DecodingConfig
    ) -> None:
        self._model = model
        self._source = source
        self._target = target
        self._decoding = decoding
        self._device = next(model.parameters()).device
        positions = model.source_positions
        self._longest = (len(positions.table) if isinstance(positions, LearnedPositions)
                         else sys.maxsize)  # tokens of a sequence

    def translate(
        self, lines: Sequence[str], beam: int | None = None, n_best: int = 1
    ) -> list[list[Translation]]:
        """The `n_best` translations of each line, the best first; of an empty line, an empty one.

        `beam` replaces the config's; 1 is greedy search.
        """
        beam = max(beam or self._decoding.beam, n_best)
        sources = [self._source.vocabulary.ids(self._split(line)) for line in lines]
        results = [[Translation("", 0.0, [])] for _ in lines]
        was_training = self._model.training
        self._model.eval()
        for rows in self._batches([len(ids) for ids in sources], beam):
            found = self._search([sources[row] for row in rows], beam, n_best)
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = [self._translation(h) for h in hypotheses]
        self._model.train(was_training)
        return results

    def translate_best(self, lines: Sequence[str], beam: int | None = None) -> list[str]:
        return [translations[0].text for translations in self.translate(lines, beam)]

    @torch.inference_mode()
    def attention(self, line: str, tokens: Sequence[str]) -> "Attention":
        """What the decoder attends to in `line` while it writes `tokens` and `<eos>`."""
        source_tokens = self._split(line)
        src = self._source_ids([self._source.vocabulary.ids(source_tokens)])
        tgt = pad([np.array(self._target.vocabulary.ids(tokens), np.int32)], [SOS], [])
        weights = Weights()
        was_training = self._model.training
        self._model.eval()
        self._model(src, tgt.to(self._device), padding_mask(src),
                    causal_mask(tgt.size(1), self._device)[None, None], weights)
        self._model.train(was_training)
        return Attention([*source_tokens, "<eos>"], [*tokens, "<eos>"],
                         torch.cat(weights.cross).cpu())

    def _split(self, line: str) -> list[str]:
        """Typed or pasted text is tidied as the training text was."""
        tokens = self._source.pipeline.split(tidy(line))
        if len(tokens) >= self._longest:
            print(f"warning: of a line of {len(tokens):,} tokens only the first are translated: "
                  f"this model has learned {self._longest:,} positions", file=sys.stderr)
        return tokens[:self._longest - 1]  # and <eos>

    def _batches(self, lengths: list[int], beam: int) -> Iterator[list[int]]:
        """Rows of lines that are not empty, the longest first, within the token budget."""
        rows = sorted((row for row, n in enumerate(lengths) if n), key=lambda row: -lengths[row])
        while rows:
            size = max(1, self._decoding.batch_tokens // ((lengths[rows[0]] + 1) * beam))
            yield rows[:size]
            rows = rows[size:]

    def _search(
        self, sources: list[list[int]], beam: int, n_best: int
    ) -> list[list[Hypothesis]]:
        src = self._source_ids(sources)
        mask = padding_mask(src)
        decoding = self._decoding
        limits = torch.tensor([int(decoding.max_length_factor * len(ids))
                               + decoding.max_length_extra for ids in sources],
                              device=self._device).clamp(max=self._longest)
        alpha = decoding.length_penalty
        if beam == 1:
            return [[h] for h in greedy_search(self._model, src, mask, limits, alpha)]
        return beam_search(self._model, src, mask, limits, beam, alpha, n_best)

    def _source_ids(self, sources: list[list[int]]) -> Tensor:
        return pad([np.array(ids, np.int32) for ids in sources], [], [EOS]).to(self._device)

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        vocabulary = self._target.vocabulary.tokens
        tokens = [MARK + vocabulary[i] if i == UNK else vocabulary[i] for i in hypothesis.tokens]
        # Tidied, or a model that writes the byte of a line break would shift all lines after it.
        return Translation(tidy(self._target.pipeline.join(tokens)), hypothesis.score, tokens)


class Attention(NamedTuple):
    """Cross-attention of one sentence, with the tokens on its axes."""

    source: list[str]
    target: list[str]
    weights: Float[Tensor, "layers heads target source"]
