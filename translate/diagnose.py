"""The command `python -m translate.diagnose`: what a model is made of, and whether it is healthy.

Prints its modules, shapes and parameter counts, and takes one real batch through forward and
backward: gradient norms by layer, and where attention goes. Draws its positions and its learning
rate. A model as it is before training with --config, a trained one with --checkpoint. Exits with 1
if attention falls on padding or the future, or if a loss or gradient is not finite.
"""

import argparse
import math
import re
import sys
from collections import defaultdict
from pathlib import Path

import torch

from translate import command_line
from translate.config import Config
from translate.data.batching import Batch, TokenBatchSampler, causal_mask, make_batch, padding_mask
from translate.data.corpora import prepare
from translate.data.encoding import Pairs, encode
from translate.data.vocabulary import PAD
from translate.errors import UserError
from translate.model.layers import Weights
from translate.model.transformer import Transformer
from translate.runs import build_model, find_checkpoint, load_trained, pick_device
from translate.training.loss import LabelSmoothingLoss


def main() -> None:
    arguments = command_line.parser("diagnose", __doc__ or "")
    command_line.add_config_options(arguments)
    arguments.add_argument("--checkpoint", type=Path, metavar="FOLDER",
                           help="a run folder, or its best/ or last/; replaces --config")
    arguments.add_argument("--out", type=Path, default=Path("diagnosis"), metavar="FOLDER",
                           help="where positions.png and schedule.png go (default: %(default)s)")
    options = arguments.parse_args()
    config, model, pairs = load(options)
    batch, updates = a_batch(config, pairs)

    print(parameter_table(model))
    loss, weights = forward_and_backward(config, model, batch)
    print(f"\nOne batch of {len(batch.src)} pairs, {batch.source_tokens:,} + {batch.tokens:,} "
          f"tokens, no dropout:\nloss {loss:.3f} nats a token, where an even guess has "
          f"{math.log(model.output.out_features - 1):.3f}")
    problems = [] if math.isfinite(loss) else [f"the loss is {loss}"]
    problems += [f"the gradient of {name} is not finite" for name, p in model.named_parameters()
                 if p.grad is not None and not p.grad.isfinite().all()]
    attention, leaks = attention_table(weights, batch)
    print(f"\n{gradient_table(model)}\n\n{attention}\n")

    from translate.diagnose_pictures import draw_positions, draw_schedule  # loads matplotlib

    options.out.mkdir(parents=True, exist_ok=True)
    for name, figure in (("positions", draw_positions(model, config.data.max_length + 1)),
                         ("schedule", draw_schedule(config, updates))):
        figure.savefig(options.out / f"{name}.png")
        print(f"wrote {options.out / name}.png")
    if problems := [*problems, *leaks]:
        sys.stdout.flush()
        print("\n".join(f"FAILED: {problem}" for problem in problems), file=sys.stderr)
        sys.exit(1)


def load(options: argparse.Namespace) -> tuple[Config, Transformer, Pairs]:
    """The model, in evaluation mode on the configured device, and its training pairs."""
    if options.checkpoint is None:
        config = command_line.config_from(options)
        corpus = encode(config, prepare(config.data))
        torch.manual_seed(config.seed)
        model = build_model(config, len(corpus.source.vocabulary), len(corpus.target.vocabulary))
        return config, model.to(pick_device(config.device)).eval(), corpus.train
    checkpoint = find_checkpoint(options.checkpoint)
    config, model, source, target, _ = load_trained(checkpoint, options.overrides)
    corpus = encode(config, prepare(config.data))
    for side, learned in ((corpus.source, source), (corpus.target, target)):
        if side.vocabulary.tokens != learned.vocabulary.tokens:
            raise UserError(f"{config.data.corpus} has changed since {checkpoint} was trained on "
                            "it: its training split now gives another vocabulary")
    print(f"checkpoint: {checkpoint}\n")
    return config, model, corpus.train


def a_batch(config: Config, pairs: Pairs) -> tuple[Batch, int]:
    """Of twenty training batches the one with most padding; and how many updates are planned."""
    training = config.training
    plan = TokenBatchSampler(pairs, training.batch_tokens, config.seed).batches(0)
    batches = [make_batch(pairs, rows) for rows in plan[:20]]
    updates = training.epochs * math.ceil(len(plan) / training.accumulate)
    return (max(batches, key=lambda b: int((b.src == PAD).sum() + (b.tgt_in == PAD).sum())),
            min(updates, training.max_updates or updates))


