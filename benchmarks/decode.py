"""How fast translations are found, beside other programs with the same weights.

    python benchmarks/decode.py                     # trains benchmarks/small.yaml if need be
    python benchmarks/decode.py --checkpoint checkpoints/benchmark-small --only ours,marian

All search for the same token ids of Multi30k's test_2016_flickr and take turns in every round.
Loading, warming up and the way from text to ids and back are not timed, but for the systems that
say "text". BLEU and length tell whether a program is fast because it stops early. With one length
penalty each has a formula of its own: Marian and CTranslate2 divide by a power of the length, ours
and JoeyNMT as Wu et al. (2016) do.
"""

import argparse
import contextlib
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from environments import REQUIREMENTS
from systems import Answer, System, Systems, Task

from translate.command_line import add_overrides, run
from translate.config import load_config
from translate.data.corpora import prepare
from translate.data.lines import read_lines, tidy
from translate.decoding.scores import bleu
from translate.errors import UserError
from translate.runs import BASE, Trained, find_checkpoint, load_trained
from translate.storage import write_json

TEST_SET = "test_2016_flickr"
SEARCHES = {"greedy": 1, "beam 5": 5}
CTRANSLATE2 = ("ctranslate2 threads", "ctranslate2 workers",
               "ctranslate2 int8 threads", "ctranslate2 int8 workers")


class Setting(NamedTuple):
    """Systems that take turns at the same sentences, in batches of the same size."""

    name: str
    batch: dict[str, int]  # see peers/serve.py
    every: int  # of the sentences in order of length, each n-th takes part
    systems: Sequence[str]  # those that are compared one after the other, since machines vary


BATCH = Setting("batch 64", {"batch": 64}, 1,
                ("ours", "ctranslate2 threads", "ours workers", "ctranslate2 workers", "marian",
                 *CTRANSLATE2[2:], "ours text", "ours text workers"))
SLOW = Setting("batch 64, every 5th sentence", {"batch": 64}, 5,
               ("ours", "ours uncached", "ours uncached plain", "joeynmt"))
BUDGET = Setting("batches of 4,096 tokens, every 2nd sentence", {"batch_tokens": 4096}, 2,
                 ("ours", "ctranslate2 threads", "ours workers", "ctranslate2 workers", "marian"))
SINGLE = Setting("batch 1, every 20th sentence", {"batch": 1}, 20,
                 ("ours", "marian", "joeynmt", *CTRANSLATE2))
SETTINGS = (BATCH, SLOW, BUDGET, SINGLE)

TARGETS = (  # setting, search, a system, another, and how many times as fast as that it has to be
    (SLOW, "greedy", "ours", "ours uncached plain", 6.0),
    (SLOW, "greedy", "ours", "ours uncached", 6.0),
    (BATCH, "beam 5", "ours", "marian", 2.5),
    (SLOW, "beam 5", "ours", "joeynmt", 8.0),
    (BATCH, "greedy", "ours", "ctranslate2 threads", 1.0),
    (BATCH, "beam 5", "ours", "ctranslate2 threads", 1.0),
    (BUDGET, "greedy", "ours", "ctranslate2 threads", 1.0),
    (BUDGET, "beam 5", "ours", "ctranslate2 threads", 1.0),
    (BATCH, "greedy", "ours workers", "ctranslate2 workers", 0.7),
    (BATCH, "beam 5", "ours workers", "ctranslate2 workers", 0.7),
)

Tasks = Callable[[Setting, int], Task]  # of a setting and a beam
Answers = dict[tuple[str, str, str], list[Answer]]  # by setting, search and system, of each round


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the programs started from here
    trained = load_trained(_checkpoint(options), options.overrides)
    tasks = _tasks(trained, options.sentences)
    with contextlib.ExitStack() as stack:
        systems = _start(Systems(trained, options.threads, stack), options.only)
        _compare_greedy(systems, tasks)
        answers = _measure(systems, tasks, options.rounds)
    report = _report(answers, tasks, trained, options)
    write_json(report, options.output)
    print(_table(report))
    print(f"wrote {options.output}", file=sys.stderr)


