"""The generated sample corpus: sentence patterns, balanced drawing, splits and files.

The same code and lexicon give the same bytes on every platform: all choices come from one
random.Random and every candidate list has a fixed order.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from translate.data import grammar, inflection
from translate.data.grammar import Adjective, Clause, Nominal, Noun, Phrase, Pronoun, Token, Verb

COUNTS = {"train": 24_000, "validation": 1_000, "test": 1_000}
SEED = 20
RESERVE = 28_000
LEXICON = Path(__file__).parents[2] / "data" / "sample"


@dataclass
class Lexicon:
    """The entries by German lemma; "classes" maps class names and lemmas to noun lemmas."""

    nouns: dict[str, Noun]
    verbs: dict[str, Verb]
    adjectives: dict[str, Adjective]
    pronouns: dict[str, Pronoun]
    modals: dict[str, tuple[Verb, dict[str, str]]]
    classes: dict[str, list[str]]
    words: dict[str, Any]
    expanded: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    def expand(self, names: tuple[str, ...]) -> list[str]:
        """The noun lemmas that class names and lemmas stand for, each once, in order."""
        if names not in self.expanded:
            found = dict.fromkeys(lemma for name in names for lemma in self.classes[name])
            self.expanded[names] = list(found)
        return self.expanded[names]


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@cache
def load(folder: Path = LEXICON) -> Lexicon:
    """Read the lexicon; an unknown field or class name raises TypeError or KeyError."""
    tables = [
        yaml.safe_load((folder / name).read_text(encoding="utf-8"))
        for name in ("nouns.yaml", "verbs.yaml", "words.yaml")
    ]
    nouns = {
        lemma: Noun(lemma, kind, **_frozen(row))
        for kind, rows in tables[0].items()
        for lemma, row in rows.items()
    }
    classes: dict[str, list[str]] = {lemma: [lemma] for lemma in [*nouns, "pronoun"]}
    classes.update({kind: list(rows) for kind, rows in tables[0].items()})
    for name, members in tables[2]["groups"].items():
        classes[name] = [lemma for member in members for lemma in classes[member]]
    words = tables[2]
    for lemma, row in words["auxiliaries"].items():
        grammar.AUXILIARIES[lemma] = Verb(lemma, **_frozen(row))
    modals = {}
    for lemma, row in words["modals"].items():
        forms = f"- {row.get('past', '-')} -"
        modals[lemma] = (Verb(lemma, forms, "-", present=tuple(row["present"])), row)
    lexicon = Lexicon(
        nouns,
        {lemma: Verb(lemma, **_frozen(row)) for lemma, row in tables[1].items()},
        {lemma: Adjective(lemma, **_frozen(row)) for lemma, row in words["adjectives"].items()},
        {lemma: Pronoun(**_frozen(row)) for lemma, row in words["pronouns"].items()},
        modals,
        classes,
        words,
    )
    for kind in ("home", "here", "homeward"):
        classes[kind] = list(words[kind])
    return lexicon


@dataclass
class Draw:
    """The state of drawing: the source of chance, what was used how often, the pair's labels."""

    lexicon: Lexicon
    rng: random.Random
    used: Counter[str] = field(default_factory=Counter)
    labels: set[str] = field(default_factory=set)
    marks: set[tuple[str, str]] = field(default_factory=set)  # label, and the link it depends on
    keys: int = 0
    fits: dict[str, list[str]] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, candidates: list[str], kind: str = "") -> str:
        """The least used of four random candidates: rare words catch up with common ones."""
        some = [candidates[int(self.rng.random() * len(candidates))] for _ in range(4)]
        best = min(some, key=lambda name: self.used[kind + name])
        self.used[kind + best] += 1
        return best

    def weighted(self, weights: dict[str, float]) -> str:
        point = self.rng.random() * sum(weights.values())
        for name, weight in weights.items():
            point -= weight
            if point < 0:
                return name
        return next(iter(weights))

    def key(self) -> str:
        self.keys += 1
        return f"{self.keys}"

    def pair(self, german: str, english: str) -> Phrase:
        """Fixed words: aligned one to one if equally many, else all with all."""
        de, en, key = german.split(), english.split(), self.key()
        if len(de) == len(en):
            return Phrase(
                [Token(word, (f"{key}.{i}",)) for i, word in enumerate(de)],
                [Token(word, (f"{key}.{i}",)) for i, word in enumerate(en)],
            )
        return Phrase([Token(word, (key,)) for word in de], [Token(word, (key,)) for word in en])

    def adjectives(self, noun: str) -> list[str]:
        """The adjectives that may be said of a noun."""
        if not self.fits:
            for lemma, adjective in self.lexicon.adjectives.items():
                for name in self.lexicon.expand(adjective.of):
                    self.fits.setdefault(name, []).append(lemma)
        return self.fits.get(noun, [])


# --- noun phrases -------------------------------------------------------------------------------

POSSESSORS = ("ich", "du", "wir", "ihr")


def possessive(draw: Draw, owner: Nominal | None) -> tuple[str, str]:
    """A possessive: the subject's own where it has one in the third person, else my, your, our."""
    names = list(POSSESSORS)
    if (owner and owner.pronoun and owner.pronoun.person == 3) or (owner and draw.chance(0.5)):
        own = possessor(draw, owner)
        if own:
            return own
    return draw.lexicon.pronouns[draw.pick(names, "possessive ")].poss


def possessor(draw: Draw, owner: Nominal) -> tuple[str, str] | None:
    if owner.pronoun:
        return owner.pronoun.poss
    noun = owner.noun
    if noun is None or noun.kind not in ("person", "relative") or noun.lemma == "Leute":
        return None
    name = "sie/they" if owner.plural else {"m": "er", "f": "sie"}.get(noun.g, "")
    return draw.lexicon.pronouns[name].poss if name else None


def determine(draw: Draw, nominal: Nominal, owner: Nominal | None, choice: str) -> Nominal:
    """Set determiner and number of a nominal in place."""
    noun = nominal.noun
    assert noun is not None
    singular = not nominal.plural
    match choice:
        case "ein":
            article = singular and not noun.mass
            nominal.determiner = "ein" if article else ""
            nominal.english_determiner = "a" if article else ""
        case "mein":
            nominal.determiner, nominal.english_determiner = possessive(draw, owner)
            draw.marks.add(("possessive", nominal.key + "d"))
        case "dies":
            nominal.determiner = "dies"
            nominal.english_determiner = "this" if singular else "these"
        case "jed":
            nominal.determiner, nominal.english_determiner = "jed", "every"
        case "number":
            numbers = draw.lexicon.words["numbers"]
            word = draw.pick(
                list(numbers)[
                    : 4 if noun.kind in ("person", "relative") or draw.chance(0.6) else 11
                ],
                "number ",
            )
            nominal.number = word, numbers[word]
            nominal.determiner = nominal.english_determiner = ""
            draw.marks.add(("number", nominal.key + "c"))
    if noun.bare:
        nominal.determiner = nominal.english_determiner = ""
    return nominal


