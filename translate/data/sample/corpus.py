"""Sentence pairs, their splits and files.

The same code and lexicon give the same bytes on every platform.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from translate.data.lines import write_lines

from . import complex_sentences as several
from . import simple_sentences as one
from .drawing import Draw
from .phrase import Phrase, capital

SEED = 20
COUNTS = {"train": 24_000, "validation": 1_000, "test": 1_000}
DRAWN = 28_000  # more than these, since some cannot be held out
PATTERNS: dict[Callable[[Draw], Phrase | None], float] = {
    one.statement: 26, one.inverted: 13, one.yes_no: 7, one.w_question: 8, one.command: 5,
    one.description: 5, one.comparison: 8, several.embedded: 7, several.reason: 12,
    several.condition: 8, several.relative: 14, several.pronoun_pair: 14, one.passive: 8,
    one.profession: 1.2, one.property_of: 3, one.since: 2, several.coordinated: 4,
    several.obstacle: 2,
}


class Pair(NamedTuple):
    """A sentence pair as words, with its phenomena and its word alignment."""

    phenomena: list[str]
    alignment: list[tuple[int, int]]
    de_tokens: list[str]
    en_tokens: list[str]

    @property
    def german(self) -> str:
        return _join(self.de_tokens)

    @property
    def english(self) -> str:
        return _join(self.en_tokens)


def generate(folder: Path) -> dict[str, int]:
    """Write text and JSON lines of the three splits to "folder"; returns the number of pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = _split(_distinct())
    for name, pairs in splits.items():
        write_lines(folder / f"{name}.de", [pair.german for pair in pairs])
        write_lines(folder / f"{name}.en", [pair.english for pair in pairs])
        write_lines(folder / f"{name}.jsonl",
                    [json.dumps(pair._asdict(), ensure_ascii=False) for pair in pairs])
    return {name: len(pairs) for name, pairs in splits.items()}


def draw_pairs(seed: int) -> Iterator[Pair]:
    """Endlessly many; what was drawn before comes again now and then."""
    draw = Draw(Random(seed))
    while True:
        draw.labels, draw.marks = set(), set()
        phrase = draw.weighted(PATTERNS)(draw)
        if phrase is not None and 3 <= len(phrase.german) <= 18:
            yield _pair(capital(phrase), draw)


def _distinct() -> list[Pair]:
    """Pairs with distinct German."""
    made: dict[str, Pair] = {}
    for pair in draw_pairs(SEED):
        made.setdefault(pair.german, pair)
        if len(made) == DRAWN:
            break
    return list(made.values())


def _pair(phrase: Phrase, draw: Draw) -> Pair:
    """The words, aligned by their links; a mark counts if its word is in the German text."""
    links = {link for token in phrase.german for link in token.links}
    marked = {label for label, link in draw.marks if link in links}
    return Pair(
        sorted(draw.labels | marked),
        [(i, j) for i, de in enumerate(phrase.german) for j, en in enumerate(phrase.english)
         if set(de.links) & set(en.links)],
        [token.text for token in phrase.german], [token.text for token in phrase.english])


def _join(words: list[str]) -> str:
    """The sentence: words apart, punctuation marks close to the word before."""
    return "".join(word if word in ",.?!" else f" {word}" for word in words).lstrip()


def _split(made: list[Pair]) -> dict[str, list[Pair]]:
    """Hold out pairs with words known from training and an English sentence of their own."""
    groups: dict[str, list[Pair]] = {}
    for pair in made:
        groups.setdefault(pair.english, []).append(pair)
    candidates: list[Pair] = []
    train: list[Pair] = []
    for i, group in enumerate(groups.values()):
        (candidates if i % 9 == 5 and len(group) == 1 else train).extend(group)
    train = train[:COUNTS["train"]]
    german = Counter(word for pair in train for word in pair.de_tokens)
    english = Counter(word for pair in train for word in pair.en_tokens)
    held = [pair for pair in candidates if min(german[word] for word in pair.de_tokens) >= 5
            and min(english[word] for word in pair.en_tokens) >= 5]
    validation, test = COUNTS["validation"], COUNTS["test"]
    return {"train": train, "validation": held[:validation], "test": held[validation:][:test]}
