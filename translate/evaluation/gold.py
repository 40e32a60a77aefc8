"""What the generated corpus knows of its pairs: phenomena, word alignments, classes of words."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from translate.data.lines import read_lines
from translate.data.sample.corpus import Pair
from translate.data.sample.inflection import imperative
from translate.data.sample.lexicon import AUXILIARIES, MODALS, VERBS, WORDS, Verb

DETERMINERS = {"the", "a", "an", "this", "these", "every",
               "my", "your", "his", "her", "its", "our", "their"}
PRONOUNS = {"i", "you", "he", "she", "it", "we", "they", "me", "him", "us", "them"}
CLASSES = ("verb", "determiner", "pronoun", "noun", "other")


def read_gold(path: Path) -> list[Pair]:
    return [Pair(**json.loads(line)) for line in read_lines(path)]


def word_classes(pair: Pair) -> list[str]:
    """The class of each English word: determiners and pronouns by the word itself, verbs and
    nouns by the German words that it is aligned with."""
    first, *others = pair.de_tokens
    german = [first.lower(), *others]
    classes = []
    for j, word in enumerate(pair.en_tokens):
        aligned = [german[i] for i, k in pair.alignment if k == j]
        classes.append("determiner" if word.lower() in DETERMINERS
                       else "pronoun" if word.lower() in PRONOUNS
                       else "verb" if any(word in _verb_forms() for word in aligned)
                       else "noun" if any(word[0].isupper() for word in aligned)
                       else "other")
    return classes


def exact_match(
    pairs: Sequence[Pair], hypotheses: Sequence[str], references: Sequence[str]
) -> dict[str, dict[str, int]]:
    """By phenomenon: the sentences that have it, and those translated just as the reference."""
    found: dict[str, dict[str, int]] = {}
    for pair, hypothesis, reference in zip(pairs, hypotheses, references, strict=True):
        for label in ("all", *pair.phenomena):
            count = found.setdefault(label, {"sentences": 0, "right": 0})
            count["sentences"] += 1
            count["right"] += hypothesis == reference
    return found


@cache
def _verb_forms() -> frozenset[str]:
    """Every form of a German verb of the lexicon, separable ones with their prefix and without."""
    forms = {"worden"}
    opinions = [Verb(lemma, row["de"], row["en"], present=tuple(row.get("present", ())))
                for lemma, row in WORDS["opinions"].items()]
    for verb in (*VERBS.values(), *AUXILIARIES.values(), *MODALS.values(), *opinions):
        third, _, participle = verb.de.split()
        own = {verb.infinitive, participle, imperative(verb.infinitive, third)}
        own |= {verb.finite(tense, person, plural) for tense in ("present", "preterite")
                for person in (1, 2, 3) for plural in (False, True)}
        forms |= own | {verb.prefix + form for form in own}
    return frozenset(forms)
