"""The command `python -m translate.evaluate`: scores on the test sets, greedy and by beam.

Prints BLEU (cased and lowercased), chrF and the brevity penalty of plain text against the raw
references, with sacreBLEU's signatures; writes them and the translations to the run's evaluation/.
"""

import sys
import time
from pathlib import Path
from typing import Any

from translate import command_line
from translate.data.corpora import Corpus, prepare
from translate.data.lines import read_lines, write_lines
from translate.decoding.scores import all_scores, tokenised_bleu
from translate.decoding.translator import Translator
from translate.runs import Trained, find_checkpoint, load_trained, write_json


def evaluate(trained: Trained, corpus: Corpus) -> list[dict[str, Any]]:
    """Score every test set, and all of them together, by greedy search and by beam.

    Writes the hypotheses into `evaluation/` of the run, and the scores beside them as JSON.
    """
    config = trained.config
    translator = Translator(trained.model, trained.source, trained.target, config.decoding)
    folder = trained.checkpoint.resolve().parent / "evaluation"
    folder.mkdir(exist_ok=True)
    sets = {name: (read_lines(source), read_lines(reference))
            for name, (source, reference) in corpus.test.items()}
    results: list[dict[str, Any]] = []
    for beam in sorted({1, config.decoding.beam}):
        search = "greedy" if beam == 1 else f"beam {beam}"
        together: tuple[list[str], list[str]] = ([], [])
        for name, (source, reference) in sets.items():
            started = time.monotonic()
            hypotheses = translator.translate_best(source, beam)
            seconds = time.monotonic() - started
            write_lines(folder / f"{name}.{search.replace(' ', '')}.en", hypotheses)
            results.append(_row(name, search, hypotheses, reference, seconds))
            together[0].extend(hypotheses)
            together[1].extend(reference)
        if len(sets) > 1:
            results.append(_row("together", search, *together, None))
    write_json({"checkpoint": str(trained.checkpoint), "corpus": config.data.corpus,
                "length_penalty": config.decoding.length_penalty, "results": results},
               folder / "scores.json")
    return results


def _row(name: str, search: str, hypotheses: list[str], references: list[str],
         seconds: float | None) -> dict[str, Any]:
    scores = all_scores(hypotheses, references)
    tokenised = tokenised_bleu(hypotheses, references)
    return {"test_set": name, "search": search, "sentences": len(references),
            "bleu": scores.bleu.value, "bleu_signature": scores.bleu.signature,
            "bleu_lowercased": scores.bleu_lowercased.value,
            "bleu_lowercased_signature": scores.bleu_lowercased.signature,
            "chrf": scores.chrf.value, "chrf_signature": scores.chrf.signature,
            "brevity_penalty": scores.brevity_penalty, "length_ratio": scores.length_ratio,
            "tokenised_bleu": tokenised.value, "tokenised_bleu_signature": tokenised.signature,
            "seconds": seconds}


_COLUMNS = (("test_set", "test set"), ("search", "search"), ("sentences", "sentences"),
            ("bleu", "BLEU"), ("bleu_lowercased", "BLEU lowercased"), ("chrf", "chrF"),
            ("brevity_penalty", "brevity penalty"), ("tokenised_bleu", "tutorials' BLEU*"))


def table(results: list[dict[str, Any]], lowercase: bool) -> str:
    """For people: a row a test set and search, with the signatures below.

    `lowercase`: the model writes no capitals, which the cased BLEU cannot forgive.
    """
    rows = [[title for _, title in _COLUMNS]]
    for result in results:
        rows.append([f"{result[key]:.2f}" if isinstance(result[key], float)
                     else f"{result[key]:,}" if isinstance(result[key], int) else result[key]
                     for key, _ in _COLUMNS])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) if n < 2 else cell.rjust(width)
                       for n, (cell, width) in enumerate(zip(row, widths, strict=True)))
             for row in rows]
    first = results[0]
    return "\n".join([
        *lines, "",
        f"BLEU             {first['bleu_signature']}",
        f"BLEU lowercased  {first['bleu_lowercased_signature']}",
        f"chrF             {first['chrf_signature']}",
        f"* {first['tokenised_bleu_signature']}: for comparison with older tutorials alone",
        *(["This run lowercases its text (text.lowercase): of its two BLEU figures, the lowercased "
           "one tells how well it translates."] if lowercase else []),
    ])


def main() -> None:
    arguments = command_line.parser("evaluate", __doc__ or "")
    arguments.add_argument("--checkpoint", type=Path, metavar="FOLDER",
                           help="a run folder or its best/ or last/ (default: the best checkpoint "
                                "of the newest run)")
    command_line.add_overrides(arguments)
    options = arguments.parse_args()
    checkpoint = find_checkpoint(options.checkpoint)
    trained = load_trained(checkpoint, options.overrides)
    print(f"evaluating {checkpoint} on {trained.config.data.corpus}", file=sys.stderr)
    print(table(evaluate(trained, prepare(trained.config.data)), trained.config.text.lowercase))


if __name__ == "__main__":
    command_line.run(main)
