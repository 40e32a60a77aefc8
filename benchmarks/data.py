"""How preparing and reading a corpus grow with it: in time, in memory, and in padding.

    python benchmarks/data.py                       # 100,000, 1 and 10 million pairs
    python benchmarks/data.py --sizes 10000 100000

The text is drawn from the sample corpus's grammar, up to DRAWN pairs; larger corpora repeat these.
Each size is prepared (cleaned, tokenised, encoded) in a process of its own, and read in another:
starting is what a run does before its first batch. Memory is the most that a process needed; the
pages of mapped files that it has touched are told apart, as the system can take them back. Linux
alone tells them.
"""

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from translate.columns import columns
from translate.command_line import run
from translate.config import Config
from translate.data.batching import TokenBatchSampler, make_batch
from translate.data.corpora import prepare
from translate.data.encoding import encode
from translate.data.lines import write_lines
from translate.data.ragged import Pairs
from translate.data.sample import draw_pairs

DRAWN = 1_000_000
HELD_OUT = 1_000  # pairs for validation and for the test
TIMED = 1_000  # batches
FOLDER = Path("data/benchmark")  # the drawn text stays there for the next time

Figures = dict[str, float]
FORMATS = {  # of the columns
    "prepared pairs/s": ",.0f", "memory MB": ",.0f", "a worker's MB": ",.0f", "start s": ".2f",
    "plan of an epoch s": ".2f", "batches/s": ",.0f", "padding %": ".2f",
    "memory MB to read": ",.0f", "mapped MB": ",.0f",
}


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[10**5, 10**6, 10**7],
                           metavar="PAIRS")
    arguments.add_argument("--batch-tokens", type=int, default=4096)
    arguments.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.measure:
        figures = MEASURES[options.measure](options.sizes[0], options.batch_tokens)
        print(json.dumps(figures))
        return
    rows = [_measure(size, options.batch_tokens) for size in options.sizes]
    print(_table(options.sizes, rows))


def _measure(size: int, batch_tokens: int) -> Figures:
    _write_text(size)
    figures: Figures = {}
    for measure in MEASURES:
        command = [sys.executable, __file__, "--measure", measure, "--sizes", str(size),
                   "--batch-tokens", str(batch_tokens)]
        output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        figures |= json.loads(output.splitlines()[-1])
    print(f"{size:,} pairs: {figures}", file=sys.stderr)
    return figures


def _write_text(size: int) -> None:
    drawn = min(size, DRAWN)
    for name, seed, pairs in (("held-out", 1, HELD_OUT), (f"drawn-{drawn}", 2, drawn)):
        if not (FOLDER / f"{name}.en").exists():
            print(f"drawing {pairs:,} pairs", file=sys.stderr)
            FOLDER.mkdir(parents=True, exist_ok=True)
            text = list(islice(draw_pairs(seed), pairs))
            write_lines(FOLDER / f"{name}.de", (pair.german for pair in text))
            write_lines(FOLDER / f"{name}.en", (pair.english for pair in text))
    (FOLDER / str(size)).mkdir(exist_ok=True)
    for language in ("de", "en"):
        with open(FOLDER / str(size) / f"train.{language}", "wb") as file:
            for _ in range(size // drawn):
                file.write((FOLDER / f"drawn-{drawn}.{language}").read_bytes())


def _config(size: int) -> Config:
    train, held_out = ([str(FOLDER / f"{name}.{language}") for language in ("de", "en")]
                       for name in (f"{size}/train", "held-out"))
    return Config.model_validate({"name": "benchmark", "data": {
        "corpus": "files", "train": train, "validation": held_out, "test": held_out}})


def _prepare(size: int, _: int) -> Figures:
    config, base = _config(size), FOLDER / str(size)
    for former in base.glob("files-*"):
        shutil.rmtree(former)
    started = time.monotonic()
    encode(config, prepare(config.data, base))
    seconds = time.monotonic() - started
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    # Its own from elsewhere: getrusage would count what the parent held when it started this.
    return {"prepared pairs/s": size / seconds, "memory MB": _memory("VmHWM"),
            "a worker's MB": worker}


def _read(size: int, batch_tokens: int) -> Figures:
    config, libraries = _config(size), _memory("RssFile")
    started = time.monotonic()
    pairs = encode(config, prepare(config.data, FOLDER / str(size))).train
    encoded = time.monotonic()
    plan = TokenBatchSampler(pairs, batch_tokens, config.seed).batches(0)
    planned = time.monotonic()
    timed = plan[:TIMED]
    for rows in timed:
        make_batch(pairs, rows)
    read = time.monotonic()
    own, mapped = _memory("RssAnon"), _memory("RssFile") - libraries
    return {"start s": planned - started, "plan of an epoch s": planned - encoded,
            "batches/s": len(timed) / (read - planned), "padding %": 100 * _padding(pairs, plan),
            "memory MB to read": own, "mapped MB": mapped}


def _memory(kind: str) -> float:
    """MB of this process: the most so far (VmHWM), or now, its own and of files (RssAnon, RssFile).
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(rf"{kind}:\s+(\d+) kB", status)[0]) / 1024


def _padding(pairs: Pairs, plan: Sequence[NDArray[np.int64]]) -> float:
    """The share of all places of src and tgt_out in an epoch, `<eos>` among what is none."""
    lengths = [side.lengths_of(rows) + 1 for rows in plan for side in pairs]
    places = sum(len(own) * int(own.max()) for own in lengths)
    return 1 - sum(int(own.sum()) for own in lengths) / places


def _table(sizes: Sequence[int], rows: Sequence[Figures]) -> str:
    """A line a size, and between two what each figure is multiplied by."""
    cells = [["pairs", *FORMATS]]
    for n, (size, figures) in enumerate(zip(sizes, rows, strict=True)):
        if n:
            cells.append([f"× {size / sizes[n - 1]:g}", *(
                f"× {figures[name] / rows[n - 1][name]:.2f}" if figures[name] else "-"
                for name in FORMATS)])
        cells.append([f"{size:,}", *(f"{figures[name]:{form}}" for name, form in FORMATS.items())])
    return columns(cells, "r")


MEASURES: dict[str, Callable[[int, int], Figures]] = {"prepare": _prepare, "read": _read}

if __name__ == "__main__":
    run(main)
