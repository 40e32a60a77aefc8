"""From source sentences to target tokens, with every core at work and every batch kept full."""

import itertools
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import torch

from translate.config import DecodingConfig
from translate.decoding.beam import BeamSearch
from translate.decoding.greedy import GreedySearch
from translate.decoding.prediction import Prediction, laid_out
from translate.decoding.request import Answer, Request
from translate.model.transformer import Transformer

_FEW = 0.25  # of a request's sentences: the last ones wait for those of other requests,
_MANY = 0.5  # and go on when they are more than these


def search(
    models: Sequence[Transformer], decoding: DecodingConfig, requests: Iterable[Request]
) -> list[Answer]:
    """Of each request the hypotheses of each sentence, the best first.

    On a CPU each thread has requests of its own: more threads gain little for small matrices.
    """
    number = requests_at_a_time(models)
    answer = partial(_answer, models, decoding)
    with laid_out(models):
        if number == 1:
            return answer(requests)
        requests = list(requests)
        share = partial(answer_share, answer, requests, itertools.count().__next__)
        pool = ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))
        try:
            return in_order(task.result() for task in [pool.submit(share) for _ in range(number)])
        finally:
            requests.clear()  # nothing is begun any more
            pool.shutdown()
            torch.set_num_threads(number)


def requests_at_a_time(models: Sequence[Transformer]) -> int:
    """One on a GPU, and under autocast, which other threads do not know of."""
    on_cpu = next(models[0].parameters()).device.type == "cpu"
    return torch.get_num_threads() if on_cpu and not torch.is_autocast_enabled("cpu") else 1


def answer_share(
    answer: Callable[[Iterable[Request]], Iterable[Answer]], requests: Sequence[Request],
    take: Callable[[], int]
) -> dict[int, Answer]:
    """Answers to the requests whose numbers `take` gives, each when there is time for it."""
    numbers = []

    def taken() -> Iterator[Request]:
        while (number := take()) < len(requests):
            numbers.append(number)
            yield requests[number]

    answers = answer(taken())
    return dict(zip(numbers, answers, strict=True))


def in_order(shares: Iterable[dict[int, Answer]]) -> list[Answer]:
    answers = dict(ChainMap(*shares))
    return [answers[number] for number in range(len(answers))]


@torch.inference_mode()
def _answer(
    models: Sequence[Transformer], decoding: DecodingConfig, requests: Iterable[Request]
) -> list[Answer]:
    answers: list[Answer] = []
    for _, alike in itertools.groupby(requests, key=lambda request: request[2:]):
        answers += _stragglers_together(partial(_start, models, decoding), alike)
    return answers


def _start(
    models: Sequence[Transformer], decoding: DecodingConfig, request: Request, answer: Answer
) -> "_UnderWay":
    predict = Prediction(models, request.sources, request.limits, decoding)
    kind = GreedySearch if request.sampling or request.beam == 1 else BeamSearch
    return kind(predict, decoding.length_penalty, request, answer)


class _UnderWay(Protocol):
    """Sentences that are searched for together."""

    def __len__(self) -> int: ...
    def step(self) -> None: ...
    def join(self, other: Any) -> None: ...


def _stragglers_together(
    start: Callable[[Request, Answer], _UnderWay], requests: Iterable[Request]
) -> list[Answer]:
    """The last sentences of requests go on together: a step takes almost as long for few sentences
    as for many."""
    answers: list[Answer] = []
    stragglers: _UnderWay | None = None
    for request in requests:
        few, many = (share * len(request.sources) for share in (_FEW, _MANY))
        answers.append([[] for _ in request.sources])
        started = start(request, answers[-1])
        _go_on(started, few)
        if stragglers:
            stragglers.join(started)
        else:
            stragglers = started
        if len(stragglers) > many:
            _go_on(stragglers, few)
    if stragglers:
        _go_on(stragglers, 0)
    return answers


def _go_on(under_way: _UnderWay, left: float) -> None:
    while len(under_way) > left:
        under_way.step()
