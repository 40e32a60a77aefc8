"""The command `python -m translate.diagnose`: is a model healthy that you changed, or trained?

Prints its parameters, the gradient of each layer, where attention goes and the scale of the states
through depth, and draws them. Then says what it has tested: by gradient, that nothing leaks in from
later tokens, padding or other sentences; wholly masked rows; decoding with a cache; dead heads;
and more. With --config a new model, before and after some updates; with --checkpoint a trained one.
Exits with 1 if a test failed. A warning is for you to judge.
"""

import argparse
import math
import sys
from pathlib import Path

from translate import command_line
from translate.config import Config
from translate.data.batching import Batch, TokenBatchSampler, make_batch
from translate.data.corpora import prepare
from translate.data.encoding import EncodedCorpus, Pairs, encode
from translate.data.vocabulary import PAD
from translate.diagnosis.activations import both_norms, check_embeddings, scale_table, scales
from translate.diagnosis.agreement import check_agreement
from translate.diagnosis.attention import (
    attention_layers,
    attention_table,
    check_dead_heads,
    check_masked_rows,
    check_rows,
    check_saturation,
)
from translate.diagnosis.gradients import (
    BATCH_TOKENS,
    check_gradients,
    first_updates,
    forward_and_backward,
    gradient_norms,
    gradient_table,
)
from translate.diagnosis.leaks import check_leaks
from translate.diagnosis.report import parameter_table, verdict
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.runs import find_checkpoint, load_trained


def main() -> None:
    arguments = command_line.parser("diagnose", __doc__ or "")
    command_line.add_config_options(arguments)
    arguments.add_argument("--checkpoint", type=Path, metavar="FOLDER",
                           help="a run folder, or its best/ or last/; replaces --config")
    arguments.add_argument("--steps", type=int, default=20, metavar="N",
                           help="updates of a new model, on small batches, before it is looked at "
                                "again (default: %(default)s)")
    arguments.add_argument("--out", type=Path, default=Path("diagnosis"), metavar="FOLDER",
                           help="where the pictures go (default: %(default)s)")
    options = arguments.parse_args()
    config, corpus, models = load(options)
    first, model = (list(models.values())[n] for n in (0, -1))
    batch, updates = a_batch(config, corpus.train)
    batch = batch.to(next(model.parameters()).device)

    section("Parameters", parameter_table(model))
    losses, norms = {}, {}
    for label, one in models.items():
        losses[label], weights = forward_and_backward(config, one, batch)
        norms[label] = gradient_norms(one)
        if one is first:
            attention = attention_layers(weights, batch)
    section("Loss and gradients",
            f"one batch: {len(batch.src)} pairs, {batch.source_tokens:,} + {batch.tokens:,} tokens "
            f"and {batch.src.numel() - batch.source_tokens:,} + "
            f"{batch.tgt_in.numel() - batch.tokens:,} of padding, no dropout",
            *(f"{label}: {loss:.3f} nats a token" for label, loss in losses.items()),
            f"an even guess: {math.log(model.output.out_features - 1):.3f} nats a token\n",
            gradient_table(list(norms.values())),
            "Healthy: all layers of a column within a factor of ten or so.")
    section(f"Attention, {next(iter(models))}", attention_table(attention),
            "Evenness: 1 is equal weights, 0 a single key; of the least and the most even head.")
    depth = {list(models)[-1]: scales(model, batch), **both_norms(config, model, batch)}
    section("Scale of the states through depth", scale_table(depth),
            "Healthy: level with post-norm, a steady rise with pre-norm.")

    checks = [*check_leaks(model), *check_agreement(model), check_masked_rows(model),
              *check_rows(attention),
              *check_gradients(model, list(losses.values()), list(norms.values()))]
    checks += [check_dead_heads(attention)] if options.checkpoint else [
        check_saturation(attention), check_embeddings(first, batch)]

    from translate.diagnosis import pictures  # loads matplotlib

    section("Pictures")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, figure in (
            ("gradients", pictures.draw_gradients(norms)),
            ("activations", pictures.draw_scales(depth)),
            ("positions", pictures.draw_positions(model, config.data.max_length + 1)),
            ("schedule", pictures.draw_schedule(config, updates))):
        figure.savefig(options.out / f"{name}.png")
        print(options.out / f"{name}.png")
    section("Verdict", verdict(checks))
    if any(check.failed for check in checks):
        sys.exit(1)


def section(title: str, *parts: str) -> None:
    print(f"\n{title}\n{'=' * len(title)}", *parts, sep="\n")


def load(options: argparse.Namespace) -> tuple[Config, EncodedCorpus, dict[str, Transformer]]:
    """The model in evaluation mode: at initialisation and after some updates, or as trained."""
    if options.checkpoint is None:
        config = command_line.config_from(options)
        corpus = encode(config, prepare(config.data))
        first, later = first_updates(config, corpus, options.steps)
        after = {f"after {options.steps} updates": later} if options.steps > 0 else {}
        return config, corpus, {"at initialisation": first, **after}
    checkpoint = find_checkpoint(options.checkpoint)
    config, model, source, target, _ = load_trained(checkpoint, options.overrides)
    corpus = encode(config, prepare(config.data))
    for side, learned in ((corpus.source, source), (corpus.target, target)):
        if side.vocabulary.tokens != learned.vocabulary.tokens:
            raise UserError(f"{config.data.corpus} has changed since {checkpoint} was trained on "
                            "it: its training split now gives another vocabulary")
    return config, corpus, {str(checkpoint): model}


def a_batch(config: Config, pairs: Pairs) -> tuple[Batch, int]:
    """Of twenty small training batches the one with most padding; and how many updates are planned.
    """
    training = config.training
    small, plan = (TokenBatchSampler(pairs, tokens, config.seed).batches(0)
                   for tokens in (min(training.batch_tokens, BATCH_TOKENS), training.batch_tokens))
    batches = [make_batch(pairs, rows) for rows in small[:20]]
    updates = training.epochs * math.ceil(len(plan) / training.accumulate)
    return (max(batches, key=lambda b: int((b.src == PAD).sum() + (b.tgt_in == PAD).sum())),
            min(updates, training.max_updates or updates))


if __name__ == "__main__":
    command_line.run(main)