def _options() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--config", type=Path, default=Path("benchmarks/small.yaml"),
                           help="the run to train or to go on with (default: %(default)s)")
    arguments.add_argument("--checkpoint", type=Path, metavar="FOLDER",
                           help="a trained run instead")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=2,
                           help="of a system, or its workers (default: %(default)s)")
    arguments.add_argument("--sentences", type=int, help="fewer of them, for a quick look")
    arguments.add_argument("--only", default="", metavar="ours,marian",
                           help="systems whose names begin like this")
    arguments.add_argument("--output", type=Path, default=Path("benchmarks/decode.json"))
    add_overrides(arguments)
    return arguments.parse_args()


def _checkpoint(options: argparse.Namespace) -> Path:
    if options.checkpoint is None:  # training leaves a finished run alone
        overrides = [part for setting in options.overrides for part in ("--set", setting)]
        training = subprocess.run([sys.executable, "-m", "translate.train", "--config",
                                   options.config, *overrides], stdout=sys.stderr)
        if training.returncode:
            sys.exit(training.returncode)  # it has said why
        return find_checkpoint(BASE / load_config(options.config, options.overrides).name)
    return find_checkpoint(options.checkpoint)


def _tasks(trained: Trained, sentences: int | None) -> Tasks:
    corpus = prepare(trained.config.data)
    lines, references = (read_lines(path) for path in corpus.test[TEST_SET])
    source = trained.source
    sources = [source.vocabulary.ids(source.pipeline.split(tidy(line))) for line in lines]
    by_length = sorted(range(len(lines)), key=lambda n: len(sources[n]))
    by_length = by_length[::max(1, len(lines) // (sentences or len(lines)))]

    def tasks(setting: Setting, beam: int) -> Task:
        rows = sorted(by_length[::setting.every])
        return Task([lines[n] for n in rows], [references[n] for n in rows], {
            "sources": [sources[n] for n in rows], "beam": beam, **setting.batch,
            "limits": [trained.config.decoding.limit(len(sources[n])) for n in rows]})

    return tasks


def _start(systems: Systems, only: str) -> dict[str, System]:
    started: dict[str, System] = {}
    for name in dict.fromkeys(name for setting in SETTINGS for name in setting.systems):
        if name.startswith(tuple(only.split(","))):
            try:
                started[name] = systems.start(name)
            except (OSError, ImportError, UserError, subprocess.CalledProcessError) as error:
                _leave_out(name, error)
    return started


def _attempt(name: str, systems: dict[str, System], task: Task) -> Answer | None:
    """None from a system that fails, which takes part no more."""
    try:
        return systems[name](task)
    except (OSError, UserError) as error:
        _leave_out(name, error)
        del systems[name]
        return None


def _leave_out(name: str, error: Exception) -> None:
    print(f"LEFT OUT: {name}: {error}", file=sys.stderr)


def _compare_greedy(systems: dict[str, System], tasks: Tasks) -> None:
    """Warms up, and tells which system does not find what ours finds."""
    task = tasks(SLOW, 1)
    expected = None
    for name in list(systems):
        answer = _attempt(name, systems, task)
        if answer and expected is None:
            expected = answer.texts
        elif answer and expected:
            same = _share_alike(answer.texts, expected)
            print(f"{name}: {same:.1%} of its greedy translations are those of the first",
                  file=sys.stderr)
            if same < 0.99 and "int8" not in name:
                print(f"WARNING: {name} IS ANOTHER MODEL: its weights were not carried over as "
                      "they should be, and its figures say nothing", file=sys.stderr)


def _share_alike(texts: Sequence[str], others: Sequence[str]) -> float:
    return statistics.mean(a == b for a, b in zip(texts, others, strict=True))


def _measure(systems: dict[str, System], tasks: Tasks, rounds: int) -> Answers:
    answers: Answers = {}
    for n in range(rounds):
        for setting in SETTINGS:
            for search, beam in SEARCHES.items():
                for name in setting.systems:
                    if name not in systems or ("uncached" in name and beam > 1):
                        continue
                    time.sleep(0.5)  # threads of the program before this one may still be spinning
                    answer = _attempt(name, systems, tasks(setting, beam))
                    if answer is not None:
                        answers.setdefault((setting.name, search, name), []).append(answer)
                        print(f"round {n + 1}, {setting.name}, {search}, {name}: "
                              f"{len(answer.texts) / answer.seconds:.1f} sentences/s",
                              file=sys.stderr)
    return answers


def _report(answers: Answers, tasks: Tasks, trained: Trained,
            options: argparse.Namespace) -> dict[str, Any]:
    rows = []
    for (setting, search, name), of_rounds in answers.items():
        last = of_rounds[-1]
        references = tasks(next(s for s in SETTINGS if s.name == setting), 1).references
        seconds = [answer.seconds for answer in of_rounds]
        ours = answers.get((setting, search, "ours"))
        rows.append({
            "setting": setting, "search": search, "system": name, "sentences": len(last.texts),
            "seconds": seconds,
            "sentences_per_second": len(last.texts) / statistics.median(seconds),
            "tokens_per_second": last.tokens / statistics.median(seconds),
            "tokens_per_sentence": last.tokens / len(last.texts),
            "bleu": bleu(last.texts, references).value,
            "as_ours": _share_alike(last.texts, ours[-1].texts) if ours else None})
    ratios = []
    for target, search, name, other, at_least in TARGETS:
        ours, theirs = (answers.get((target.name, search, system)) for system in (name, other))
        times = [b.seconds / a.seconds for a, b in zip(ours or (), theirs or (), strict=False)]
        ratios.append({"setting": target.name, "search": search, "system": name, "other": other,
                       "ratio": statistics.median(times) if times else None, "rounds": times,
                       "at_least": at_least})
    return {"checkpoint": str(trained.checkpoint), "machine": platform.platform(),
            "cores": os.cpu_count(), "threads": options.threads, "torch": torch.__version__,
            "peers": REQUIREMENTS, "results": rows, "ratios": ratios}


def _table(report: dict[str, Any]) -> str:
    lines, heading = [], ""
    for row in report["results"]:
        title = f"{row['search']}, {row['setting']} ({row['sentences']:,} sentences)"
        if title != heading:
            lines += ["", f"{title:<62}{'sentences/s':>12}{'tokens/s':>10}{'BLEU':>7}"
                          f"{'tokens':>8}{'as ours':>9}"]
            heading = title
        alike = "" if row["as_ours"] is None else f"{row['as_ours']:.1%}"
        lines.append(f"  {row['system']:<60}{row['sentences_per_second']:>12.1f}"
                     f"{row['tokens_per_second']:>10,.0f}{row['bleu']:>7.2f}"
                     f"{row['tokens_per_sentence']:>8.2f}{alike:>9}")
    lines.append("")
    for ratio in report["ratios"]:
        setting = ratio["setting"].split(", every")[0]
        title = f"{ratio['search']}, {setting}: {ratio['system']} ÷ {ratio['other']}"
        if ratio["ratio"] is None:
            lines.append(f"{title:<68}not measured")
            continue
        verdict = "reached" if ratio["ratio"] >= ratio["at_least"] else "MISSED"
        lines.append(f"{title:<68}{ratio['ratio']:>6.2f} ({min(ratio['rounds']):.2f} to "
                     f"{max(ratio['rounds']):.2f}), at least {ratio['at_least']:g}: {verdict}")
    return "\n".join(lines)


if __name__ == "__main__":
    run(main)
