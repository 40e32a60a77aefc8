"""Greedy search and sampling: one hypothesis for each sentence."""

import numpy as np
import torch
from numpy.typing import NDArray

from translate.data.batching import stack
from translate.data.vocabulary import EOS, SOS
from translate.decoding.prediction import Prediction, staying
from translate.decoding.request import Answer, Request, hypotheses, length_penalty
from translate.decoding.sampling import draw, uniform_numbers
from translate.decoding.topk import topk


class GreedySearch:
    """The likeliest token at every step, or one drawn, until `<eos>`, which is the last allowed.

    The length penalty changes the scores alone. What is found is added to `answer`.
    """

    def __init__(self, predict: Prediction, alpha: float, request: Request, answer: Answer) -> None:
        self._predict = predict
        self._alpha = alpha  # of the length penalty
        self._sampling = request.sampling
        self._answer = list(answer)  # where the hypothesis of each row belongs
        device = self._predict.tokens.device
        self._log_probability = torch.zeros(len(answer), device=device)
        self._live = torch.ones(len(answer), dtype=torch.bool, device=device)
        self._uniform = torch.zeros(len(answer), 0, device=device)  # for the steps to come
        if request.sampling:
            self._uniform = uniform_numbers(request.sampling.seed, request.sources,
                                            max(request.limits)).to(device)

    def __len__(self) -> int:
        return len(self._answer)

    def step(self) -> None:
        following = self._predict()
        if self._sampling is None:
            best, token = topk(following, 1)
        else:
            best, token = draw(following, self._uniform[:, 0], self._sampling)
            self._uniform = self._uniform[:, 1:]
        self._predict.extend(token)
        self._log_probability = self._log_probability + best[:, 0] * self._live
        self._live = self._live & (token[:, 0] != EOS)
        live = self._live.cpu().numpy()  # the one time that the device is waited for
        order = staying(live)
        if order is not None:
            self._finish(~live)
            self._answer = [self._answer[row] for row in order]
            stay = self._predict.keep(order)
            self._log_probability, self._live, self._uniform = (
                x[stay] for x in (self._log_probability, self._live, self._uniform))

    def join(self, other: "GreedySearch") -> None:
        """Go on with the sentences of the other, too."""
        self._predict.join(other._predict)
        self._answer += other._answer
        self._log_probability = torch.cat([self._log_probability, other._log_probability])
        self._live = torch.cat([self._live, other._live])
        self._uniform = stack(self._uniform, other._uniform)

    def _finish(self, ended: NDArray[np.bool_]) -> None:
        rows = ended.nonzero()[0]
        tokens, total = self._predict.tokens[rows], self._log_probability[rows, None]
        length = (tokens == EOS).long().argmax(dim=2) - (tokens == SOS).long().argmax(dim=2)
        scores = total / length_penalty(length, self._alpha)
        for row, found in zip(rows, hypotheses(tokens, total, scores), strict=True):
            self._answer[row] += found
