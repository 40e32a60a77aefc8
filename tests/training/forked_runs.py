"""Trains runs in processes that can be killed: `forked_runs.py FOLDER CONFIG`.

All is imported and encoded once. For every line of stdin, {"name": …, "max_updates": …,
"dies_at": …}, a child trains that run; its process id is printed at once, and how it ended when it
has.
"""

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # or every child would import it, which takes longer than its run

from translate.config import Config
from translate.data.corpora import prepare
from translate.data.encoding import encode
from translate.data.lines import read_lines
from translate.runs import open_run
from translate.training.monitor import Monitor
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText


def main() -> None:
    torch.set_num_threads(1)
    Monitor.validation = lambda *_: None  # type: ignore[method-assign]  # most of the time
    os.chdir(sys.argv[1])
    values = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    config = Config.model_validate(values)
    with redirect_stdout(sys.stderr):
        corpus = prepare(config.data)
    encoded = encode(config, corpus)
    text = ParallelText(*(read_lines(path) for path in corpus.validation))
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            if order["dies_at"]:
                die_at(order["dies_at"])
            training = values["training"] | {"max_updates": order["max_updates"]}
            config = Config.model_validate(values | {"name": order["name"], "training": training})
            run = open_run(config, fresh=False)
            shutil.copytree(encoded.text_folder, run.text, dirs_exist_ok=True)
            trainer = Trainer(config, encoded, text, run)
            trainer.run()
            trainer.monitor.close()
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def die_at(call: int) -> None:
    """Have this process killed just before the n-th time that it changes a name on the disk."""
    calls = itertools.count(1)

    def counted(change: Callable[..., None]) -> Callable[..., None]:
        def do(*arguments: Any, **options: Any) -> None:
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            change(*arguments, **options)

        return do

    for name in ("replace", "mkdir", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))


main()