def decorate(draw: Draw, nominal: Nominal, chance: float = 0.3) -> Nominal:
    """Add an adjective that the noun allows, sometimes in the comparative."""
    assert nominal.noun is not None
    words = draw.lexicon.words
    mine = nominal.determiner not in ("der", "ein", "dies", "")
    fits = [
        lemma
        for lemma in draw.adjectives(nominal.noun.lemma)
        if lemma not in words["predicative"] and not (mine and lemma in words["states"])
    ]
    if not fits or nominal.noun.bare or not draw.chance(chance):
        return nominal
    adjective = draw.lexicon.adjectives[draw.pick(fits)]
    nominal.adjective = adjective
    if (
        nominal.determiner == "ein"
        and adjective.lemma in draw.lexicon.words["compared"]
        and draw.chance(0.4)
    ):
        nominal.compared = True
        draw.marks.add(("comparative", nominal.key + "a"))
    kind = inflection.adjective_declension(nominal.determiner)
    for label in ("adjective", f"adjective-{kind}"):
        draw.marks.add((label, nominal.key + "a"))
    return nominal


def determiners(draw: Draw, noun: Noun, plural: bool, subject: bool) -> dict[str, float]:
    """The weights of the determiners that suit the noun."""
    classes = draw.lexicon.classes
    if noun.kind == "need":
        return {"ein": 1}
    if noun.kind == "sky":
        return {"der": 1}
    if noun.kind == "relative":
        return {"mein": 9, "der": 0.6, "dies": 0.1}
    weights: dict[str, float] = {
        "der": 5,
        "dies": 0.8,
        "ein": (0 if plural else 1) if subject else 3.5,
    }
    if noun.mass:
        return {"der": 3, "ein": 0 if subject else 4}
    if noun.lemma in classes["owned"]:
        weights["mein"] = 1.6
    if noun.lemma in classes["each"] and not plural:
        weights["jed"] = 0.8
    if plural and noun.lemma != "Leute":
        weights["number"] = 1.5
    return weights


def nominal(
    draw: Draw,
    names: list[str],
    owner: Nominal | None = None,
    subject: bool = False,
    weights: dict[str, float] | None = None,
    adjective: float = 0.3,
    singular: bool = False,
) -> Nominal:
    """A noun phrase with one of the named nouns."""
    noun = draw.lexicon.nouns[draw.pick(names)]
    plural = noun.g == "p" or (bool(noun.pl) and not singular and draw.chance(0.24))
    if weights is None:
        weights = determiners(draw, noun, plural, subject)
    result = Nominal(draw.key(), noun, plural=plural)
    if plural:
        draw.marks.add(("plural", result.key + "n"))
    determine(draw, result, owner, draw.weighted(weights))
    return decorate(
        draw, result, {"need": 0.0, "relative": adjective / 3}.get(noun.kind, adjective)
    )


def pronoun(draw: Draw, names: list[str]) -> Nominal:
    return Nominal(draw.key(), pronoun=draw.lexicon.pronouns[draw.pick(names)])


def referring(draw: Draw, to: Nominal) -> Nominal | None:
    """The pronoun for a nominal by its grammatical gender; None where English could not decide."""
    if to.pronoun:
        return Nominal(draw.key(), pronoun=to.pronoun)
    assert to.noun is not None
    if to.noun.kind == "youth" and not to.plural:
        return None
    person = to.noun.kind in ("person", "relative")
    name = {"m": "er", "f": "sie", "n": "es", "p": "sie/they"}[to.gender]
    if not person and to.gender in "mf":
        name += "/it"
    result = Nominal(draw.key(), pronoun=draw.lexicon.pronouns[name])
    draw.marks.add(("pronoun", result.key + "n"))
    return result


# --- phrases ------------------------------------------------------------------------------------


def prepositional(
    draw: Draw, noun: Nominal, german: str, case: str, english: str, article: bool = True
) -> Phrase:
    """A preposition with its noun phrase; the English preposition may be several words."""
    key = draw.key() + "p"
    kind = {"acc": "accusative", "dat": "dative"}.get(case, "")
    two_way = german in ("in", "an", "auf", "unter", "neben", "vor", "hinter", "über", "zwischen")
    label = f"preposition-{kind}" if kind else "genitive"
    draw.marks.add(("preposition-two-way" if two_way else label, key))
    before = [Token(word, (key,)) for word in english.split()]
    return Phrase(noun.german(case, german, key), [*before, *noun.english(article=article)])


def place(draw: Draw, names: tuple[str, ...], goal: bool) -> Phrase:
    """Where (dative) or where to (accusative, or dative after zu and nach)."""
    lexicon = draw.lexicon
    lemma = draw.pick(lexicon.expand(names))
    for kind in ("home", "here", "homeward"):
        if lemma in lexicon.words[kind]:
            return draw.pair(lemma, lexicon.words[kind][lemma])
    noun = lexicon.nouns[lemma]
    german, english, *bare = noun.to if goal else noun.at
    nominal_ = Nominal(draw.key(), noun)
    if noun.bare:
        nominal_.determiner = nominal_.english_determiner = ""
    if not bare and not noun.bare:
        choice = draw.weighted({"der": 8, "dies": 0.6, "mein": 0.8 if noun.kind == "room" else 0})
        determine(draw, nominal_, None, choice)
        decorate(draw, nominal_, 0.12)
    case = "acc" if goal and german in ("in", "an", "auf") else "dat"
    return prepositional(draw, nominal_, german, case, english, article=not bare)


def clock(draw: Draw) -> Phrase:
    """Um acht Uhr."""
    numbers = draw.lexicon.words["numbers"]
    word = draw.pick(list(numbers))
    phrase = draw.pair(f"um {word} Uhr", f"at {numbers[word]} o'clock")
    draw.marks.add(("number", phrase.german[1].links[0]))
    return phrase


