"""Parallel clauses: one structure, spelled out in German and in English.

A token is a word with its links; a German and an English token are aligned if they share a link.
Links name the part of the structure that both words come from, so the alignment is exact.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from translate.data import inflection


class Token(NamedTuple):
    """A word or punctuation mark with the links that align it."""

    text: str
    links: tuple[str, ...] = ()


class Phrase(NamedTuple):
    """The same thing in both languages."""

    german: list[Token]
    english: list[Token]


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


@dataclass(frozen=True)
class Adjective:
    """An adjective of words.yaml."""

    lemma: str
    en: str
    of: tuple[str, ...]
    comp: str = ""
    de_comp: str = ""
    de_stem: str = ""


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun: nominative, accusative, dative; subject, object."""

    de: tuple[str, str, str]
    en: tuple[str, str]
    poss: tuple[str, str]
    person: int
    plural: bool = False


@dataclass(frozen=True)
class Verb:
    """A verb of verbs.yaml, where the fields are explained, or an auxiliary of words.yaml."""

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
        if tense == "present":
            forms = list(self.present) or inflection.present(self.infinitive, third)
        else:
            forms = inflection.preterite(past)
        return forms[person - 1 + 3 * plural]

    def conjugate(self, form: str) -> str:
        """The English "past", "part" (participle), "third" or "ing" form of the first word."""
        base = self.english[0][0]
        past = self.past or inflection.english_past(base)
        match form:
            case "past":
                return past
            case "part":
                return self.part or past
            case "third":
                return self.third or inflection.english_s(base)
        return inflection.english_ing(base)


@dataclass
class Nominal:
    """A noun phrase. Its determiner is "der", an ein-word, a der-word's stem, a number or empty."""

    key: str
    noun: Noun | None = None
    pronoun: Pronoun | None = None
    determiner: str = "der"
    english_determiner: str = "the"
    negation: str = ""  # for "kein": the link of its clause's "not"
    number: tuple[str, str] | None = None
    plural: bool = False
    adjective: Adjective | None = None
    compared: bool = False
    tail: Phrase | None = None  # a relative clause or a genitive after the noun

    def __post_init__(self) -> None:
        self.plural = self.plural or (self.noun is not None and self.noun.g == "p")

    @property
    def gender(self) -> str:
        assert self.noun is not None
        return "p" if self.plural else self.noun.g

    @property
    def agreement(self) -> tuple[int, bool]:
        """Person and plural for the verb."""
        if self.pronoun:
            return self.pronoun.person, self.pronoun.plural
        return 3, self.plural

    @property
    def definite(self) -> bool:
        name = self.noun is not None and self.noun.bare
        return name or (self.pronoun is None and self.determiner not in ("", "ein", "kein"))

    def german(self, case: str, preposition: str = "", link: str = "") -> list[Token]:
        """The phrase in a case, after a preposition with which the article may contract."""
        before = [Token(preposition, (link,))] if preposition else []
        if self.pronoun:
            form = self.pronoun.de[inflection.CASES.index(case)]
            return [*before, Token(form, (self.key + "n",))]
        assert self.noun is not None
        noun = self.noun
        if self.determiner:
            article = inflection.determiner(self.determiner, case, self.gender)
            fused = inflection.contract(preposition, article) if self.determiner == "der" else None
            if fused:
                before = [Token(fused, (link, self.key + "d"))]
            else:
                links = (self.key + "d", self.negation) if self.negation else (self.key + "d",)
                before.append(Token(article, links))
        if self.number:
            before.append(Token(self.number[0], (self.key + "c",)))
        if self.adjective:
            stem = german_degree(self.adjective, self.compared, attributive=True)
            form = inflection.adjective(stem, self.determiner, case, self.gender)
            before.append(Token(form, (self.key + "a",)))
        form = inflection.noun(noun.lemma, noun.pl, self.gender, case, noun.weak, noun.gen)
        tail = self.tail.german if self.tail else []
        return [*before, Token(form, (self.key + "n",)), *tail]

    def english(self, role: str = "object", article: bool = True) -> list[Token]:
        """The phrase as subject or object; article=False drops the determiner (by train)."""
        if self.pronoun:
            return [Token(self.pronoun.en[role == "object"], (self.key + "n",))]
        assert self.noun is not None
        noun, words = self.noun, []
        if self.number:
            words.append(Token(self.number[1], (self.key + "c",)))
        if self.adjective:
            words += english_degree(self.adjective, self.compared, self.key + "a")
        form = (noun.en_pl or inflection.english_s(noun.en)) if self.plural else noun.en
        alone = not (self.english_determiner and article)  # dem Zug - train
        words.append(Token(form, (self.key + "n", self.key + "d") if alone else (self.key + "n",)))
        if not alone:
            word = self.english_determiner
            if word == "a":
                word = inflection.indefinite(words[0].text)
            link = self.key + ("d" if self.determiner else "n")  # ist Lehrer - is a teacher
            words.insert(0, Token(word, (link,)))
        return words + (self.tail.english if self.tail else [])


