"""The lexicon: the YAML files of data/sample as entries by German lemma.

A second entry for a lemma follows a slash (groß/tall). The fields are explained in the files; an
unknown one raises TypeError, an unknown class of nouns KeyError.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import inflection

LEXICON = Path(__file__).parents[3] / "data" / "sample"


@dataclass(frozen=True)
class Noun:
    """A noun of nouns.yaml; "kind" is its semantic class."""

    lemma: str
    kind: str
    g: str
    en: str
    pl: str = ""
    en_pl: str = ""
    gen: str = ""
    weak: bool = False
    mass: bool = False
    bare: bool = False
    at: tuple[str, ...] = ()
    to: tuple[str, ...] = ()

    @property
    def gendered(self) -> bool:
        """Whether German gender tells he from she."""
        return self.kind in ("person", "relative")

    @property
    def human(self) -> bool:
        return self.gendered or self.kind == "youth"


@dataclass(frozen=True)
class Adjective:
    """An adjective of words.yaml."""

    lemma: str
    en: str
    of: tuple[str, ...]
    comp: str = ""
    de_comp: str = ""
    de_stem: str = ""

    def german(self, compared: bool, attributive: bool = True) -> str:
        """The stem before an ending (teur-, teurer-), or the form after sein (teuer)."""
        lemma = self.lemma.split("/")[0]
        if not compared:
            return self.de_stem if attributive and self.de_stem else lemma
        stem = self.de_stem or lemma
        return self.de_comp or stem + ("r" if stem.endswith("e") else "er")

    def english(self, compared: bool) -> str:
        """The adjective, or its comparative with -er or "more"."""
        return (self.comp or f"more {self.en}") if compared else self.en


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun: nominative, accusative, dative; subject, object; possessives."""

    de: tuple[str, str, str]
    en: tuple[str, str]
    poss: tuple[str, str]
    person: int
    plural: bool = False


@dataclass(frozen=True)
class Verb:
    """A verb of verbs.yaml, or an auxiliary of words.yaml."""

    lemma: str
    de: str
    en: str
    past: str = ""
    part: str = ""
    third: str = ""
    present: tuple[str, ...] = ()
    subject: tuple[str, ...] = ("human",)
    object: tuple[str, ...] = ()
    dative: tuple[str, ...] = ()
    prep: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    goal: tuple[str, ...] = ()
    manner: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    though: tuple[str, ...] = ()
    tenses: tuple[str, ...] = ("present", "preterite", "perfect", "modal", "future")
    where: str = ""
    whither: str = ""
    to: str = ""
    sein: bool = False
    now: bool = False
    passive: bool = False
    imperative: bool = False
    clock: bool = False
    once: bool = False
    static: bool = False
    involuntary: bool = False

    @property
    def prefix(self) -> str:
        """The separable prefix, or nothing."""
        return self.lemma.split("|")[0] if "|" in self.lemma else ""

    @property
    def infinitive(self) -> str:
        """The infinitive without the separable prefix."""
        return self.lemma.split("/")[0].split("|")[-1]

    @property
    def english(self) -> tuple[list[str], str]:
        """The English verb with fixed words, and the movable particle."""
        words, _, particle = self.en.partition("|")
        return words.split(), particle

    def finite(self, tense: str, person: int, plural: bool) -> str:
        """The German finite form in the present or preterite, without the prefix."""
        third, past, _ = self.de.split()
        if tense == "preterite":
            forms = inflection.preterite(past)
        else:
            forms = list(self.present) or inflection.present(self.infinitive, third)
        return forms[person - 1 + 3 * plural]

    def conjugate(self, form: str) -> str:
        """The English "past", "part" (participle), "third" or "ing" form of the first word."""
        base = self.english[0][0]
        past = self.past or inflection.english_past(base)
        return {"past": past, "part": self.part or past, "ing": inflection.english_ing(base),
                "third": self.third or inflection.english_s(base)}[form]


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


_KINDS, _VERBS, WORDS = (yaml.safe_load((LEXICON / f"{name}.yaml").read_text(encoding="utf-8"))
                         for name in ("nouns", "verbs", "words"))
NOUNS = {lemma: Noun(lemma, kind, **_fields(row))
         for kind, rows in _KINDS.items() for lemma, row in rows.items()}
VERBS = {lemma: Verb(lemma, **_fields(row)) for lemma, row in _VERBS.items()}
AUXILIARIES = {lemma: Verb(lemma, **_fields(row)) for lemma, row in WORDS["auxiliaries"].items()}
ADJECTIVES = {lemma: Adjective(lemma, **_fields(row)) for lemma, row in WORDS["adjectives"].items()}
PRONOUNS = {lemma: Pronoun(**_fields(row)) for lemma, row in WORDS["pronouns"].items()}
MODALS = {lemma: Verb(lemma, f"- {row.get('past', '-')} -", "-", present=tuple(row["present"]))
          for lemma, row in WORDS["modals"].items()}
PLACE_ADVERBS: dict[str, str] = {**WORDS["here"], **WORDS["home"], **WORDS["homeward"]}

_CLASSES = {lemma: [lemma] for lemma in [*NOUNS, "pronoun"]}
_CLASSES |= {kind: list(rows) for kind, rows in _KINDS.items()}
_CLASSES |= {kind: list(WORDS[kind]) for kind in ("here", "home", "homeward")}
for _name, _members in WORDS["groups"].items():
    _CLASSES[_name] = [lemma for member in _members for lemma in _CLASSES[member]]


@cache
def expand(*names: str) -> list[str]:
    """The noun lemmas that class names and lemmas stand for, each once, in order."""
    return list(dict.fromkeys(lemma for name in names for lemma in _CLASSES[name]))


@cache
def adjectives_of(noun: str) -> list[str]:
    """The adjectives that may be said of a noun."""
    return [lemma for lemma, row in ADJECTIVES.items() if noun in expand(*row.of)]
