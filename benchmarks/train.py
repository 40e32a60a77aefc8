"""How fast models are trained, beside other programs at the same size and on the same batches.

    python benchmarks/train.py                     # small, base and tiny
    python benchmarks/train.py --sizes small --only ours,marian

All train on the same batches of Multi30k (8,000 joint subwords, at most 4,096 tokens, padding
included), drop where the paper does and nowhere else, clip the gradient, step Adam, and take turns
in every round. Reading, batching and warming up are not timed. Tokens are those of the target,
`<eos>` included and padding not. JoeyNMT takes a second turn at batches as its own sampler makes
them: of the same budget, but of sentences in random order.
"""

import argparse
import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from environments import REQUIREMENTS
from flops import gemm_peak, training_flops
from step_profile import shares
from trainers import Turn, peer, start_trainer, train_on, write_batches

from translate.columns import columns
from translate.command_line import add_overrides, run
from translate.config import Config, load_config
from translate.data.batching import Batch, TokenBatchSampler, make_batch
from translate.data.corpora import prepare
from translate.data.encoding import EncodedCorpus, encode
from translate.errors import UserError
from translate.storage import write_json

CONFIG = Path(__file__).with_name("small.yaml")
BATCH_TOKENS = 4096


class Size(NamedTuple):
    layers: int  # of either side
    d_model: int
    d_ff: int
    turn: int  # batches


SIZES = {"small": Size(3, 256, 1024, 8), "base": Size(6, 512, 1024, 3),
         "tiny": Size(4, 128, 256, 16)}
SYSTEMS = ("ours", "plain", "marian", "joeynmt", "joeynmt, its batches")  # program, batches
RATIOS = {  # size -> other system -> how many times as fast ours has to be
    "small": {"plain": 1.3, "marian": 1.25, "joeynmt, its batches": 3.5}}
SHARE_OF_PEAK = {"base": 0.65}  # of ours, at least


class Plan(NamedTuple):
    """The batches, and which of them each turn takes; the first turn warms up."""

    batches: list[Batch]
    turns: list[range]
    unsorted: list[range]  # likewise, of sentences in random order

    def of(self, system: str) -> list[range]:
        return self.unsorted if system.endswith("its batches") else self.turns


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the programs started from here
    results = [_measure(size, options) for size in options.sizes]
    write_json({"machine": platform.platform(), "cores": os.cpu_count(),
                "threads": options.threads, "torch": torch.__version__, "peers": REQUIREMENTS,
                "results": results}, options.output)
    print("\n\n".join(map(_report, results)))
    print(f"wrote {options.output}", file=sys.stderr)


def _options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", default="small,base,tiny", help="(default: %(default)s)")
    arguments.add_argument("--only", default="", metavar="ours,marian",
                           help="systems whose names begin like this")
    arguments.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    arguments.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    arguments.add_argument("--output", type=Path, default=Path("benchmarks/train.json"))
    add_overrides(arguments)
    options = arguments.parse_args()
    options.sizes = options.sizes.split(",")
    for size in options.sizes:
        if size not in SIZES:
            raise UserError(f"--sizes {size}: there are {', '.join(SIZES)}")
    return options


def _measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    size = SIZES[name]
    config = load_config(CONFIG, [
        f"model.encoder_layers={size.layers}", f"model.decoder_layers={size.layers}",
        f"model.d_model={size.d_model}", f"model.d_ff={size.d_ff}",
        f"training.batch_tokens={BATCH_TOKENS}", *options.overrides])
    corpus = encode(config, prepare(config.data))
    plan = _plan(config, corpus, options.rounds + 1, size.turn)
    flops = partial(training_flops, config.model, len(corpus.target.vocabulary))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_batches(config, corpus, plan.batches, options.threads, folder)
        trainer = start_trainer(config, corpus, folder, stack)
        systems = _start(partial(peer, folder=folder, stack=stack), options.only,
                         partial(train_on, trainer, plan.batches))
        seconds, peaks = _take_turns(systems, plan)
        profile = shares(trainer.model, partial(train_on, trainer, plan.batches, plan.turns[-1]))
    return {"size": name, **size._asdict(), "gemm_peak": peaks, "profile": profile, "systems": {
        system: {"seconds": took, **{
            key: [sum(count(plan.batches[n]) for n in turn) for turn in plan.of(system)[1:]]
            for key, count in (("tokens", lambda batch: batch.tokens), ("flops", flops))}}
        for system, took in seconds.items()}}