def german_degree(adjective: Adjective, compared: bool, attributive: bool) -> str:
    """The stem of an adjective before an ending, or its form after "sein"."""
    lemma = adjective.lemma.split("/")[0]
    stem = adjective.de_stem or lemma
    if compared:
        return adjective.de_comp or inflection.comparative(stem)
    return stem if attributive else lemma


def english_degree(adjective: Adjective, compared: bool, link: str) -> list[Token]:
    """The adjective, or its comparative with -er or "more"."""
    if not compared:
        return [Token(adjective.en, (link,))]
    text = adjective.comp or "more " + adjective.en
    return [Token(word, (link,)) for word in text.split()]


@dataclass
class Clause:
    """A clause with its parts; "gap" names the part that "lead" stands for at the front."""

    key: str
    verb: Verb
    subject: Nominal
    tense: str = "present"  # present, preterite, perfect, progressive (gerade), since (seit)
    modal: tuple[Verb, str] | None = None  # German modal and English equivalent
    likes: bool = False  # German gern
    passive: bool = False
    imperative: bool = False
    negation: str = ""  # nicht, kein
    accusative: Nominal | None = None
    dative: Nominal | None = None
    parts: dict[str, Phrase] = field(default_factory=dict)
    front: str = ""  # a part moved before the German verb
    gap: str = ""
    lead: Phrase | None = None

    def _english_negation(self) -> list[Token]:
        return [Token("not", (self.key + "neg",))] if self.negation else []


AUXILIARIES: dict[str, Verb] = {}  # haben, sein, werden: filled from words.yaml by the lexicon


def german_verb(clause: Clause) -> tuple[Token, list[Token], Token | None]:
    """The finite verb, the other verb forms in the order of the right bracket, and the prefix."""
    verb, own, link = clause.verb, clause.key + "v", clause.key + "m"
    person, plural = clause.subject.agreement
    head, rest, links = verb, [], (own,)
    participle = verb.prefix + verb.de.split()[2]
    if clause.passive:
        rest, head = [Token(participle, (own,))], AUXILIARIES["werden"]
    if clause.tense == "perfect":
        rest.append(Token("worden" if clause.passive else participle, (own,)))
        head = AUXILIARIES["sein" if verb.sein or clause.passive else "haben"]
    if clause.modal:
        prefix = verb.prefix if head is verb else ""
        rest.append(Token(prefix + head.infinitive, (own,)))
        head, links = clause.modal[0], (link,)
    if clause.imperative:
        form = head.finite("present", person, plural)
        if (person, plural) == (2, False):
            form = inflection.imperative(verb.infinitive, verb.de.split()[0])
    else:
        tense = "preterite" if clause.tense == "preterite" else "present"
        form = head.finite(tense, person, plural)
    prefix_token = Token(verb.prefix, (own,)) if head is verb and verb.prefix else None
    return Token(form, links), rest, prefix_token


def german(clause: Clause, order: str) -> list[Token]:
    """The clause with the finite verb "first" (question), "second" or "last" (subordinate)."""
    parts = {name: phrase.german for name, phrase in clause.parts.items()}
    if clause.negation == "nicht":
        parts["not"] = [Token("nicht", (clause.key + "neg",))]
    if clause.likes:
        parts["likes"] = [Token("gern", (clause.key + "like",))]
    imperative_du = clause.imperative and clause.subject.agreement[0] == 2
    if not imperative_du:
        parts["subject"] = clause.subject.german("nom")
    if clause.imperative and not imperative_du:  # Kommen Sie - come
        parts["subject"] = [Token("Sie", (clause.key + "v",))]
    for name, nominal in (("accusative", clause.accusative), ("dative", clause.dative)):
        if nominal:
            kind = "pronoun " if nominal.pronoun else "" if nominal.definite else "new "
            kind = kind if name == "accusative" or nominal.pronoun else ""
            parts[kind + name] = nominal.german(name[:3])
    gap = {name for name in parts if clause.gap and name.split()[-1] == clause.gap}
    first = () if clause.subject.pronoun else ("pronoun accusative", "pronoun dative")
    names = dict.fromkeys((*first, *GERMAN_ORDER))
    middle = [name for name in names if name in parts and name not in gap]
    front: list[Token] = clause.lead.german if clause.lead else []
    if order == "second" and not front:
        name = clause.front or "subject"
        middle.remove(name)
        front = parts[name]
    finite, rest, prefix = german_verb(clause)
    words = [token for name in middle for token in parts[name]]
    if order == "last":
        text = (prefix.text if prefix else "") + finite.text
        return [*front, *words, *rest, Token(text, finite.links)]
    return [*front, finite, *words, *([prefix] if prefix else []), *rest]