def time(draw: Draw, verb: Verb, tense: str, modal: bool) -> Phrase | None:
    """A time that goes with the tense, or None."""
    words = draw.lexicon.words
    if verb.static:
        return None
    draw.labels.add("time")
    future = tense == "future" or (modal and tense == "present")
    if draw.chance(0.8 if verb.clock else 0.12):
        return clock(draw)
    if verb.clock:
        kind = draw.weighted(
            {"list": 3, "weekdays" if future or tense != "present" else "every": 1}
        )
    elif future or tense != "present":
        kind = draw.weighted(
            {"list": 5, "weekdays": 1.5, "months": 0.8, "seasons": 0.5, "spans": 1}
        )
    else:
        kind = draw.weighted({"list": 4, "every": 1, "seasons": 1})
        if verb.once:
            draw.labels.discard("time")
            return None
    if kind == "list":
        table = words["times"]["future" if future else "present" if tense == "present" else "past"]
        german = draw.pick(list(table))
        return draw.pair(german, table[german])
    if kind == "spans":
        number = draw.pick(list(words["numbers"])[:6])
        unit = draw.pick(list(words["spans"]))
        plural, english = words["spans"][unit]
        dative = plural if plural.endswith("n") else plural + "n"
        draw.labels.add("number")
        count = words["numbers"][number]
        if future:
            return draw.pair(f"in {number} {dative}", f"in {count} {english}s")
        key = draw.key()
        de = [Token(word, (key + word,)) for word in ("vor", number, dative)]
        texts = ((count, number), (english + "s", dative), ("ago", "vor"))
        return Phrase(de, [Token(text, (key + link,)) for text, link in texts])
    day = draw.pick(list(words["weekdays" if kind == "every" else kind]))
    if kind == "every":
        return draw.pair(f"jeden {day}", f"every {words['weekdays'][day]}")
    german, english = {"weekdays": ("am", "on"), "months": ("im", "in"), "seasons": ("im", "in")}[
        kind
    ]
    return draw.pair(f"{german} {day}", f"{english} {words[kind][day]}")


# --- clauses ------------------------------------------------------------------------------------

QUESTION_TENSES = {
    "present": 16.0,
    "perfect": 44,
    "modal": 24,
    "future": 10,
    "progressive": 6,
    "preterite": 0,
}
TENSES = {
    "present": 34.0,
    "preterite": 17,
    "perfect": 26,
    "modal": 14,
    "future": 6,
    "progressive": 5,
}


def subject_of(
    draw: Draw, verb: Verb, tense: str, pronouns: float, formal: bool, question: bool
) -> Nominal:
    names = draw.lexicon.expand(verb.subject)
    if "pronoun" in names:
        names = [name for name in names if name != "pronoun"]
        if draw.chance(pronouns):
            weights: dict[str, float] = {
                "ich": 0 if question else 5,
                "er": 2,
                "sie": 2,
                "wir": 1 if question else 2,
                "sie/they": 1.5,
            }
            familiar = (
                tense in ("perfect", "modal", "future")
                or verb.lemma in draw.lexicon.words["everyday"]
            )
            if tense != "preterite" and familiar:
                weights.update(du=2, ihr=1)
            if formal:
                weights["Sie"] = 3
            return Nominal(draw.key(), pronoun=draw.lexicon.pronouns[draw.weighted(weights)])
    return nominal(draw, names, subject=True)


def objects(draw: Draw, verb: Verb, clause: Clause, habit: bool) -> None:
    """Add the objects that the verb calls for."""
    lexicon = draw.lexicon
    if verb.dative:
        if draw.chance(0.2):
            mine = clause.subject.agreement[0]
            names = [
                n
                for n in ("ich", "du", "er", "sie", "wir", "sie/they")
                if lexicon.pronouns[n].person != mine
            ]
            clause.dative = pronoun(draw, names)
        else:
            clause.dative = nominal(draw, lexicon.expand(verb.dative), clause.subject)
            settle(clause.dative)
    if verb.object:
        names = lexicon.expand(verb.object)
        human = all(lexicon.nouns[name].kind in ("person", "relative", "youth") for name in names)
        if human and draw.chance(0.15) and clause.subject.agreement[0] != 1:
            clause.accusative = pronoun(draw, ["ich", "wir"])
            return
        weights = {"ein": 3.0, "mein": 1} if habit else None
        clause.accusative = nominal(draw, names, clause.subject, weights=weights)
        settle(clause.accusative)


def settle(person: Nominal) -> None:
    """Relatives are someone's: an indefinite one becomes "the"."""
    if person.noun and person.noun.kind == "relative" and person.determiner in ("ein", ""):
        if person.number:
            return
        person.determiner, person.english_determiner = "der", "the"


def negate(draw: Draw, clause: Clause) -> None:
    """nicht, or kein with an indefinite object: "not a", before a plural "not any"."""
    target = clause.accusative
    if target and target.number:
        return
    draw.labels.add("negation")
    if target is None or target.pronoun or target.definite:
        clause.negation = "nicht"
        return
    clause.negation = "kein"
    target.determiner, target.negation = "kein", clause.key + "neg"
    if target.plural:
        target.english_determiner = "any"


def clause(
    draw: Draw,
    verbs: list[str],
    tense: str = "",
    pronouns: float = 0.3,
    formal: bool = False,
    adverbs: float = 1.0,
    subject: Nominal | None = None,
    question: bool = False,
) -> Clause:
    """A clause with one of the verbs and whatever it allows."""
    lexicon = draw.lexicon
    verb = lexicon.verbs[draw.pick(verbs)]
    if not tense:
        weights = {
            name: weight
            for name, weight in (QUESTION_TENSES if question else TENSES).items()
            if (verb.now if name == "progressive" else name in verb.tenses)
            and not (name in ("modal", "future") and verb.involuntary)
            and not (name == "modal" and "human" not in verb.subject)
        }
        tense = draw.weighted(weights)
    modal = tense == "modal"
    actual = tense
    if modal:
        actual = "preterite" if draw.chance(0.25) else "present"
    subject = subject or subject_of(
        draw, verb, "preterite" if actual == "preterite" else tense, pronouns, formal, question
    )
    result = Clause(draw.key(), verb, subject, actual)
    if modal:
        names = [
            n for n, (_, row) in lexicon.modals.items() if actual == "present" or "past" in row
        ]
        name = draw.pick(names)
        german, row = lexicon.modals[name]
        negated = not question and draw.chance(0.2) and name not in ("können", "möchten")
        english = row["en"] if actual == "present" else row.get("en_past", row["en"])
        if negated and actual == "present":
            english = row.get("en_not", english)
        result.modal = german, english
        draw.labels.add("modal")
    elif tense == "future":
        result.modal, result.tense = (grammar.AUXILIARIES["werden"], "will"), "present"
        negated = not question and draw.chance(0.1)
        draw.labels.add("future")
    else:
        negated = not question and tense not in ("progressive", "since") and draw.chance(0.11)
        draw.labels.add("present" if tense == "progressive" else tense)
    if verb.prefix:
        draw.labels.add("separable")
    habit = False
    if tense == "progressive":
        result.parts["time"] = draw.pair("gerade", "right now")
        draw.labels.add("time")
    elif draw.chance(0.3 * adverbs) or (verb.clock and draw.chance(0.6)):
        phrase = time(draw, verb, tense if not modal else actual, modal)
        if phrase:
            result.parts["time"] = phrase
            habit = actual == "present" and not modal and tense != "future"
    elif draw.chance(0.14 * adverbs) and not (
        question or negated or verb.clock or verb.once or verb.static or modal or tense == "future"
    ):
        word = draw.pick(list(lexicon.words["frequency"]))
        result.parts["frequency"] = draw.pair(word, lexicon.words["frequency"][word])
        draw.labels.add("time")
        habit = True
    objects(draw, verb, result, habit)
    complements(draw, verb, result)
    extras(draw, verb, result, adverbs, negated, modal or tense in ("future", "progressive"))
    if negated and not habit:
        negate(draw, result)
    return result