def _plan(config: Config, corpus: EncodedCorpus, turns: int, per_turn: int) -> Plan:
    count = turns * per_turn
    pairs = corpus.train
    rows = TokenBatchSampler(pairs, BATCH_TOKENS, config.seed).batches(0)[:count]
    longest = np.maximum(pairs.source.lengths, pairs.target.lengths) + 1
    shuffled = iter(np.random.default_rng(config.seed).permutation(len(longest)).tolist())
    while len(rows) < 2 * count:  # JoeyNMT's rule: full when the budget is reached
        batch = [next(shuffled)]
        while len(batch) * longest[batch].max() < BATCH_TOKENS:
            batch.append(next(shuffled))
        rows.append(np.array(batch))
    starts = [range(n, n + per_turn) for n in range(0, 2 * count, per_turn)]
    return Plan([make_batch(pairs, r) for r in rows], starts[:turns], starts[turns:])


def _start(start: Callable[[str], Turn], only: str, ours: Turn) -> dict[str, Turn]:
    programs, systems = {"ours": ours}, {}
    for system in SYSTEMS:
        program = system.split(",")[0]
        if system.startswith(tuple(only.split(","))):
            try:
                systems[system] = programs.get(program) or start(program)
            except (OSError, subprocess.CalledProcessError) as error:
                _leave_out(system, error)
                continue
            programs[program] = systems[system]
    return systems


def _take_turns(systems: dict[str, Turn], plan: Plan) -> tuple[dict[str, list[float]], list[float]]:
    """The seconds of each system in each round, and the peak of matrix products in each."""
    seconds: dict[str, list[float]] = {system: [] for system in systems}
    peaks = []
    for n in range(len(plan.turns)):
        peaks.append(gemm_peak())
        for system in list(systems):
            try:
                took = systems[system](plan.of(system)[n])
            except UserError as error:
                _leave_out(system, error)
                del systems[system], seconds[system]
                continue
            seconds[system].append(took)
            print(f"{f'round {n}' if n else 'warming up'}, {system}: {took:.1f} s",
                  file=sys.stderr)
    return {system: took[1:] for system, took in seconds.items()}, peaks[1:]


def _leave_out(system: str, error: Exception) -> None:
    print(f"LEFT OUT: {system}: {error}", file=sys.stderr)


def _report(result: dict[str, Any]) -> str:
    systems, peak = result["systems"], statistics.median(result["gemm_peak"])
    rates = {system: [t / s for t, s in zip(found["tokens"], found["seconds"], strict=True)]
             for system, found in systems.items()}
    rows = [["system", "tokens/s", "ours ÷ it", "GFLOP/s", "of peak"]]
    targets = []
    for system, found in systems.items():
        speed = statistics.median(
            f / s for f, s in zip(found["flops"], found["seconds"], strict=True))
        ratios = [a / b for a, b in zip(rates.get("ours", ()), rates[system], strict=False)]
        ratio = statistics.median(ratios) if ratios else None
        rows.append([system, f"{statistics.median(rates[system]):,.0f}",
                     f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratio else "",
                     f"{speed / 1e9:.0f}", f"{speed / peak:.0%}"])
        if ratio and (at_least := RATIOS.get(result["size"], {}).get(system)):
            targets.append(_verdict(f"ours ÷ {system}", ratio, at_least))
        if system == "ours" and (at_least := SHARE_OF_PEAK.get(result["size"])):
            targets.append(_verdict("ours, share of the peak", speed / peak, at_least))
    shares = ", ".join(f"{group} {share:.1%}" for group, share in result["profile"].items())
    return "\n".join([
        f"{result['size']}: {result['layers']}+{result['layers']} layers, d_model "
        f"{result['d_model']}, d_ff {result['d_ff']}; peak of matrix products "
        f"{peak / 1e9:.0f} GFLOP/s", "", columns(rows), "", f"where our update goes: {shares}",
        *targets])


def _verdict(what: str, value: float, at_least: float) -> str:
    return f"{what}: {value:.2f}, at least {at_least:g}: " + (
        "reached" if value >= at_least else "MISSED")


if __name__ == "__main__":
    run(main)
