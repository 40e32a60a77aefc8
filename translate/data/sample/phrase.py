"""Phrases in both languages at once: linked words, and noun phrases spelled out.

A German and an English token are aligned if they share a link. Links name the part of the
structure that both words come from, so the alignment is exact.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from . import inflection
from .lexicon import Adjective, Noun, Pronoun

_numbers = count()


def new_key() -> str:
    """A name for a part of the structure, which its links begin with."""
    return str(next(_numbers))


class Token(NamedTuple):
    """A word or punctuation mark with the links that align it."""

    text: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class Phrase:
    """The same thing in both languages."""

    german: list[Token]
    english: list[Token]

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.german + other.german, self.english + other.english)


def tokens(text: str, link: str) -> list[Token]:
    """The words of a text, all with the same link."""
    return [Token(word, (link,)) for word in text.split()]


def pair(german: str, english: str) -> Phrase:
    """Fixed words: aligned one to one if equally many, else all with all."""
    key, one_to_one = new_key(), len(german.split()) == len(english.split())
    de, en = ([Token(word, (f"{key}.{i}" if one_to_one else key,))
               for i, word in enumerate(text.split())] for text in (german, english))
    return Phrase(de, en)


def capital(phrase: Phrase) -> Phrase:
    """The phrase as the beginning of a sentence."""
    german, english = ([Token(words[0].text[0].upper() + words[0].text[1:], words[0].links),
                        *words[1:]] for words in (phrase.german, phrase.english))
    return Phrase(german, english)


@dataclass
class Nominal:
    """A noun phrase. Its determiner is "der", an ein-word, a der-word's stem or empty."""

    noun: Noun | None = None
    pronoun: Pronoun | None = None
    determiner: str = "der"
    english_determiner: str = "the"
    negation: tuple[str, ...] = ()  # for "kein": the link of its clause's "not"
    number: tuple[str, str] | None = None
    plural: bool = False
    adjective: Adjective | None = None
    compared: bool = False
    tail: Phrase | None = None  # a relative clause or a genitive after the noun
    key: str = field(default_factory=new_key)

    def __post_init__(self) -> None:
        self.plural = self.plural or (self.noun is not None and self.noun.g == "p")

    @property
    def gender(self) -> str:
        assert self.noun is not None
        return "p" if self.plural else self.noun.g

    @property
    def agreement(self) -> tuple[int, bool]:
        """Person and plural for the verb."""
        return (self.pronoun.person, self.pronoun.plural) if self.pronoun else (3, self.plural)

    @property
    def definite(self) -> bool:
        """Whether it is known what is meant: also by a pronoun or a name."""
        return self.noun is None or self.noun.bare or self.determiner not in ("", "ein", "kein")

    @property
    def vague(self) -> bool:
        """Whether no pronoun can take it up well: a dog, every dog."""
        return self.english_determiner in ("a", "every")

    def german(self, case: str, preposition: str = "", link: str = "") -> list[Token]:
        """The phrase in a case, after a preposition with which the article may contract."""
        words, key = tokens(preposition, link), self.key
        if self.pronoun:
            return words + tokens(self.pronoun.de[inflection.CASES.index(case)], key + "n")
        assert self.noun is not None
        noun = self.noun
        if self.determiner:
            article = inflection.determiner(self.determiner, case, self.gender)
            fused = inflection.contract(preposition, article) if self.determiner == "der" else None
            words = ([Token(fused, (link, key + "d"))] if fused
                     else [*words, Token(article, (key + "d", *self.negation))])
        if self.number:
            words += tokens(self.number[0], key + "c")
        if self.adjective:
            stem = self.adjective.german(self.compared)
            form = inflection.adjective(stem, self.determiner, case, self.gender)
            words += tokens(form, key + "a")
        form = inflection.noun(noun.lemma, noun.pl, self.gender, case, noun.weak, noun.gen)
        return words + tokens(form, key + "n") + (self.tail.german if self.tail else [])

    def english(self, subject: bool = False, article: bool = True) -> list[Token]:
        """The phrase as subject or object; article=False drops the determiner (by train)."""
        key = self.key
        if self.pronoun:
            return tokens(self.pronoun.en[not subject], key + "n")
        assert self.noun is not None
        words = tokens(self.number[1], key + "c") if self.number else []
        if self.adjective:
            words += tokens(self.adjective.english(self.compared), key + "a")
        form, word = self.noun.en, self.english_determiner if article else ""
        if self.plural:
            form = self.noun.en_pl or inflection.english_s(form)
        words.append(Token(form, (key + "n", *(() if word else (key + "d",)))))  # dem Zug - train
        if word == "a":
            word = inflection.indefinite(words[0].text)
        words[:0] = tokens(word, key + ("d" if self.determiner else "n"))  # Lehrer - a teacher
        return words + (self.tail.english if self.tail else [])