def table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
             for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def parameter_table(model: Transformer) -> str:
    """A line for each tensor, like ones of all layers together; shared ones count once."""
    owners: dict[int, str] = {}
    sizes: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = owners.setdefault(id(parameter), name)
        note = "" if owner == name else f"is {owner}"
        shape = " × ".join(map(str, parameter.shape))
        sizes[re.sub(r"\.\d+\.", ".*.", name), shape, note].append(parameter.numel())
    total = sum(parameter.numel() for parameter in model.parameters())
    return table([
        ["parameter", "shape", "layers", "numbers"],
        *([name, shape, str(len(found)) if "*" in name else "", note or f"{sum(found):,}"]
          for (name, shape, note), found in sizes.items()),
        ["total, shared ones counted once", "", "", f"{total:,}"]])


def forward_and_backward(
    config: Config, model: Transformer, batch: Batch
) -> tuple[float, Weights]:
    """−log p a token, and all attention; leaves gradients in the model."""
    batch = batch.to(next(model.parameters()).device)
    weights = Weights()
    memory = model.encode(batch.src, batch.src_mask, weights)
    states = model.decode(batch.tgt_in, memory, batch.src_mask, batch.tgt_mask, weights=weights)
    logits = model.project(states.flatten(0, 1)[batch.places])
    criterion = LabelSmoothingLoss(logits.size(-1), PAD, config.training.label_smoothing)
    smoothed, nll = criterion(logits, batch.tgt_out.flatten()[batch.places])
    (smoothed / batch.tokens).backward()
    return float(nll / batch.tokens), weights


def gradient_table(model: Transformer) -> str:
    """Norms of the gradient, by layer and part of a layer."""
    columns = ["self-attention", "cross-attention", "feed-forward", "norms", "all"]
    squares: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, parameter in model.named_parameters():
        in_layer = re.match(r"((?:encoder|decoder)\.\d+)\.(\w+)", name)
        row, part = in_layer.groups() if in_layer else (name.split(".")[0], "")
        part = "norms" if part.startswith("around") else part.replace("_", "-")
        if parameter.grad is not None:
            square = float(parameter.grad.double().square().sum())
            for key, column in ((row, part), (row, "all"), ("all", part), ("all", "all")):
                squares[key][column] += square
    squares["all"] = squares.pop("all")  # below the others
    return table([["gradient norm", *columns], *(
        [row, *(f"{math.sqrt(found[c]):.2e}" if c in found else "" for c in columns)]
        for row, found in squares.items())])


def attention_table(weights: Weights, batch: Batch) -> tuple[str, list[str]]:
    """By layer: row sums, the shares that must be 0, evenness; and what is wrong with them.

    Evenness is the entropy of a row over that of equal weights, on average: in a trained model,
    1 in every layer says that it has not learned where to look.
    """
    src, tgt = batch.src_mask, padding_mask(batch.tgt_in)
    past = causal_mask(batch.tgt_in.size(1))
    rows = [["attention", "row sums", "on padding", "on the future", "evenness"]]
    problems = []
    for kind, layers, keys in (("encoder", weights.encoder, src), ("decoder", weights.decoder, tgt),
                               ("cross", weights.cross, src)):
        allowed = (keys & past if kind == "decoder" else keys).sum(dim=-1).double()
        for n, layer in enumerate(layers):
            w = layer.detach().double().cpu()
            sums = w.sum(dim=-1)
            padding = float((w * ~keys).sum() / w.sum())
            future = float((w * ~past).sum() / w.sum()) if kind == "decoder" else 0.0
            evenness = torch.special.entr(w).sum(dim=-1) / allowed.log()
            rows.append([f"{kind} {n}", f"{sums.min():.6f} … {sums.max():.6f}", f"{padding:g}",
                         f"{future:g}", f"{evenness[(allowed > 1).expand_as(sums)].mean():.3f}"])
            if not padding == future == 0:  # so that NaN is wrong too
                problems.append(f"attention leaks in {kind} {n}: {padding:g} of it falls on "
                                f"padding, {future:g} on the future")
    padded = [f"{int((ids == PAD).sum()):,} of {ids.numel():,} {side} places"
              for ids, side in ((batch.src, "source"), (batch.tgt_in, "target"))]
    return f"{table(rows)}\n(padding: {', '.join(padded)})", problems


if __name__ == "__main__":
    command_line.run(main)
