"""Search by CTranslate2, in a folder that `translate.export` has written."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from translate.config import Config, load_config
from translate.data.encoding import TextSide, load_text
from translate.data.vocabulary import EOS, PAD, SOS
from translate.decoding.ctranslate2_model import check_expressible, import_ctranslate2
from translate.decoding.prediction import never_produced
from translate.decoding.request import Answer, Hypothesis, Request, length_penalty
from translate.errors import UserError
from translate.runs import Run, newest_checkpoint, pick_device

FOLDER = "ctranslate2"  # in a run folder
_PATIENCE = 2  # a beam ends when so many times its width have ended (Kasai et al. 2022)


class Exported(NamedTuple):
    """What a `Translator` needs, without a model of PyTorch's."""

    config: Config
    source: TextSide
    target: TextSide
    engine: "CTranslate2"


def find_exported(path: Path | None) -> Path:
    """A folder with an exported model: one named itself, a run's, or the newest run's."""
    folder = newest_checkpoint().parent if path is None else path
    for found in (folder, folder / FOLDER):
        if (found / "model.bin").exists():
            return found
    raise UserError(f"{folder}: no CTranslate2 model here (neither model.bin nor {FOLDER}/"
                    "model.bin);\nmake one of a run by `python -m translate.export RUN --to "
                    "ctranslate2`")


def load_exported(folder: Path, overrides: Sequence[str] = (), workers: int = 1) -> Exported:
    run = Run(folder)
    config = load_config(run.config, overrides)
    source, target = load_text(run.text, config.text.lowercase)
    return Exported(config, source, target, CTranslate2(folder, source, target, config, workers))


class CTranslate2:
    """Answers the requests of a `Translator`.

    Greedy search finds what ours finds. The beam is the library's: when a hypothesis ends, the next
    likeliest takes its place, which in ours stays empty for a step; and it stops when twice the
    beam have ended, where ours stops when nothing alive can win any more. Our score ranks what it
    finds, so that the two differ only where one has seen a hypothesis that the other has not. On
    1,000 sentences of Multi30k and 1,000 of the sample corpus, with a beam of 5 and a length
    penalty of 0, 0.6 or 1.0, the best ones were all the same, and of the lists of the five best
    85 and 93 in a hundred.
    """

    def __init__(
        self, folder: Path, source: TextSide, target: TextSide, config: Config, workers: int = 1
    ) -> None:
        check_expressible(config)
        self.positions = (sys.maxsize if config.model.positions == "relative"
                          else config.model.max_positions)  # tokens of any sequence, <eos> too
        self._source = source.vocabulary.tokens
        self._target = target.vocabulary.tokens
        self._ids = {token: i for i, token in enumerate(self._target)}
        self._decoding = decoding = config.decoding
        self._constrained = bool(decoding.forbid_unk or decoding.min_length
                                 or decoding.no_repeat_ngram)
        device = pick_device(config.device)
        library = import_ctranslate2()
        try:
            self._library = library.Translator(
                str(folder), device.type, device_index=device.index or 0, inter_threads=workers,
                intra_threads=torch.get_num_threads() if workers == 1 else 1)
        except (RuntimeError, ValueError, LookupError) as error:
            raise UserError(f"{folder}: CTranslate2 cannot load it: {error}") from None

    def __call__(self, requests: Iterable[Request]) -> Iterator[Answer]:
        # All are handed over before the first is waited for: the library's workers share them.
        for request, groups in [(request, self._start(request)) for request in requests]:
            answer: Answer = [[] for _ in request.sources]
            for limit, rows, results in groups:
                for row, result in zip(rows, results, strict=True):
                    answer[row] = self._hypotheses(request, row, limit, result.result())
            yield answer

    def _start(self, request: Request) -> list[tuple[int, list[int], list[Any]]]:
        """Limits, the rows that have them, and their results to come: a call has one limit."""
        if request.sampling:
            raise UserError("CTranslate2 draws tokens in its own way, and other ones for the same "
                            "seed; leave out --engine ctranslate2")
        rows_of: dict[int, list[int]] = {}
        for row, limit in enumerate(request.limits):
            rows_of.setdefault(limit, []).append(row)
        return [(limit, rows, self._search([request.sources[row] for row in rows], limit,
                                           request.beam, self._constrained))
                for limit, rows in rows_of.items()]

    def _search(
        self, sources: Sequence[Sequence[int]], limit: int, beam: int, forbid: bool
    ) -> list[Any]:
        decoding = self._decoding
        longest = max(limit - 1, 1)  # what has not ended then has <eos> put behind it
        results: list[Any] = self._library.translate_batch(
            [self._source_tokens(ids) for ids in sources],
            beam_size=beam,
            num_hypotheses=1 if beam == 1 else _PATIENCE * beam,
            patience=_PATIENCE,
            length_penalty=decoding.length_penalty,
            suppress_sequences=[[self._target[i]] for i in never_produced(decoding)]
            if forbid else None,
            no_repeat_ngram_size=decoding.no_repeat_ngram or 0,
            min_decoding_length=min(decoding.min_length, longest),
            max_decoding_length=longest,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )
        return results

    def _hypotheses(self, request: Request, row: int, limit: int, result: Any) -> list[Hypothesis]:
        """The `n_best` by our score.

        The library takes forbidden tokens out before the softmax and ours after it, so that its
        log-probabilities are higher. Therefore <pad> and <sos> are forbidden only where they have
        come up, and wherever its log-probabilities are not ours, as without <eos> at the limit,
        they are computed again.
        """
        source, alpha = request.sources[row], self._decoding.length_penalty
        pad, sos, eos = (self._target[i] for i in (PAD, SOS, EOS))
        again = any(pad in tokens or sos in tokens for tokens in result.hypotheses)
        if again:
            result = self._search([source], limit, request.beam, forbid=True)[0].result()
        if again or self._constrained or any(tokens[-1] != eos for tokens in result.hypotheses):
            found = self._score(source, dict.fromkeys(
                tuple(token for token in tokens if token != eos)[:limit - 1]
                for tokens in result.hypotheses))
        else:
            found = {tuple(tokens[:-1]): score * len(tokens) ** alpha for tokens, score in zip(
                result.hypotheses, result.scores, strict=True)}
        hypotheses = [Hypothesis([self._ids[token] for token in tokens], value,
                                 value / float(length_penalty(len(tokens) + 1, alpha)))
                      for tokens, value in found.items()]
        return sorted(hypotheses, key=lambda one: -one.score)[:request.n_best]

    def _score(
        self, source: Sequence[int], targets: Collection[tuple[str, ...]]
    ) -> dict[tuple[str, ...], float]:
        """Log-probabilities in nats, <eos> included."""
        results = self._library.score_batch(
            [self._source_tokens(source)] * len(targets), [list(tokens) for tokens in targets],
            max_input_length=0)
        return {tokens: sum(result.log_probs)
                for tokens, result in zip(targets, results, strict=True)}

    def _source_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._source[i] for i in ids]
