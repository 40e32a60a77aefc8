"""One batch forward and backward, at initialisation and after some updates."""

import copy
import math
import re
import tempfile
from collections import defaultdict
from pathlib import Path

from translate.config import Config, save_config
from translate.data.batching import Batch, TokenBatchSampler, make_batch
from translate.data.encoding import EncodedCorpus
from translate.data.vocabulary import PAD
from translate.diagnosis.report import Check, table
from translate.model.layers import Weights
from translate.model.transformer import Transformer
from translate.runs import Run
from translate.training.loss import LabelSmoothingLoss, batch_loss
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText

BATCH_TOKENS = 512  # at most: enough to see, and a CPU can do it
_UNEVEN = 30.0  # times the gradient of another layer

Norms = dict[str, dict[str, float]]  # layer -> part of it -> norm


def first_updates(
    config: Config, corpus: EncodedCorpus, steps: int
) -> tuple[Transformer, Transformer]:
    """The model as it is initialised, and after some updates as configured, but of one small batch.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        save_config(config, run.config)
        trainer = Trainer(config, corpus, ParallelText([], []), run)
        first = copy.deepcopy(trainer.model)
        trainer.model.train()
        sampler = TokenBatchSampler(corpus.train, min(config.training.batch_tokens, BATCH_TOKENS),
                                    config.seed)
        epoch = 0
        while trainer.progress.update < steps:
            for rows in sampler.batches(epoch)[:steps - trainer.progress.update]:
                trainer.update([make_batch(corpus.train, rows)])
            epoch += 1
        trainer.monitor.close()
    return first.eval(), trainer.model.eval()


def forward_and_backward(
    config: Config, model: Transformer, batch: Batch
) -> tuple[float, Weights]:
    """−log p a token, and all attention; leaves gradients in the model."""
    weights = Weights()
    model.zero_grad()
    criterion = LabelSmoothingLoss(model.output.out_features, PAD, config.training.label_smoothing)
    smoothed, nll = batch_loss(model, criterion, batch, weights)
    (smoothed / batch.tokens).backward()
    return float(nll / batch.tokens), weights


def gradient_norms(model: Transformer) -> Norms:
    """By layer and part of a layer, "all" for the sum of either."""
    squares: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, parameter in model.named_parameters():
        in_layer = re.match(r"((?:encoder|decoder)\.\d+)\.(\w+)", name)
        row, part = in_layer.groups() if in_layer else (name.split(".")[0], "")
        row, part = row.replace(".", " "), part.replace("_", "-")
        part = "norms" if part.startswith("around") else part
        if parameter.grad is not None:
            square = float(parameter.grad.double().square().sum())
            for key, column in ((row, part), (row, "all"), ("all", part), ("all", "all")):
                squares[key][column] += square
    squares["all"] = squares.pop("all")  # below the others
    return {row: {part: math.sqrt(x) for part, x in found.items()}
            for row, found in squares.items()}


def gradient_table(norms: list[Norms]) -> str:
    """One measurement, or the earlier and the later side by side."""
    columns = ["self-attention", "cross-attention", "feed-forward", "norms", "all"]
    return table([["gradient norm", *columns], *(
        [row, *(" → ".join(f"{n[row][c]:.2g}" for n in norms) if c in found else ""
                for c in columns)] for row, found in norms[-1].items())])


def check_gradients(
    model: Transformer, losses: list[float], norms: list[Norms]
) -> list[Check]:
    """Of the first and the last measurement; the gradients themselves are in the model."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    wrong = [f"the loss is {loss}" for loss in losses if not math.isfinite(loss)]
    wrong += [name for name, g in gradients.items() if g is not None and not g.isfinite().all()]
    unused = [name for name, g in gradients.items() if g is None or not g.any()]
    layers = {row: found["all"] for row, found in norms[0].items() if " " in row}
    least, most = (pick(layers, key=layers.__getitem__) for pick in (min, max))
    checks = [
        Check("the loss and all gradients are finite", wrong),
        Check("every parameter has a gradient", unused),
        Check("no layer's gradient vanishes or explodes beside another's", [
            f"{least}: {layers[least]:.2g}, {most}: {layers[most]:.2g}"
        ] if not layers[most] <= _UNEVEN * layers[least] else [], warning=True)]
    if len(losses) > 1:
        checks.append(Check("the first updates lower the loss", [] if losses[-1] < losses[0] else [
            f"from {losses[0]:.3f} to {losses[-1]:.3f}"], warning=True))
    return checks