def complements(draw: Draw, verb: Verb, result: Clause) -> None:
    """Add the prepositional object, destination or position that the verb calls for."""
    lexicon = draw.lexicon
    if verb.site:
        result.parts["complement"] = place(draw, verb.site, goal=False)
    if verb.goal:
        result.parts["complement"] = place(draw, verb.goal, goal=True)
    if verb.prep:
        names = [n for n in lexicon.expand(verb.target) if not _same(result.subject, n)]
        where = lexicon.nouns[names[0]].kind in ("nature", "water", "surface", "town", "building")
        weights = {"der": 6.0, "dies": 1} if where else None
        target = nominal(
            draw, names, result.subject, weights=weights, adjective=0.2, singular=where
        )
        settle(target)
        german, case, english = verb.prep
        result.parts["complement"] = prepositional(draw, target, german, case, english)
    name = verb.where or verb.whither
    if name:
        options = [
            (row[0], row[1], noun)
            for row in lexicon.words["positions"][name]
            for noun in lexicon.expand(tuple(row[2]))
            if not _same(result.subject, noun) and not _same(result.accusative, noun)
        ]
        chosen = draw.pick([f"{de}/{en}/{noun}" for de, en, noun in options]).split("/")
        target = Nominal(draw.key(), lexicon.nouns[chosen[2]])
        choice = draw.weighted({"der": 8, "mein": 1, "dies": 0.5, "ein": 0.7})
        determine(draw, target, result.subject, choice)
        settle(target)
        decorate(draw, target, 0.15)
        case = "acc" if verb.whither else "dat"
        phrase = prepositional(draw, target, chosen[0], case, chosen[1])
        result.parts["complement"] = phrase


def _same(nominal_: Nominal | None, noun: str) -> bool:
    return nominal_ is not None and nominal_.noun is not None and nominal_.noun.lemma == noun


def extras(
    draw: Draw, verb: Verb, result: Clause, adverbs: float, negated: bool, firm: bool
) -> None:
    """Add manner, place and an optional prepositional phrase, at most two adverbials in all."""
    lexicon = draw.lexicon
    name = verb.infinitive if not verb.prefix else verb.prefix + verb.infinitive
    manners = list(verb.manner)
    if result.accusative and not result.accusative.definite:
        manners = [manner for manner in manners if manner == "gern"]
    if manners and draw.chance(0.4 * adverbs):
        manner = draw.pick(manners, "manner ")
        if manner == "gern":
            result.likes = not firm and "time" not in result.parts and result.tense != "perfect"
        else:
            german = manner.split("/")[0]
            result.parts["manner"] = draw.pair(german, lexicon.words["manner"][manner])
    if len(result.parts) > 1:
        return
    timed = "time" in result.parts
    fits = [
        row
        for row in lexicon.words["adjuncts"]
        if name in row["verbs"]
        and not (row["case"] == "gen" and negated)
        and not (timed and row["de"] in ("vor", "nach", "während"))
    ]
    if fits and "/" not in verb.lemma and draw.chance(0.35 * adverbs):
        row = fits[int(draw.rng.random() * len(fits))]
        names = [n for n in lexicon.expand(tuple(row["nouns"])) if not _same(result.subject, n)]
        weights = (
            {"der": 1.0}
            if row.get("bare") or row["case"] == "gen" or row["de"] in ("vor", "nach")
            else None
        )
        if row.get("bare"):
            noun = Nominal(draw.key(), lexicon.nouns[draw.pick(names)])
        else:
            noun = nominal(draw, names, result.subject, weights=weights, adjective=0.1)
        settle(noun)
        phrase = prepositional(draw, noun, row["de"], row["case"], row["en"], not row.get("bare"))
        result.parts["adjunct"] = phrase
    elif verb.at and draw.chance(0.4 * adverbs):
        result.parts["place"] = place(draw, verb.at, goal=False)


# --- sentences ----------------------------------------------------------------------------------

COMMA = Phrase([Token(",", ("comma",))], [Token(",", ("comma",))])


def finish(german: list[Token], english: list[Token], mark: str = ".") -> Phrase:
    end = Token(mark, ("end",))
    return Phrase([*german, end], [*english, end])


def all_verbs(draw: Draw, keep: Callable[[Verb], bool] = lambda verb: True) -> list[str]:
    return [lemma for lemma, verb in draw.lexicon.verbs.items() if keep(verb)]


def statement(draw: Draw) -> Phrase:
    made = clause(draw, all_verbs(draw))
    return finish(grammar.german(made, "second"), grammar.english(made))


def inverted(draw: Draw) -> Phrase | None:
    made = clause(draw, all_verbs(draw, lambda verb: not verb.static), formal=True, adverbs=1.6)
    return front(draw, made)


def front(draw: Draw, made: Clause) -> Phrase | None:
    """Move an adverbial before the verb; gerade, immer and nie stay where they are."""
    fixed = ("gerade", "immer", "nie", "selten")
    names = [
        name
        for name in ("time", "frequency", "place")
        if name in made.parts and made.parts[name].german[0].text not in fixed
    ]
    if not names or (made.negation and names[0] == "place"):
        return None
    made.front = names[0]
    draw.labels.add("inversion")
    return finish(grammar.german(made, "second"), grammar.english(made))


def yes_no(draw: Draw) -> Phrase:
    made = clause(draw, all_verbs(draw), pronouns=0.4, formal=True, adverbs=0.7, question=True)
    draw.labels.add("question")
    return finish(grammar.german(made, "first"), grammar.english(made, question=True), "?")


