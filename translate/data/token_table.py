"""Text files to tokens, on all cores; memory holds the distinct tokens and a few chunks of text."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from translate.child_processes import end_with_parent
from translate.data.lines import iter_lines
from translate.data.ragged import Ragged, RaggedWriter, map_ragged, offsets
from translate.data.text import Language, Tokenizer
from translate.data.vocabulary import word_field

CHUNK = 5_000  # lines a task; texts of fewer than four chunks are tokenised in this process


class Splitting(NamedTuple):
    """How text becomes tokens."""

    language: Language
    lowercase: bool
    words: bool  # they are the vocabulary, so torchtext's Field splits; it gives the same tokens


class TokenTable(NamedTuple):
    """The distinct tokens of a text in order of appearance; the text itself lies in files."""

    tokens: list[str]
    stem: Path  # of its sentences, as indices into `tokens`

    def chunks(self) -> Iterator[Ragged]:
        """The sentences, at most CHUNK at a time."""
        for start in range(0, len(map_ragged(self.stem)), CHUNK):
            # Mapped anew, since pages that have been read belong to the process until it unmaps.
            yield map_ragged(self.stem).part(start, start + CHUNK)

    def counts(self) -> dict[str, int]:
        counts = np.zeros(len(self.tokens), np.int64)
        for rows in self.chunks():
            counts += np.bincount(rows.ids, minlength=len(counts))
        return dict(zip(self.tokens, counts.tolist(), strict=True))


def tokenise(text: Path, splitting: Splitting, stem: Path) -> TokenTable:
    """The table of a text file; its sentences go to files that begin with `stem`."""
    index: dict[str, int] = {}
    with RaggedWriter(stem) as writer:
        for tokens, rows in _tables(iter_lines(text), splitting):
            numbers = np.array([index.setdefault(token, len(index)) for token in tokens], np.int32)
            writer.append(Ragged(numbers[rows.ids], rows.offsets))
    return TokenTable(list(index), stem)


Table = tuple[list[str], Ragged]  # of a chunk: distinct tokens, sentences as indices into them


def _tables(lines: Iterator[str], splitting: Splitting) -> Iterator[Table]:
    chunks = iter(lambda: list(islice(lines, CHUNK)), [])
    first = list(islice(chunks, 4))
    chunks = chain(first, chunks)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(first) < 4 or cores == 1:
        return (_table(chunk, splitting) for chunk in chunks)
    return _in_processes(chunks, splitting, cores or 1)


def _in_processes(
    chunks: Iterable[list[str]], splitting: Splitting, processes: int
) -> Iterator[Table]:
    with ProcessPoolExecutor(processes, get_context("spawn"), end_with_parent) as pool:
        waiting: deque[Future[Table]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(_table, chunk, splitting))
            if len(waiting) > 2 * processes:  # the executor itself would take in the whole text
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _table(lines: list[str], splitting: Splitting) -> Table:
    split = _splitter(splitting)
    index: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    for tokens in map(split, lines):
        ids += [index.setdefault(token, len(index)) for token in tokens]
        lengths.append(len(tokens))
    return list(index), Ragged(np.array(ids, np.int32), offsets(np.array(lengths, np.int64)))


@cache  # spaCy's rules take longer to load than a chunk to split
def _splitter(splitting: Splitting) -> Callable[[str], list[str]]:
    language, lowercase, words = splitting
    if words:
        preprocess: Callable[[str], list[str]] = word_field(language, lowercase).preprocess
        return preprocess
    return Tokenizer(language, lowercase).split
