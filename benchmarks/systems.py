"""What decode.py measures: our search in several ways, and the other programs with our weights."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from environments import interpreter
from peers.serve import Batch, Ids, before_eos, in_batches, timed

from translate.data.batching import causal_mask, pad, padding_mask
from translate.data.lines import tidy
from translate.data.vocabulary import EOS, PAD, SOS, UNK
from translate.decoding.request import Answer as Found
from translate.decoding.request import Hypothesis, Request
from translate.decoding.search import search
from translate.decoding.translator import Search, Translator, batches
from translate.decoding.workers import workers
from translate.errors import UserError
from translate.model.positions import sinusoidal
from translate.model.transformer import Transformer
from translate.runs import Trained
from translate.storage import write_json

PEERS = Path(__file__).parent / "peers"


class Task(NamedTuple):
    lines: list[str]
    references: list[str]
    request: dict[str, Any]  # the lines as ids, and how to search: see peers/serve.py


class Answer(NamedTuple):
    texts: list[str]
    tokens: int  # without <eos>
    seconds: float


System = Callable[[Task], Answer]


class Systems:
    """Starts systems by their names; `stack` ends them.

    "threads" is one worker with that many threads, "workers" are as many with a thread each.
    """

    def __init__(self, trained: Trained, threads: int, stack: contextlib.ExitStack) -> None:
        self._trained = trained
        self._threads = threads
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _write_weights(trained, threads, self._folder)

    def start(self, name: str) -> System:
        config, model, source, target, checkpoint = self._trained
        kind = name.split()
        if kind[0] == "ctranslate2":
            divided = (self._threads, 1) if kind[-1] == "threads" else (1, self._threads)
            self._export()
            return self._peer("ctranslate2", "int8" if "int8" in kind else "float32",
                              *map(str, divided))
        if kind[0] != "ours":
            return self._peer(name)
        answer: Search = partial(search, [model], config.decoding)
        if "uncached" in kind:
            answer = partial(map, partial(uncached_greedy, model, leave="plain" not in kind))
        if "workers" in kind:
            answer = self._stack.enter_context(workers(self._threads, [checkpoint]))
        if "text" in kind:
            return partial(_on_text, Translator([model], source, target, config, answer))
        return partial(self._on_ids, answer)

    def _on_ids(self, answer: Search, task: Task) -> Answer:
        def search_batches(batches: Iterable[Batch]) -> Iterator[list[Ids]]:
            for found in answer(Request(*batch) for batch in batches):
                yield [hypotheses[0].tokens for hypotheses in found]

        return self._answer(*timed(partial(in_batches, search=search_batches,
                                           batches=self._batches(task.request)), task.request))

    def _batches(self, request: dict[str, Any]) -> list[list[int]] | None:
        return None if "batch" in request else batches(
            [len(ids) for ids in request["sources"]], request["batch_tokens"] // request["beam"],
            self._threads)

    def _peer(self, name: str, *arguments: str) -> System:
        process = subprocess.Popen(
            [interpreter(name), PEERS / f"decode_{name}.py", self._folder, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._stack.callback(process.communicate)

        def system(task: Task) -> Answer:
            assert process.stdin and process.stdout
            print(json.dumps(task.request), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise UserError(f"it ended with code {process.wait()}")
            return self._answer(*json.loads(answer))

        return system

    def _answer(self, found: list[Ids], seconds: float) -> Answer:
        pipeline, vocabulary = self._trained.target
        texts = [tidy(pipeline.join(vocabulary.tokens[n] for n in ids)) for ids in found]
        return Answer(texts, sum(map(len, found)), seconds)

    def _export(self) -> None:
        folder = self._folder / "ctranslate2"
        if not folder.exists():
            subprocess.run([sys.executable, "-m", "translate.export", self._trained.checkpoint,
                            "--to", "ctranslate2", "--output", folder],
                           check=True, stdout=sys.stderr)


def _on_text(translator: Translator, task: Task) -> Answer:
    results, seconds = timed(partial(translator.translate, task.lines), task.request["beam"])
    best = [translations[0] for translations in results]
    return Answer([t.text for t in best], sum(len(t.tokens) for t in best), seconds)


@torch.inference_mode()
def uncached_greedy(model: Transformer, request: Request, leave: bool) -> Found:
    """Greedy search that computes all tokens so far again at every step.

    As tutorials write it, all sentences go on until the last has ended. With `leave` they leave
    the batch when they end, as in ours: then the cache alone makes the difference.
    """
    src, limit = pad(request.sources, [], [EOS]), max(request.limits)
    mask = padding_mask(src)
    memory = model.encode(src, mask)
    tokens = torch.full((len(src), limit + 1), SOS)
    ended = torch.zeros(len(src), dtype=torch.bool)
    rows = torch.arange(len(src))
    for length in range(1, limit + 1):
        states = model.decode(tokens[rows, :length], memory[rows], mask[rows],
                              causal_mask(length)[None, None])
        tokens[rows, length] = model.project(states[:, -1]).argmax(dim=1)
        ended |= tokens[:, length] == EOS
        if ended.all():
            break
        if leave:
            rows = (~ended).nonzero()[:, 0]
    return [[Hypothesis(before_eos(ids, EOS), 0.0, 0.0)] for ids in tokens[:, 1:].tolist()]


def _write_weights(trained: Trained, threads: int, folder: Path) -> None:
    """What the peers need to make the same model."""
    config, model, source, target, _ = trained
    settings = config.model
    if (settings.norm, settings.positions, settings.activation, settings.tie_output,
            settings.tie_source) != ("post", "sinusoidal", "relu", True, True):
        raise UserError("only a model with norm=post, positions=sinusoidal, activation=relu, "
                        "tie_output=true and tie_source=true can be carried over to all of the "
                        "other programs; benchmarks/small.yaml trains one")
    weights: dict[str, Any] = {name: p.detach().numpy() for name, p in model.named_parameters()}
    np.savez(folder / "weights.npz", **weights,
             positions=sinusoidal(1024, settings.d_model).numpy())
    write_json({**settings.model_dump(), "unk": UNK, "pad": PAD, "sos": SOS, "eos": EOS,
                "threads": threads, "length_penalty": config.decoding.length_penalty,
                "source_tokens": source.vocabulary.tokens,
                "target_tokens": target.vocabulary.tokens}, folder / "settings.json")