def w_question(draw: Draw) -> Phrase | None:
    """Ask for one part of a clause."""
    made = clause(draw, all_verbs(draw), pronouns=0.4, formal=True, adverbs=0.5, question=True)
    if made.negation or "frequency" in made.parts:
        return None
    names: dict[str, tuple[str, str]] = {}
    time_ = made.parts.get("time")
    if time_ and time_.german[0].text != "gerade":
        names["time"] = ("wann", "when")
    if "place" in made.parts or made.verb.site:
        names["place" if "place" in made.parts else "complement"] = ("wo", "where")
    elif made.verb.lemma in ("gehen", "fahren", "reisen", "fliegen", "rennen"):
        names["complement"] = ("wohin", "where")
    elif made.verb.where:
        names["complement"] = ("wo", "where")
    if "manner" in made.parts and made.parts["manner"].german[0].text not in (
        "lange",
        "viel",
        "überall",
    ):
        names["manner"] = ("wie", "how")
    if made.accusative and made.accusative.noun:
        human = made.accusative.noun.kind in ("person", "relative", "youth")
        names["accusative"] = ("wen", "who") if human else ("was", "what")
    if made.dative and made.dative.noun and not made.verb.to and not made.accusative:
        names["dative"] = ("wem", "who")
    if made.subject.noun and made.subject.noun.kind in ("person", "relative", "youth"):
        names["subject"] = ("wer", "who")
    if "time" not in names and "time" not in made.parts:
        names["reason"] = ("warum", "why")
    if not names:
        return None
    made.gap = draw.pick(list(names))
    made.lead = draw.pair(*names[made.gap])
    if made.gap == "subject":  # a possessive could refer to the subject, which is now unknown
        if any(label == "possessive" for label, _ in draw.marks):
            return None
        made.subject = Nominal(made.subject.key, made.subject.noun)
    draw.labels.add("question")
    return finish(grammar.german(made, "second"), grammar.english(made, question=True), "?")


def command(draw: Draw) -> Phrase | None:
    addressee = pronoun(draw, ["du", "ihr", "Sie"])
    verbs = all_verbs(draw, lambda verb: verb.imperative)
    made = clause(draw, verbs, tense="present", adverbs=0, subject=addressee)
    made.imperative = True
    for nominal_ in (made.accusative, made.dative):
        if (
            nominal_
            and (nominal_.pronoun or not nominal_.definite)
            and nominal_.pronoun
            not in (
                draw.lexicon.pronouns["ich"],
                draw.lexicon.pronouns["wir"],
                None,
            )
        ):
            return None
    if draw.chance(0.5):
        made.lead = draw.pair("bitte", "please")
    draw.labels.discard("present")
    draw.labels.add("imperative")
    return finish(grammar.german(made, "first"), grammar.english(made), "!")


def copula(draw: Draw, subject: Nominal, complement: Phrase, tense: str = "present") -> Clause:
    made = Clause(draw.key(), TO_BE, subject, tense)
    made.parts["complement"] = complement
    draw.labels.add(tense)
    return made


TO_BE = Verb(
    "sein",
    "ist war gewesen",
    "be",
    sein=True,
    present=("bin", "bist", "ist", "sind", "seid", "sind"),
)


def predicate(draw: Draw, lemma: str, compared: bool = False) -> Phrase:
    adjective = draw.lexicon.adjectives[lemma]
    key = draw.key()
    german = grammar.german_degree(adjective, compared, attributive=False)
    return Phrase([Token(german, (key,))], grammar.english_degree(adjective, compared, key))


def description(draw: Draw) -> Phrase | None:
    """Der Tisch ist alt."""
    names = [name for name in draw.lexicon.nouns if draw.adjectives(name)]
    subject = nominal(draw, names, subject=True, adjective=0.1)
    assert subject.noun is not None
    made = copula(
        draw,
        subject,
        predicate(draw, draw.pick(draw.adjectives(subject.noun.lemma))),
        draw.weighted({"present": 3, "preterite": 1}),
    )
    if subject.adjective or subject.number or subject.english_determiner == "a":
        return None
    if draw.chance(0.2):
        negate(draw, made)
    elif draw.chance(0.15):
        draw.labels.add("question")
        return finish(grammar.german(made, "first"), grammar.english(made, question=True), "?")
    return finish(grammar.german(made, "second"), grammar.english(made))


def comparison(draw: Draw) -> Phrase | None:
    """Der Hund ist schneller als die Katze; der Hund ist so groß wie die Katze."""
    lexicon = draw.lexicon
    lemma = draw.pick([a for a, row in lexicon.adjectives.items() if row.comp != "none"])
    nouns = lexicon.expand(lexicon.adjectives[lemma].of)
    subject = nominal(draw, nouns, subject=True, adjective=0.1)
    assert subject.noun is not None
    kind = subject.noun.kind
    same = [n for n in nouns if lexicon.nouns[n].kind == kind and n != subject.noun.lemma]
    if (
        not same
        or subject.english_determiner in ("a", "every")
        or subject.adjective
        or subject.number
    ):
        return None
    other = nominal(draw, same, subject=True, adjective=0.1)
    if other.english_determiner in ("a", "every") or other.adjective or other.number:
        return None
    made = copula(draw, subject, Phrase([], []), draw.weighted({"present": 3, "preterite": 1}))
    more = draw.chance(0.75)
    inner = predicate(draw, lemma, compared=more)
    before, after = (
        (Phrase([], []), draw.pair("als", "than"))
        if more
        else (draw.pair("so", "as"), draw.pair("wie", "as"))
    )
    made.parts["complement"] = Phrase(
        [*before.german, *inner.german, *after.german, *other.german("nom")],
        [*before.english, *inner.english, *after.english, *other.english()],
    )
    draw.labels.add("comparative")
    return finish(grammar.german(made, "second"), grammar.english(made))


def embedded(draw: Draw) -> Phrase:
    """Ich glaube, dass der Zug angekommen ist."""
    matrix_name = draw.pick(list(draw.lexicon.words["opinions"]))
    row = draw.lexicon.words["opinions"][matrix_name]
    asks = draw.chance(0.25) and "ob" in row
    verb = Verb(
        matrix_name,
        row["de"],
        row["en"],
        past=row.get("past", ""),
        present=tuple(row.get("present", ())),
    )
    person = pronoun(
        draw, ["du", "ihr", "Sie"] if asks else ["ich", "er", "sie", "wir", "sie/they"]
    )
    if matrix_name == "sagen":
        person = pronoun(draw, ["er", "sie", "sie/they"])
    outer = Clause(draw.key(), verb, person)
    tense = (
        draw.weighted({"present": 1, "perfect": 1, "future": 1}) if matrix_name == "hoffen" else ""
    )
    verbs = all_verbs(
        draw, lambda verb: not tense or (tense in verb.tenses and not verb.involuntary)
    )
    inner = clause(draw, verbs, tense=tense, adverbs=0.6)
    draw.labels.add("subordinate")
    inner.lead = draw.pair("ob", "if") if asks else draw.pair("dass", "that")
    if asks:
        draw.labels.add("question")
    german = [
        *grammar.german(outer, "first" if asks else "second"),
        Token(","),
        *grammar.german(inner, "last"),
    ]
    english = [*grammar.english(outer, question=asks), *grammar.english(inner)]
    return finish(german, english, "?" if asks else ".")


