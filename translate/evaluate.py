"""The command `python -m translate.evaluate`: how well a model translates, and where it does not.

Scores one checkpoint or several on test sets of the corpus, or on files, against the references as
they are on disk: BLEU, chrF and TER with signatures and 95% intervals. Checkpoints after the first
are compared with it by the paired bootstrap test, and use its beam. Scores, translations and
pictures are written to evaluation/ of each run.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from translate import command_line
from translate.config import DataConfig
from translate.data.corpora import Corpus, prepare
from translate.data.lines import read_lines, write_lines
from translate.decoding.translator import Translator
from translate.errors import UserError
from translate.evaluation import report
from translate.evaluation.breakdown import breakdown
from translate.evaluation.outputs import Output, TestSet, score, translate
from translate.runs import Trained, find_checkpoint, load_trained
from translate.storage import write_json


def evaluate(trained: Trained, corpus: Corpus) -> list[dict[str, Any]]:
    """The scores on all test sets, greedy and by beam; they and the translations are written."""
    outputs = translate(_translator(trained), named_sets(corpus), trained.config.decoding.beam)
    (results,) = score([outputs])
    _write(trained, outputs, {"results": results})
    return results


def named_sets(corpus: Corpus, names: Sequence[str] = ()) -> list[TestSet]:
    """The test sets of a corpus, or those named, among which its validation split may be."""
    known = {**corpus.test, "validation": corpus.validation}
    for name in names:
        if name not in known:
            raise UserError(f"--test-set {name}: {corpus.name} has no such set; it has "
                            f"{', '.join(known)}")
    sets = []
    for name in dict.fromkeys(names or corpus.test):
        source, references = known[name]
        gold = [source.with_suffix(".jsonl")] if corpus.name == "sample" else []
        sets.append(TestSet(name, read_lines(source), read_lines(references), gold))
    return sets


def set_of_files(source: Path, references: Path) -> TestSet:
    found = TestSet(source.name, read_lines(source), read_lines(references))
    if not len(found.sources) == len(found.references) > 0:
        raise UserError(f"{source} has {len(found.sources):,} lines and {references} has "
                        f"{len(found.references):,}; every line needs its reference")
    return found


def analyse(trained: Trained, output: Output) -> dict[str, Any]:
    """Print where a model breaks, and return it for JSON; on the generated corpus also by
    phenomenon and attention head, with pictures."""
    test_set = output.test_set
    print(f"\nwhere {trained.checkpoint} breaks: {test_set.name}, {output.search}\n")
    found = {"breakdown": breakdown(test_set.sources, output.translations, test_set.references,
                                    trained.source, trained.target)}
    print(report.breakdown(found["breakdown"]))
    if test_set.gold:
        from translate.evaluation import alignment, gold, pictures  # with lexicon and matplotlib

        pairs = [pair for path in test_set.gold for pair in gold.read_gold(path)]
        references = ([line.lower() for line in test_set.references]
                      if trained.config.text.lowercase else test_set.references)
        phenomena = gold.exact_match(pairs, output.hypotheses, references)
        heads = alignment.align(_translator(trained), trained.target, pairs, test_set.sources,
                                test_set.references)
        print(f"\n{report.phenomena(phenomena)}\n\n{report.alignment(heads)}")
        found |= {"exact_match": phenomena, "alignment": heads.for_json()}
        for name, figure in (("phenomena", pictures.draw_phenomena(phenomena)),
                             ("alignment", pictures.draw_alignment(heads))):
            figure.suptitle(f"{trained.checkpoint}, {test_set.name}")
            figure.savefig(_folder(trained) / f"{test_set.name}.{name}.png")
    return found


def _translator(trained: Trained) -> Translator:
    return Translator([trained.model], trained.source, trained.target, trained.config)


def _write(trained: Trained, outputs: Sequence[Output], found: dict[str, Any]) -> None:
    folder = _folder(trained)
    for output in outputs:
        if output.test_set.name != "together":
            write_lines(folder / f"{output.test_set.name}.{output.search.replace(' ', '')}.en",
                        output.hypotheses)
    write_json({"checkpoint": str(trained.checkpoint), "corpus": trained.config.data.corpus,
                "length_penalty": trained.config.decoding.length_penalty, **found},
               folder / f"{outputs[-1].test_set.name}.json")


def _folder(trained: Trained) -> Path:
    """`evaluation/` of the run; for a checkpoint that is not the best one, a folder in it."""
    checkpoint = trained.checkpoint.resolve()
    folder = Path(os.path.relpath(checkpoint.parent / "evaluation"))
    if checkpoint.name != "best":
        folder /= checkpoint.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sets(models: Sequence[Trained], options: argparse.Namespace) -> list[TestSet]:
    if options.src or options.ref:
        if not (options.src and options.ref) or options.test_sets:
            raise UserError("--src and --ref go together, and without --test-set: German lines "
                            "and their English references")
        return [set_of_files(options.src, options.ref)]
    first, *others = (trained.config.data for trained in models)
    for other in others:
        if _corpus(other) != _corpus(first):
            raise UserError(f"these checkpoints have different corpora, {first.corpus} and "
                            f"{other.corpus}; compare them on --src FILE --ref FILE")
    return named_sets(prepare(first), options.test_sets)


def _corpus(data: DataConfig) -> tuple[object, ...]:
    return data.corpus, data.split_rule, data.validation, data.test


def main() -> None:
    arguments = command_line.parser("evaluate", __doc__ or "")
    arguments.add_argument("--checkpoint", action="append", type=Path, metavar="FOLDER",
                           help="a run folder or its best/ or last/ (default: the best checkpoint "
                                "of the newest run); more of them are compared with the first")
    arguments.add_argument("--test-set", action="append", default=[], dest="test_sets",
                           metavar="NAME", help="a test set of the corpus, or validation; may be "
                                                "repeated (default: all test sets)")
    arguments.add_argument("--src", type=Path, metavar="FILE", help="German lines to translate")
    arguments.add_argument("--ref", type=Path, metavar="FILE", help="their English references")
    command_line.add_overrides(arguments)
    options = arguments.parse_args()
    checkpoints = [find_checkpoint(path) for path in options.checkpoint or [None]]
    models = [load_trained(checkpoint, options.overrides) for checkpoint in checkpoints]
    sets = _sets(models, options)
    systems = []
    for trained in models:
        print(f"evaluating {trained.checkpoint} on {', '.join(each.name for each in sets)}",
              file=sys.stderr)
        systems.append(translate(_translator(trained), sets, models[0].config.decoding.beam))
    results = score(systems)
    for trained, rows in zip(models, results, strict=True):
        print(f"{trained.checkpoint}\n\n{report.scores(rows)}\n")
    print(report.legend(results[0][0], any(each.config.text.lowercase for each in models)))
    for trained, rows in zip(models[1:], results[1:], strict=True):
        print(f"\n{trained.checkpoint} minus {checkpoints[0]}\n\n"
              f"{report.comparison(results[0], rows)}")
    for n, (trained, outputs, rows) in enumerate(zip(models, systems, results, strict=True)):
        baseline = {"baseline": str(checkpoints[0])} if n else {}
        _write(trained, outputs, {**baseline, "results": rows, **analyse(trained, outputs[-1])})
        print(f"wrote {_folder(trained)}", file=sys.stderr)


if __name__ == "__main__":
    command_line.run(main)
