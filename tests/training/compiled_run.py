"""Trains a run compiled, and as it is: `compiled_run.py FOLDER CONFIG`.

The backend counts the graphs that the compiler makes, and runs them as they are.
"""

import json
import os
import sys
from functools import partialmethod
from pathlib import Path

import torch
from torch._dynamo.testing import CompileCounter

from translate.config import Config
from translate.data.batching import make_batch
from translate.data.corpora import prepare
from translate.data.encoding import encode
from translate.data.lines import read_lines
from translate.runs import open_run
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText

os.chdir(sys.argv[1])
values = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
counter = CompileCounter()
torch.nn.Module.compile = partialmethod(  # type: ignore[method-assign]
    torch.nn.Module.compile, backend=counter)
trainers = []
for compiled in (False, True):
    config = Config.model_validate(values | {
        "name": f"compiled-{compiled}", "training": values["training"] | {"compile": compiled}})
    corpus = prepare(config.data)
    encoded = encode(config, corpus)
    text = ParallelText(*(read_lines(path) for path in corpus.validation))
    trainer = Trainer(config, encoded, text, open_run(config, fresh=False))
    batches = [make_batch(encoded.train, rows) for update in trainer._plan(0) for rows in update]
    for batch in batches:
        trainer.update([batch])
    trainers.append(trainer)
print(json.dumps({
    "shapes": len({(batch.src.shape, batch.tgt_in.shape) for batch in batches}),
    "graphs": counter.frame_count,
    "difference": max(float((one - two).abs().max()) for one, two in
                      zip(*(t.model.parameters() for t in trainers), strict=True)),
}))
