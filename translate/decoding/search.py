"""From a source sentence to target tokens: greedy search, sampling and beam search."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.batching import pad
from translate.data.vocabulary import EOS, PAD, SOS
from translate.decoding.prediction import Prediction, laid_out
from translate.decoding.sampling import Sampling, draw, uniform_numbers
from translate.model.transformer import Transformer

_LEAVE = 0.95  # finished sentences leave the batch once less than this share of it is alive


class Hypothesis(NamedTuple):
    """Target ids without `<sos>` and `<eos>`; the log-probability counts `<eos>`."""

    tokens: list[int]
    log_probability: float  # nats, summed in float32
    score: float  # log_probability / length penalty


class Request(NamedTuple):
    """Sentences to be searched together; ids without `<eos>`."""

    sources: list[list[int]]
    limits: list[int]  # of each translation's length, <eos> included
    beam: int
    n_best: int = 1
    sampling: Sampling | None = None


def search(
    models: Sequence[Transformer], decoding: DecodingConfig, requests: Iterable[Request]
) -> Iterator[list[list[Hypothesis]]]:
    """Of each request the hypotheses of each sentence, the best first.

    On a CPU each thread takes a request of its own: more threads gain little for small matrices.
    """
    answer = partial(_answer, models, decoding)
    with laid_out(models), _one_request_a_thread(models) as threads:
        yield from threads.map(answer, requests) if threads else map(answer, requests)


def requests_at_a_time(models: Sequence[Transformer]) -> int:
    """One on a GPU, and under autocast, which other threads do not know of."""
    on_cpu = next(models[0].parameters()).device.type == "cpu"
    return torch.get_num_threads() if on_cpu and not torch.is_autocast_enabled("cpu") else 1


@contextmanager
def _one_request_a_thread(models: Sequence[Transformer]) -> Iterator[ThreadPoolExecutor | None]:
    number = requests_at_a_time(models)
    if number == 1:
        yield None
        return
    pool = ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(number)


def _answer(
    models: Sequence[Transformer], decoding: DecodingConfig, request: Request
) -> list[list[Hypothesis]]:
    device = next(models[0].parameters()).device
    src = pad(request.sources, [], [EOS]).to(device)
    limits = torch.tensor(request.limits, device=device)
    if request.sampling or request.beam == 1:
        return [[one] for one in greedy_search(models, src, limits, decoding, request.sampling)]
    return beam_search(models, src, limits, decoding, request.beam, request.n_best)


def length_penalty(length: Tensor | int, alpha: float) -> Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); |Y| counts `<eos>`."""
    return ((5.0 + torch.as_tensor(length)) / 6.0) ** alpha


@torch.inference_mode()
def greedy_search(
    models: Sequence[Transformer],
    src: Int[Tensor, "batch source"],
    limits: Int[Tensor, " batch"],
    decoding: DecodingConfig,
    sampling: Sampling | None = None,
) -> list[Hypothesis]:
    """The likeliest token at every step, or one drawn, until `<eos>` or `limits` tokens with it.

    The length penalty changes the scores alone.
    """
    predict = Prediction(models, src, limits, decoding)
    batch, width, device = len(src), int(limits.max()), src.device
    uniform = uniform_numbers(sampling.seed, src, width) if sampling else None
    tokens = torch.full((batch, width + 1), SOS, device=device)
    log_probability = torch.zeros(batch, device=device)
    rows = torch.arange(batch, device=device)  # which sentence each row of the search is
    live = torch.ones(batch, dtype=torch.bool, device=device)
    for length in range(1, width + 1):
        step = predict(tokens[rows, None, :length])
        if sampling is None or uniform is None:
            best, token = _topk(step, 1)
        else:
            best, token = draw(step, uniform[rows, length - 1], sampling)
        at_limit = (predict.limits == length)[:, None]
        token = token.masked_fill(at_limit, EOS)[:, 0]
        best = torch.where(at_limit, step[:, [EOS]], best)[:, 0]
        tokens[rows, length] = token
        log_probability[rows] += best * live
        live = live & (token != EOS)
        order = _staying(live.cpu().numpy())  # the one time that the device is waited for
        if order is not None:
            if len(order) == 0:
                break
            stay = torch.from_numpy(order).to(device)
            rows, live = rows[stay], live[stay]
            predict.keep(stay)
    lengths = (tokens == EOS).long().argmax(dim=1)  # with <eos>, without <sos>
    scores = log_probability / length_penalty(lengths, decoding.length_penalty)
    return [Hypothesis(row[1:length], total, score) for row, length, total, score in zip(
        tokens.tolist(), lengths.tolist(), log_probability.tolist(), scores.tolist(), strict=True)]


