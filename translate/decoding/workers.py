"""Search in several processes of one thread each: small matrices gain little from more threads."""

import multiprocessing
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from translate.decoding.search import Hypothesis, Request, search
from translate.decoding.translator import Search
from translate.errors import UserError
from translate.runs import load_ensemble

_search: Search  # of a worker process


@contextmanager
def workers(
    number: int, checkpoints: Sequence[Path], overrides: Sequence[str] = ()
) -> Iterator[Search]:
    """What answers the requests of a `Translator`; each process loads the models itself, once."""
    pool = ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _start,
                               (checkpoints, overrides))

    def answer(requests: Iterable[Request]) -> Iterator[list[list[Hypothesis]]]:
        try:
            yield from pool.map(_answer, requests)
        except BrokenProcessPool:
            raise UserError("a worker process ended before its time, perhaps for want of memory: "
                            "try fewer --workers or a smaller decoding.batch_tokens") from None

    try:
        yield answer
    finally:
        pool.shutdown(cancel_futures=True)


def _start(checkpoints: Sequence[Path], overrides: Sequence[str]) -> None:
    global _search
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C means
    torch.set_num_threads(1)
    ensemble = load_ensemble(checkpoints, overrides)
    _search = partial(search, [trained.model for trained in ensemble], ensemble[0].config.decoding)


def _answer(request: Request) -> list[list[Hypothesis]]:
    (answer,) = _search([request])
    return answer