def suiting(draw: Draw, adjectives: tuple[str, ...], nominal_: Nominal) -> list[str]:
    """Those adjectives that may be said of the nominal; a personal pronoun takes any."""
    if nominal_.noun is None:
        return list(adjectives)
    allowed = draw.adjectives(nominal_.noun.lemma)
    return [lemma for lemma in adjectives if lemma in allowed]


def reason(draw: Draw) -> Phrase | None:
    """Ich kaufe den Tisch, weil er billig ist. Er arbeitet, obwohl er krank ist."""
    although = draw.chance(0.35)
    made = clause(
        draw, all_verbs(draw, lambda v: bool(v.though if although else v.why)), adverbs=0.5
    )
    about = made.accusative or made.dative or made.subject
    if (about.pronoun is None and not about.definite) or made.negation or about.number:
        return None
    if about.english_determiner == "every" or made.parts.get("frequency"):
        return None
    reasons = made.verb.though if although else made.verb.why
    fits = suiting(draw, reasons, about)
    if about is made.subject and made.tense == "present" and made.modal:
        return None
    if about.adjective or not fits:
        return None
    subject = referring(draw, about)
    if subject is None:
        return None
    tense = "preterite" if made.tense in ("preterite", "perfect") else "present"
    inner = copula(draw, subject, predicate(draw, draw.pick(fits)), tense)
    inner.lead = draw.pair("obwohl", "although") if although else draw.pair("weil", "because")
    draw.labels.add("subordinate")
    return joined(draw, made, inner)


def joined(draw: Draw, outer: Clause, inner: Clause) -> Phrase:
    """Main clause and subordinate clause; English has a comma only before "although"."""
    comma = inner.lead is not None and inner.lead.english[0].text == "although"
    return finish(
        [*grammar.german(outer, "second"), *COMMA.german, *grammar.german(inner, "last")],
        [*grammar.english(outer), *(COMMA.english if comma else []), *grammar.english(inner)],
    )


def condition(draw: Draw) -> Phrase | None:
    """Wenn es regnet, bleibt der Vater zu Hause. Die Mutter singt, wenn sie glücklich ist."""
    draw.labels.update(("subordinate", "present"))
    words = draw.lexicon.words
    kind = draw.weighted({"outdoor": 1, "indoor": 1, "state": 1})
    if kind == "state":
        made = clause(
            draw,
            all_verbs(
                draw, lambda v: bool(v.why) and not v.object and not (v.dative or v.goal or v.once)
            ),
            tense="present",
            adverbs=0.6,
        )
        fits = suiting(draw, made.verb.why, made.subject)
        subject = referring(draw, made.subject)
        if not fits or subject is None or made.subject.english_determiner in ("a", "every"):
            return None
        inner = copula(draw, subject, predicate(draw, draw.pick(fits)))
        inner.lead = draw.pair("wenn", "when")
        german, english = grammar.german(inner, "last"), grammar.english(inner)
        first = False
    else:
        made = clause(draw, list(words[kind]), tense="present", adverbs=0.6, formal=True)
        row = words["conditions"][kind]
        index = draw.pick([f"{kind} {i}" for i in range(len(row))]).split()[1]
        phrase = draw.pair("wenn " + row[int(index)][0], "when " + row[int(index)][1])
        german, english = phrase.german, phrase.english
        first = draw.chance(0.6)
    if made.negation or {"time", "frequency", "adjunct"} & set(made.parts):
        return None
    if not first:
        if made.subject.pronoun == draw.lexicon.pronouns["Sie"]:
            return None  # at the beginning, "Sie" would read as "they"
        return finish(
            [*grammar.german(made, "second"), *COMMA.german, *german],
            [*grammar.english(made), *english],
        )
    made.lead = Phrase([*german, *COMMA.german], [*english, *COMMA.english])
    draw.labels.add("inversion")
    return finish(grammar.german(made, "second"), grammar.english(made))


def relative_clause(draw: Draw, made: Clause, role: str) -> Nominal | None:
    """Turn a clause into a noun phrase: the noun in the role, with the clause after it."""
    noun = made.subject if role == "subject" else made.accusative
    if (
        noun is None
        or noun.noun is None
        or noun.noun.mass
        or noun.noun.bare
        or noun.noun.kind == "relative"
    ):
        return None
    head = Nominal(draw.key(), noun.noun, plural=noun.plural)
    key = draw.key()
    case = "nom" if role == "subject" else "acc"
    human = noun.noun.kind in ("person", "youth") and role == "subject"
    relative = inflection.relative_pronoun(case, noun.gender)
    made.lead = Phrase([Token(relative, (key,))], [Token("who" if human else "that", (key,))])
    made.gap = role
    head.tail = Phrase([Token(","), *grammar.german(made, "last")], grammar.english(made))
    return head


def relative(draw: Draw) -> Phrase | None:
    """Der Mann, der im Garten arbeitet, ist alt. Ich kenne das Lied, das sie singt."""
    made = clause(draw, all_verbs(draw), pronouns=0.0 if draw.chance(0.6) else 1.0, adverbs=0.5)
    if made.negation == "kein" or (made.modal and draw.chance(0.5)):
        return None
    head = relative_clause(draw, made, "accusative" if made.subject.pronoun else "subject")
    if head is None or head.noun is None:
        return None
    draw.labels.add("relative")
    fits = draw.adjectives(head.noun.lemma)
    if draw.chance(0.5) and fits:
        outer = copula(draw, head, predicate(draw, draw.pick(fits)))
        german = grammar.german(outer, "second")
        german.insert(len(head.german("nom")), Token(","))
        return finish(german, grammar.english(outer))
    verbs = [
        v
        for v in ("sehen", "kennen", "suchen", "kaufen", "brauchen", "treffen", "finden", "mögen")
        if head.noun.lemma in draw.lexicon.expand(draw.lexicon.verbs[v].object)
    ]
    if not verbs:
        return None
    verb = draw.lexicon.verbs[draw.pick(verbs)]
    tense = (
        draw.weighted({"present": 2, "perfect": 1, "preterite": 0.6})
        if "perfect" in verb.tenses
        else "present"
    )
    persons = ["ich", "er", "sie", "wir", "sie/they"]
    outer = Clause(draw.key(), verb, pronoun(draw, persons), tense, accusative=head)
    draw.labels.add(tense)
    german = grammar.german(outer, "second")
    if tense == "perfect":  # Ich habe den Mann gesehen, der ...
        end = len(head.tail.german) if head.tail else 0
        german = [*german[: -end - 1], german[-1], *german[-end - 1 : -1]]
    return finish(german, grammar.english(outer))