@torch.inference_mode()
def beam_search(
    models: Sequence[Transformer],
    src: Int[Tensor, "batch source"],
    limits: Int[Tensor, " batch"],
    decoding: DecodingConfig,
    beam: int,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses with the highest score found by a beam, the best first.

    A step keeps the `beam` likeliest continuations; those that end in `<eos>` go to the finished
    ones. A hypothesis is given up when it can't score higher than the n-th finished one of its
    sentence: log-probabilities only fall, so it scores at best its log-probability over the penalty
    of the longest length allowed. Nothing is lost: what is not given up has a higher
    log-probability than all that could follow what is, and would be chosen before it. A sentence
    is done when nothing is left of it.
    """
    predict = Prediction(models, src, limits, decoding)
    batch, width, device = len(src), int(limits.max()), src.device
    alpha = decoding.length_penalty

    done: list[list[Hypothesis]] = [[] for _ in range(batch)]
    sentence = torch.arange(batch, device=device)  # which one each row of the search is
    tokens = torch.full((batch, 1, width + 1), SOS, device=device)  # one hypothesis at first
    log_probability = torch.zeros(batch, 1, device=device)
    ended = _Ended.none(batch, beam, width + 1, device)
    past = torch.zeros(batch, 1, 0, dtype=torch.bool, device=device)
    rows = torch.arange(batch, device=device)  # the hypotheses that are alive, in one row

    for length in range(1, width + 1):
        itself = torch.eye(past.size(1), dtype=torch.bool, device=device)
        past = torch.cat([past, itself.expand(len(past), -1, -1)], dim=2)
        step = predict(tokens[..., :length], past, rows)
        best, token = _topk(step, min(beam, step.size(1)))
        at_limit = predict.limits[rows // past.size(1)] == length
        best.masked_fill_(at_limit[:, None], -torch.inf)
        best[:, 0] = torch.where(at_limit, step[:, EOS], best[:, 0])
        token.masked_fill_(at_limit[:, None], EOS)

        total = torch.full((log_probability.numel(), best.size(1)), -torch.inf, device=device)
        total[rows] = log_probability.flatten()[rows, None] + best
        following = torch.full_like(total, EOS, dtype=torch.long)
        following[rows] = token
        total, following = (x.view(len(sentence), -1) for x in (total, following))
        log_probability, index = total.topk(min(beam, total.size(1)))
        parent = index // best.size(1)
        tokens, past = _take(tokens, parent), _take(past, parent)
        tokens[..., length] = following.gather(1, index)

        is_end = tokens[..., length] == EOS
        ended = ended.add(tokens, log_probability.masked_fill(~is_end, -torch.inf),
                          length_penalty(length, alpha))
        bound = log_probability / length_penalty(predict.limits, alpha)[:, None]
        going = ~is_end & (bound > ended.scores[:, n_best - 1:n_best])
        seen = going.cpu().numpy()  # the one time that the device is waited for
        live: NDArray[np.bool_] = seen.any(axis=1)  # type: ignore[assignment]
        order = _staying(live)
        if order is not None:
            ended.collect(torch.from_numpy(~live).to(device), sentence, n_best, done)
            if len(order) == 0:
                break
            seen, stay = seen[order], torch.from_numpy(order).to(device)
            sentence, ended, past = sentence[stay], ended.keep(stay), past[stay]
            tokens, log_probability = tokens[stay], log_probability[stay]
            predict.keep(stay)
        rows = torch.from_numpy(seen.ravel().nonzero()[0]).to(device)
    return done


class _Ended(NamedTuple):
    """The finished hypotheses of each sentence, the best first; unused places score −∞."""

    tokens: Int[Tensor, "batch beam width"]
    log_probability: Float[Tensor, "batch beam"]
    scores: Float[Tensor, "batch beam"]

    @classmethod
    def none(cls, batch: int, beam: int, width: int, device: torch.device) -> "_Ended":
        nothing = torch.full((batch, beam), -torch.inf, device=device)
        return cls(torch.full((batch, beam, width), PAD, device=device), nothing, nothing)

    def add(self, tokens: Tensor, log_probability: Tensor, penalty: Tensor) -> "_Ended":
        scores, index = torch.cat([self.scores, log_probability / penalty], 1).topk(
            self.scores.size(1))
        return _Ended(_take(torch.cat([self.tokens, tokens], 1), index),
                      torch.cat([self.log_probability, log_probability], 1).gather(1, index),
                      scores)

    def keep(self, rows: Tensor) -> "_Ended":
        return _Ended(*(x[rows] for x in self))

    def collect(
        self, rows: Tensor, sentence: Tensor, n_best: int, into: list[list[Hypothesis]]
    ) -> None:
        """Write the hypotheses of these rows where their sentences belong."""
        for n, *hypotheses in zip(sentence[rows].tolist(),
                                  *(x[rows, :n_best].tolist() for x in self), strict=True):
            into[n] = [Hypothesis(tokens[1:tokens.index(EOS)], log_probability, score)
                       for tokens, log_probability, score in zip(*hypotheses, strict=True)
                       if score > -torch.inf]


def _staying(live: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """The live rows, the last of them in the places of those that leave: few have to move.

    None while so few have ended that all stay.
    """
    alive = int(live.sum())
    if alive >= _LEAVE * len(live):
        return None
    order = np.arange(alive)
    order[~live[:alive]] = alive + live[alive:].nonzero()[0]
    return order


def _take(
    x: Bool[Tensor, "batch beam width"] | Int[Tensor, "batch beam width"],
    index: Int[Tensor, "batch chosen"],
) -> Tensor:
    """(batch, chosen, width): of each sentence, the hypotheses named."""
    return x.gather(1, index[..., None].expand(-1, -1, x.size(2)))


def _topk(x: Float[Tensor, "*batch vocabulary"], k: int, chunk: int = 64) -> tuple[Tensor, Tensor]:
    """`x.topk(k)` in a fraction of its time: the k largest lie in the k chunks of largest maximum,
    or in what is left over behind the last whole chunk."""
    whole = x.size(-1) // chunk * chunk
    if x.size(-1) < 4 * k * chunk:
        return x.topk(k)
    chunks = x[..., :whole].unflatten(-1, (-1, chunk))
    best = chunks.amax(dim=-1).topk(k).indices
    inside = torch.arange(chunk, device=x.device)
    index = (best[..., None] * chunk + inside).flatten(-2)
    if whole < x.size(-1):
        rest = torch.arange(whole, x.size(-1), device=x.device)
        index = torch.cat([index, rest.expand(*index.shape[:-1], -1)], dim=-1)
    values, place = x.gather(-1, index).topk(k)
    return values, index.gather(-1, place)