# Pronouns before nouns, time before manner before place; "nicht" after the definite objects and
# before manner, place and complement; an object that is new (ein Buch) after the adverbs.
GERMAN_ORDER = (
    "subject", "pronoun accusative", "pronoun dative", "time", "frequency", "dative", "accusative",
    "not", "likes", "manner", "adjunct", "place", "new accusative", "agent", "complement",
)  # fmt: skip
_MODALS = ("can", "could", "must", "should", "may", "will", "would")


def english_verb(clause: Clause, inverted: bool) -> tuple[list[Token], list[Token]]:
    """The auxiliary (which inverts and takes "not") and the rest of the English verb."""
    own, link = clause.key + "v", clause.key + "m"
    person, plural = clause.subject.agreement
    past = clause.tense in ("preterite", "perfect")
    words = clause.verb.english[0]
    verb, tail = clause.verb, [Token(word, (own,)) for word in words[1:]]
    base, head_links = words[0], (own,)
    special = ""
    if clause.passive:
        tail.insert(0, Token(verb.conjugate("part"), (own,)))
        special = "be"
    elif clause.tense == "progressive":
        tail.insert(0, Token(verb.conjugate("ing"), (own,)))
        special = "be"
    elif clause.tense == "since":
        lived = ["part"] if verb.static else ["ing"]
        tail.insert(0, Token(verb.conjugate(lived[0]), (own,)))
        if not verb.static:  # has been waiting, but: has lived
            tail.insert(0, Token("been", (own,)))
        special = "have"
    elif base == "be":
        special = "be"
    if clause.modal or clause.likes:
        link = clause.key + "like" if clause.likes else link
        modal = "like to" if clause.likes else clause.modal[1] if clause.modal else ""
        first, *others = modal.split()
        inner = [Token(word, (link,)) for word in others] + [Token(special or base, (own,)), *tail]
        if first in _MODALS:
            return [Token(first, (link,)), *clause._english_negation()], inner
        base, tail, head_links, special = first, inner, (link,), "be" if first == "be" else ""
        verb = Verb(
            first,
            "",
            first,
            past="had" if first == "have" else "",
            third="has" if first == "have" else "",
        )
    tense = "past" if past else "present"
    if clause.imperative:
        support = [Token("do", (clause.key + "neg",))] if clause.negation else []
        return support + clause._english_negation(), [Token(base, head_links), *tail]
    if special == "be":
        finite = Token(inflection.english_be(tense, person, plural), head_links)
        return [finite, *clause._english_negation()], tail
    third = (person, plural) == (3, False)
    if special == "have":
        return [Token("has" if third else "have", head_links), *clause._english_negation()], tail
    if clause.negation or inverted:
        do = "did" if past else "does" if third else "do"
        links = (clause.key + "neg",) if clause.negation else head_links
        return [Token(do, links), *clause._english_negation()], [Token(base, head_links), *tail]
    form = verb.conjugate("past") if past else verb.conjugate("third") if third else base
    return [], [Token(form, head_links), *tail]


def _english_objects(clause: Clause) -> list[Token]:
    """Objects and the particle: give the boy a book, give it to the boy, turn it on."""
    accusative = clause.accusative if clause.gap != "accusative" else None
    dative = clause.dative if clause.gap != "dative" else None
    direct = accusative.english() if accusative else []
    indirect = dative.english() if dative else []
    particle = clause.verb.english[1]
    if particle:
        movable = [Token(particle, (clause.key + "v",))]
        pronoun = accusative is not None and accusative.pronoun is not None
        direct = [*direct, *movable] if pronoun else [*movable, *direct]
    if dative and clause.accusative and (clause.verb.to or clause.accusative.pronoun):
        link = dative.key + ("d" if dative.determiner and not dative.pronoun else "n")
        return [*direct, Token("to", (link,)), *indirect]
    return [*indirect, *direct]


def english(clause: Clause, question: bool = False) -> list[Token]:
    """The clause; "question" inverts subject and auxiliary unless the subject is asked for."""
    auxiliary, rest = english_verb(clause, question and clause.gap != "subject")
    part = {name: phrase.english for name, phrase in clause.parts.items() if name != clause.gap}
    first = clause.lead.english if clause.lead else []
    if clause.front in ("time", "frequency"):
        first = part.pop(clause.front)
    silent = clause.gap == "subject" or clause.imperative
    subject = [] if silent else clause.subject.english("subject")
    before = [*auxiliary[:1], *subject, *auxiliary[1:]] if question else [*subject, *auxiliary]
    manner = part.get("manner", [])
    complement = [*manner, *part.get("complement", [])]
    if len(manner) > 1:  # speak about the film for a long time
        complement = [*part.get("complement", []), *manner]
    last = [word for name in ("agent", "adjunct", "place", "time") for word in part.get(name, [])]
    objects = _english_objects(clause)
    return [*first, *before, *part.get("frequency", []), *rest, *objects, *complement, *last]
