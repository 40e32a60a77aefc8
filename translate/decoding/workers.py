"""Search in several processes of one thread each: small matrices gain little from more threads."""

import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import torch

from translate.child_processes import end_with_parent
from translate.decoding.request import Answer, Request
from translate.decoding.search import answer_share, in_order, search
from translate.decoding.translator import Search
from translate.errors import UserError
from translate.runs import load_ensemble

# Of a worker process; the number is that of the next request for any of them.
_search: Search
_next: "Synchronized[int]"


@contextmanager
def workers(
    number: int, checkpoints: Sequence[Path], overrides: Sequence[str] = ()
) -> Iterator[Search]:
    """What answers the requests of a `Translator`; each process loads the models itself, once."""
    context = multiprocessing.get_context("spawn")
    upcoming = context.Value("q")
    pool = ProcessPoolExecutor(number, context, _start, (checkpoints, overrides, upcoming))

    def answer(requests: Iterable[Request]) -> list[Answer]:
        upcoming.value = 0
        try:
            return in_order(pool.map(_answer, [list(requests)] * number))
        except BrokenProcessPool:
            raise UserError("a worker process ended before its time, perhaps for want of memory: "
                            "try fewer --workers or a smaller decoding.batch_tokens") from None

    try:
        yield answer
    finally:
        upcoming.value = sys.maxsize // 2
        pool.shutdown(cancel_futures=True)


def _start(
    checkpoints: Sequence[Path], overrides: Sequence[str], upcoming: Synchronized
) -> None:
    global _search, _next
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C means
    end_with_parent()
    torch.set_num_threads(1)
    ensemble = load_ensemble(checkpoints, overrides)
    _search = partial(search, [trained.model for trained in ensemble], ensemble[0].config.decoding)
    _next = upcoming


def _answer(requests: list[Request]) -> dict[int, Answer]:
    return answer_share(_search, requests, _take)


def _take() -> int:
    with _next.get_lock():
        _next.value += 1
        return _next.value - 1
