"""What the decoding peers share: requests come in on stdin, measurements go out on stdout.

Runs inside a peer's environment. A peer is loaded once and answers until stdin ends, so loading is
in no measurement. A request holds `sources` (ids without `<eos>`), `limits` (of the translations'
lengths, `<eos>` included), `beam`, and either `batch` (sentences) or `batch_tokens` (sentences ×
beam × longest source). Translations are ids without `<eos>`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Ids = list[int]
Batch = tuple[list[Ids], list[int], int]  # sources, limits, beam


def serve(search: Callable[[dict[str, Any]], list[Ids]]) -> None:
    """Answer each request with what `search` found and the seconds that it took."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        print(json.dumps(timed(search, json.loads(line))), file=answers, flush=True)


def timed(search: Callable[[Any], Any], request: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    found = search(request)
    return found, time.perf_counter() - started


def in_batches(
    request: dict[str, Any], search: Callable[[Iterable[Batch]], Iterable[list[Ids]]],
    batches: list[list[int]] | None = None
) -> list[Ids]:
    """The translations in the order of the sources, the longest of which are searched first.

    `batches` are rows of sources, for a program that makes its own by token budget.
    """
    sources, limits = request["sources"], request["limits"]
    batches = batches or list(_rows(request))
    results = search(([sources[n] for n in rows], [limits[n] for n in rows], request["beam"])
                     for rows in batches)
    found: list[Ids] = [[] for _ in sources]
    for rows, translations in zip(batches, results, strict=True):
        for row, ids in zip(rows, translations, strict=True):
            found[row] = ids[:limits[row] - 1]  # some programs have one limit for a whole batch
    return found


def _rows(request: dict[str, Any]) -> Iterator[list[int]]:
    lengths = [len(ids) + 1 for ids in request["sources"]]
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    while rows:
        size = request.get("batch") or max(
            1, request["batch_tokens"] // (lengths[rows[0]] * request["beam"]))
        yield rows[:size]
        rows = rows[size:]


def before_eos(ids: Ids, eos: int) -> Ids:
    return ids[:ids.index(eos)] if eos in ids else ids