def pronoun_pair(draw: Draw) -> Phrase | None:
    """Der Tisch ist neu. Er steht im Zimmer. - Die Lampe ist kaputt. Er repariert sie."""
    lexicon = draw.lexicon
    if draw.chance(0.45):
        second = clause(draw, all_verbs(draw, lambda v: bool(v.object and v.why)), adverbs=0.4)
        about = second.accusative
    else:
        second = clause(
            draw,
            all_verbs(draw, lambda v: not v.object or "human" not in v.subject),
            pronouns=0,
            adverbs=0.5,
        )
        about = second.subject
    if about is None or about.noun is None or about.number or about.adjective or second.negation:
        return None
    if not about.definite or about.english_determiner in ("every",):
        return None
    fits = draw.adjectives(about.noun.lemma)
    if about is second.accusative or second.verb.why:
        fits = [a for a in second.verb.why if a in fits]
    else:
        fits = [a for a in fits if a not in lexicon.words["states"]]
    later = referring(draw, about)
    if later is None or not fits:
        return None
    tense = "preterite" if second.tense in ("preterite", "perfect") else "present"
    first = copula(draw, about, predicate(draw, draw.pick(fits)), tense)
    if about is second.accusative:
        second.accusative = later
    else:
        second.subject = later
    end = Token(".", ("middle",))
    german = [*grammar.german(first, "second"), end, *capital(grammar.german(second, "second"))]
    english = [*grammar.english(first), end, *capital(grammar.english(second))]
    return finish(german, english)


def passive(draw: Draw) -> Phrase | None:
    lexicon = draw.lexicon
    tense = draw.weighted({"preterite": 4, "perfect": 3, "present": 2.5, "modal": 1.5})
    routine = lexicon.words["routine"]
    verbs = all_verbs(draw, lambda v: v.passive and (tense != "present" or v.lemma in routine))
    verb = lexicon.verbs[draw.pick(verbs)]
    subject = nominal(draw, lexicon.expand(verb.object), subject=True)
    if subject.number or subject.determiner == "jed":
        return None
    modal = tense == "modal"
    made = Clause(draw.key(), verb, subject, "present" if modal else tense, passive=True)
    if modal:
        name = draw.pick(["können", "müssen", "sollen"])
        made.modal = lexicon.modals[name][0], lexicon.modals[name][1]["en"]
    draw.labels.update(("passive", tense))
    if verb.prefix:
        draw.labels.add("separable")
    when = time(draw, verb, made.tense, modal) if tense == "present" or draw.chance(0.4) else None
    if tense == "present" and when is None:
        return None
    if when:
        made.parts["time"] = when
    if tense in ("preterite", "perfect") and draw.chance(0.4):
        agents = [
            n for n in lexicon.expand(verb.subject) if n != "pronoun" and not _same(subject, n)
        ]
        agent = nominal(draw, agents, adjective=0.1)
        settle(agent)
        made.parts["agent"] = prepositional(draw, agent, "von", "dat", "by")
    elif verb.at and draw.chance(0.4):
        made.parts["place"] = place(draw, verb.at, goal=False)
    if verb.whither or verb.where:
        complements(draw, verb, made)
    if when and draw.chance(0.35):
        return front(draw, made)
    return finish(grammar.german(made, "second"), grammar.english(made))


def profession(draw: Draw) -> Phrase | None:
    """Mein Bruder ist Lehrer. Seine Tochter ist eine gute Ärztin."""
    lexicon = draw.lexicon
    jobs = lexicon.words["professions"]
    subject = nominal(draw, lexicon.expand(("relative",)), adjective=0)
    assert subject.noun is not None
    if subject.plural or subject.number:
        return None
    job = lexicon.nouns[
        draw.pick([name for name in jobs if lexicon.nouns[name].g == subject.noun.g])
    ]
    noun = Nominal(draw.key(), job, determiner="ein", english_determiner="a")
    if draw.chance(0.6):
        lemma = draw.pick(["gut", "berühmt", "jung", "nett", "fleißig", "freundlich", "schlecht"])
        noun.adjective = lexicon.adjectives[lemma]
        draw.marks.update({(name, noun.key + "a") for name in ("adjective", "adjective-mixed")})
    if noun.adjective is None:
        noun.determiner = ""
    made = copula(
        draw,
        subject,
        Phrase(noun.german("nom"), noun.english()),
        draw.weighted({"present": 2, "preterite": 1}),
    )
    return finish(grammar.german(made, "second"), grammar.english(made))


def property_of(draw: Draw) -> Phrase:
    """Die Farbe des Autos ist hässlich."""
    lexicon = draw.lexicon
    quality = draw.pick(list(lexicon.words["qualities"]))
    row = lexicon.words["qualities"][quality]
    owner = nominal(
        draw,
        lexicon.expand(tuple(row["of"])),
        weights={"der": 4, "mein": 1.5, "dies": 1},
        adjective=0.0,
    )
    head = Nominal(draw.key(), lexicon.nouns[quality])
    head.tail = Phrase(owner.german("gen"), [Token("of", (owner.key + "d",)), *owner.english()])
    draw.labels.add("genitive")
    if draw.chance(0.3):
        verb = lexicon.verbs[draw.pick(["kennen", "vergessen", "mögen"])]
        made = Clause(
            draw.key(),
            verb,
            pronoun(draw, ["ich", "er", "sie", "wir", "sie/they"]),
            "present",
            accusative=head,
        )
        draw.labels.add("present")
    else:
        made = copula(
            draw,
            head,
            predicate(draw, draw.pick(row["is"])),
            draw.weighted({"present": 2, "preterite": 1}),
        )
    return finish(grammar.german(made, "second"), grammar.english(made))


