"""Balanced drawing: chance from one source, rare words ahead of common ones.

All choices use random.random alone, which is the same on every platform and in every version.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import TypeVar

from .phrase import Phrase, pair

Choice = TypeVar("Choice")


@dataclass
class Draw:
    """The source of chance, what was used how often, and the phenomena of the sentence."""

    rng: Random
    used: Counter[str] = field(default_factory=Counter)
    labels: set[str] = field(default_factory=set)
    marks: set[tuple[str, str]] = field(default_factory=set)  # label, and the link it depends on

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def any(self, candidates: Sequence[Choice]) -> Choice:
        return candidates[int(self.rng.random() * len(candidates))]

    def pick(self, candidates: Sequence[str], kind: str = "") -> str:
        """The least used of four random candidates: rare words catch up with common ones."""
        four = [self.any(candidates) for _ in range(4)]
        best = min(four, key=lambda name: self.used[kind + name])
        self.used[kind + best] += 1
        return best

    def weighted(self, weights: Mapping[Choice, float]) -> Choice:
        """One of the keys, as often as its weight says."""
        *totals, total = accumulate(weights.values())
        return list(weights)[bisect(totals, self.rng.random() * total)]

    def entry(self, table: Mapping[str, str], german: str = "", english: str = "") -> Phrase:
        """A German word of the table with its translation, after fixed words."""
        word = self.pick(list(table))
        return pair(german + word, english + table[word])
