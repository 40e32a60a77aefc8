"""Beam search: the best of several hypotheses for each sentence."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.batching import stack
from translate.data.vocabulary import EOS, PAD
from translate.decoding.prediction import Prediction, staying, take
from translate.decoding.request import Answer, Request, hypotheses, length_penalty
from translate.decoding.topk import topk


class BeamSearch:
    """The `n_best` hypotheses with the highest score found by a beam, the best first.

    A step keeps the `beam` likeliest continuations; those that end in `<eos>` go to the finished
    ones. A hypothesis is given up when it can't score higher than the n-th finished one of its
    sentence: log-probabilities only fall, so it scores at best its log-probability over the penalty
    of the longest length allowed. Nothing is lost: what is not given up has a higher
    log-probability than all that could follow what is, and would be chosen before it. A sentence
    is done when nothing is left of it. What is found is added to `answer`.
    """

    def __init__(self, predict: Prediction, alpha: float, request: Request, answer: Answer) -> None:
        self._predict = predict
        self._alpha = alpha  # of the length penalty
        self._beam = request.beam
        self._n_best = request.n_best
        self._answer = list(answer)  # where the hypotheses of each sentence belong
        device = self._predict.tokens.device
        self._log_probability = torch.zeros(len(answer), 1, device=device)  # one at first
        self._ended = _Ended.none(len(answer), self._beam, device)
        self._alive = np.ones((len(answer), 1), dtype=np.bool_)  # not given up

    def __len__(self) -> int:
        return len(self._answer)

    def step(self) -> None:
        device = self._log_probability.device
        rows = torch.from_numpy(self._alive.ravel().nonzero()[0]).to(device)
        following = self._predict(rows)
        best, token = topk(following, min(self._beam, following.size(1)))
        total = torch.full((self._alive.size, self._beam), -torch.inf, device=device)
        tokens = torch.full_like(total, EOS, dtype=torch.long)
        total[rows, :best.size(1)] = self._log_probability.flatten()[rows, None] + best
        tokens[rows, :best.size(1)] = token
        total, tokens = (x.view(len(self), -1) for x in (total, tokens))
        self._log_probability, index = total.topk(self._beam)
        token = tokens.gather(1, index)
        penalty, longest = (length_penalty(torch.from_numpy(x).to(device)[:, None], self._alpha)
                            for x in (self._predict.lengths, self._predict.limits))
        self._predict.extend(token, index // self._beam)

        ends = token == EOS
        self._ended = self._ended.add(
            self._predict.tokens, self._log_probability.masked_fill(~ends, -torch.inf), penalty)
        to_beat = self._ended.scores[:, self._n_best - 1:self._n_best]
        going = ~ends & (self._log_probability / longest > to_beat)
        self._alive = going.cpu().numpy()  # the one time that the device is waited for
        live: NDArray[np.bool_] = self._alive.any(axis=1)  # type: ignore[assignment]
        order = staying(live)
        if order is not None:
            self._finish(~live)
            self._answer = [self._answer[row] for row in order]
            self._alive = self._alive[order]
            stay = self._predict.keep(order)
            self._log_probability = self._log_probability[stay]
            self._ended = self._ended.keep(stay, self._predict.tokens.size(2))

    def join(self, other: "BeamSearch") -> None:
        """Go on with the sentences of the other, too. Both have taken a step."""
        self._predict.join(other._predict)
        self._answer += other._answer
        self._log_probability = torch.cat([self._log_probability, other._log_probability])
        self._ended = self._ended.join(other._ended)
        self._alive = np.concatenate([self._alive, other._alive])

    def _finish(self, ended: NDArray[np.bool_]) -> None:
        rows = ended.nonzero()[0]
        found = hypotheses(*(x[rows, :self._n_best] for x in self._ended))
        for row, n_best in zip(rows, found, strict=True):
            self._answer[row] += n_best


class _Ended(NamedTuple):
    """The finished hypotheses of each sentence, the best first; unused places score −∞."""

    tokens: Int[Tensor, "batch beam length"]
    log_probability: Float[Tensor, "batch beam"]
    scores: Float[Tensor, "batch beam"]

    @classmethod
    def none(cls, batch: int, beam: int, device: torch.device) -> "_Ended":
        nothing = torch.full((batch, beam), -torch.inf, device=device)
        return cls(torch.full((batch, beam, 1), PAD, device=device), nothing, nothing)

    def add(self, tokens: Tensor, log_probability: Tensor, penalty: Tensor) -> "_Ended":
        """`tokens` are longer by one than those that ended before."""
        scores, index = torch.cat([self.scores, log_probability / penalty], 1).topk(
            self.scores.size(1))
        return _Ended(take(torch.cat([F.pad(self.tokens, (0, 1), value=PAD), tokens], 1), index),
                      torch.cat([self.log_probability, log_probability], 1).gather(1, index),
                      scores)

    def keep(self, rows: Tensor, length: int) -> "_Ended":
        return _Ended(self.tokens[rows, :, -length:], self.log_probability[rows],
                      self.scores[rows])

    def join(self, other: "_Ended") -> "_Ended":
        return _Ended(stack(self.tokens, other.tokens, behind=False, fill=PAD),
                      *(torch.cat(pair) for pair in zip(self[1:], other[1:], strict=True)))
