"""What train.py measures: our trainer, and the other programs on the same batches."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from environments import interpreter
from peers.serve import timed

from translate.config import Config, save_config
from translate.data.batching import Batch
from translate.data.encoding import EncodedCorpus
from translate.data.vocabulary import EOS, PAD, SOS, UNK
from translate.errors import UserError
from translate.runs import Run
from translate.storage import write_json
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText

Turn = Callable[[Sequence[int]], float]  # an update on each batch of these numbers -> seconds

PEERS = Path(__file__).parent / "peers"


def start_trainer(config: Config, corpus: EncodedCorpus, folder: Path,
                  stack: contextlib.ExitStack) -> Trainer:
    """What `python -m translate.train` trains with, in this process."""
    run = Run(folder / "run")
    run.folder.mkdir()
    save_config(config, run.config)
    trainer = Trainer(config, corpus, ParallelText([], []), run)
    stack.callback(trainer.monitor.close)
    trainer.model.train()
    return trainer


def train_on(trainer: Trainer, batches: Sequence[Batch], numbers: Sequence[int]) -> float:
    def updates(numbers: Sequence[int]) -> float:
        norms = [trainer.update([batches[n]]) for n in numbers]
        return float(norms[-1])  # waits for a device that is not done

    return timed(updates, numbers)[1]


def peer(name: str, folder: Path, stack: contextlib.ExitStack) -> Turn:
    """A program in a process of its own; `folder` is what `write_batches` has written.

    The plain loop runs on the PyTorch that ours runs on, but not beside it: there it would share
    what ours does to the memory allocator.
    """
    python = Path(sys.executable) if name == "plain" else interpreter(name)
    process = subprocess.Popen([python, PEERS / f"train_{name}.py", folder],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(process.communicate)
    return partial(_ask, name, process)


def _ask(name: str, process: subprocess.Popen[str], numbers: Sequence[int]) -> float:
    assert process.stdin and process.stdout
    with contextlib.suppress(BrokenPipeError):  # it has said why
        print(json.dumps(list(numbers)), file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        raise UserError(f"{name} ended with code {process.wait()}")
    loss, seconds = json.loads(answer)
    print(f"{name}: mean loss {loss:.3f}", file=sys.stderr)
    return float(seconds)


def write_batches(config: Config, corpus: EncodedCorpus, batches: Sequence[Batch], threads: int,
                  folder: Path) -> None:
    """What the peers need: see peers/training.py."""
    np.savez(folder / "batches.npz", **{
        f"{side}_{n}": getattr(batch, side).numpy()
        for n, batch in enumerate(batches) for side in ("src", "tgt_in", "tgt_out")})
    write_json({**config.model.model_dump(), "vocabulary": len(corpus.target.vocabulary),
                "label_smoothing": config.training.label_smoothing, "rate": 1e-4,
                "seed": config.seed, "unk": UNK, "pad": PAD, "sos": SOS, "eos": EOS,
                "threads": threads}, folder / "settings.json")
