"""Translations of test sets by one model or several, and their scores."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from translate.decoding.scores import brevity, compare, tokenised_bleu
from translate.decoding.translator import Translation, Translator


class TestSet(NamedTuple):
    """Lines as they are on disk."""

    name: str
    sources: list[str]
    references: list[str]
    gold: Sequence[Path] = ()  # of the generated corpus: what it knows of its pairs


class Output(NamedTuple):
    """What a model made of a test set."""

    test_set: TestSet
    search: str
    translations: list[Translation]
    seconds: float

    @property
    def hypotheses(self) -> list[str]:
        return [translation.text for translation in self.translations]


def translate(translator: Translator, sets: Sequence[TestSet], beam: int) -> list[Output]:
    """Every set, and all of them together, by greedy search and then by beam."""
    outputs: list[Output] = []
    for width in sorted({1, beam}):
        search = "greedy" if width == 1 else f"beam {width}"
        found = []
        for test_set in sets:
            started = time.monotonic()
            translations = [best for best, *_ in translator.translate(test_set.sources, width)]
            found.append(Output(test_set, search, translations, time.monotonic() - started))
        outputs += found if len(sets) == 1 else [*found, _together(found)]
    return outputs


def _together(outputs: Sequence[Output]) -> Output:
    sets = [output.test_set for output in outputs]
    return Output(
        TestSet("together", [line for each in sets for line in each.sources],
                [line for each in sets for line in each.references],
                [path for each in sets for path in each.gold]),
        outputs[0].search,
        [translation for output in outputs for translation in output.translations],
        sum(output.seconds for output in outputs))


def score(systems: Sequence[Sequence[Output]]) -> list[list[dict[str, Any]]]:
    """Of each system a row an output, for JSON; the first system is the baseline of the others."""
    rows: list[list[dict[str, Any]]] = [[] for _ in systems]
    for outputs in zip(*systems, strict=True):
        references = outputs[0].test_set.references
        found = compare([output.hypotheses for output in outputs], references)
        for of_system, output, scores in zip(rows, outputs, found, strict=True):
            of_system.append({
                "test_set": output.test_set.name, "search": output.search,
                "sentences": len(references), "seconds": output.seconds,
                **{name: value._asdict() for name, value in scores.items()},
                "bleu_spacy": tokenised_bleu(output.hypotheses, references)._asdict(),
                **brevity(output.hypotheses, references)})
    return rows