def since(draw: Draw) -> Phrase:
    """Er wohnt seit drei Jahren in Berlin: the English present perfect."""
    words = draw.lexicon.words
    made = clause(draw, list(words["lasting"]), tense="since", adverbs=0)
    number = draw.pick(list(words["numbers"])[:6], "number ")
    unit = draw.pick(["Monat", "Jahr"] if made.verb.static else ["Tag", "Stunde"])
    plural, english = words["spans"][unit]
    dative = plural if plural.endswith("n") else plural + "n"
    made.parts["time"] = draw.pair(
        f"seit {number} {dative}", f"for {words['numbers'][number]} {english}s"
    )
    draw.labels.update(("time", "number", "present"))
    draw.labels.discard("since")
    return finish(grammar.german(made, "second"), grammar.english(made))


def coordinated(draw: Draw) -> Phrase | None:
    """Der Vater kocht und die Mutter liest."""
    tense = draw.weighted({"present": 2, "preterite": 1, "perfect": 1})
    chores = list(draw.lexicon.words["chores"])
    one, two = (clause(draw, chores, tense=tense, pronouns=0.2, adverbs=0.2) for _ in range(2))
    nouns = [made.subject.noun for made in (one, two) if made.subject.noun]
    if one.verb is two.verb or len(set(nouns)) < 2:
        return None
    link = draw.pair("und", "and")
    return finish(
        [*grammar.german(one, "second"), *link.german, *grammar.german(two, "second")],
        [*grammar.english(one), *link.english, *grammar.english(two)],
    )


def obstacle(draw: Draw) -> Phrase | None:
    """Ich möchte nach Rom reisen, aber ich habe kein Geld."""
    lexicon = draw.lexicon
    made = clause(
        draw,
        all_verbs(draw, lambda v: "human" in v.subject and "modal" in v.tenses and not v.static),
        tense="present",
        adverbs=0.4,
    )
    subject = referring(draw, made.subject)
    if subject is None or made.negation or "frequency" in made.parts or "time" in made.parts:
        return None
    if made.subject.english_determiner in ("a", "every") or made.likes:
        return None
    name = draw.pick(["möchten", "wollen"])
    made.modal = lexicon.modals[name][0], lexicon.modals[name][1]["en"]
    lack = nominal(draw, ["Zeit", "Geld"])
    have = Clause(draw.key(), lexicon.verbs["haben"], subject, "present", accusative=lack)
    negate(draw, have)
    draw.labels.update(("modal", "present"))
    link = draw.pair("aber", "but")
    return finish(
        [
            *grammar.german(made, "second"),
            *COMMA.german,
            *link.german,
            *grammar.german(have, "second"),
        ],
        [*grammar.english(made), *COMMA.english, *link.english, *grammar.english(have)],
    )


PATTERNS: dict[str, tuple[float, Callable[[Draw], Phrase | None]]] = {
    "statement": (26, statement),
    "inverted": (13, inverted),
    "yes_no": (7, yes_no),
    "w_question": (8, w_question),
    "command": (5, command),
    "description": (5, description),
    "comparison": (8, comparison),
    "embedded": (7, embedded),
    "reason": (12, reason),
    "condition": (8, condition),
    "relative": (14, relative),
    "pronoun_pair": (14, pronoun_pair),
    "passive": (8, passive),
    "profession": (1.2, profession),
    "property_of": (3, property_of),
    "since": (2, since),
    "coordinated": (4, coordinated),
    "obstacle": (2, obstacle),
}


# --- pairs and files ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A sentence pair as words, with its phenomena and its word alignment."""

    german: list[str]
    english: list[str]
    phenomena: list[str]
    alignment: list[tuple[int, int]]


def capital(tokens: list[Token]) -> list[Token]:
    first = tokens[0]
    return [Token(first.text[0].upper() + first.text[1:], first.links), *tokens[1:]]


def join(words: list[str]) -> str:
    """The sentence: words apart, punctuation marks close to the word before."""
    text = ""
    for word in words:
        text += word if word in ",.?!" or not text else " " + word
    return text


def pairs() -> list[Pair]:
    """Pairs with distinct German, with a reserve for those that "split" has to drop."""
    draw = Draw(load(), random.Random(SEED))
    weights = {name: weight for name, (weight, _) in PATTERNS.items()}
    made: list[Pair] = []
    seen: set[str] = set()
    while len(made) < RESERVE:
        draw.labels, draw.marks, draw.keys = set(), set(), 0
        phrase = PATTERNS[draw.weighted(weights)][1](draw)
        if phrase is None or not 3 <= len(phrase.german) <= 18:
            continue
        german, english = capital(phrase.german), capital(phrase.english)
        text = join([token.text for token in german])
        if text in seen:
            continue
        seen.add(text)
        links = {link for token in german for link in token.links}
        marked = {label for label, link in draw.marks if link in links}
        phenomena = sorted(draw.labels | marked)
        at: dict[str, list[int]] = {}
        for j, en in enumerate(english):
            for link in en.links:
                at.setdefault(link, []).append(j)
        alignment = sorted(
            {(i, j) for i, de in enumerate(german) for link in de.links for j in at.get(link, [])}
        )
        made.append(Pair([t.text for t in german], [t.text for t in english], phenomena, alignment))
    return made


def split(made: list[Pair]) -> dict[str, list[Pair]]:
    """Hold out pairs with words known from training and an English sentence of their own."""
    groups: dict[str, list[Pair]] = {}
    for pair in made:
        groups.setdefault(join(pair.english), []).append(pair)
    candidates: list[Pair] = []
    train: list[Pair] = []
    for i, group in enumerate(groups.values()):
        (candidates if i % 9 == 5 and len(group) == 1 else train).extend(group)
    train = train[: COUNTS["train"]]
    german = Counter(word for pair in train for word in pair.german)
    english = Counter(word for pair in train for word in pair.english)
    held = [
        pair
        for pair in candidates
        if min(german[word] for word in pair.german) >= 5
        and min(english[word] for word in pair.english) >= 5
    ]
    validation, test = COUNTS["validation"], COUNTS["test"]
    return {"train": train, "validation": held[:validation], "test": held[validation:][:test]}


def generate(folder: Path) -> dict[str, int]:
    """Write text and JSON lines of the three splits to "folder"; returns the number of pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = split(pairs())
    for name, part in splits.items():
        rows = [
            {
                "phenomena": p.phenomena,
                "alignment": p.alignment,
                "de_tokens": p.german,
                "en_tokens": p.english,
            }
            for p in part
        ]
        write(folder / f"{name}.de", [join(p.german) for p in part])
        write(folder / f"{name}.en", [join(p.english) for p in part])
        write(folder / f"{name}.jsonl", [json.dumps(row, ensure_ascii=False) for row in rows])
    return {name: len(part) for name, part in splits.items()}


def write(path: Path, lines: list[str]) -> None:
    """Replace the file in one step, so that a reader never sees half of it."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    os.replace(temporary, path)
