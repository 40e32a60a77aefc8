"""Drawn noun phrases: determiners, possessives, adjectives and pronouns that suit the noun."""

from collections.abc import Iterable, Mapping, Sequence

from . import inflection
from .drawing import Draw
from .lexicon import ADJECTIVES, NOUNS, PRONOUNS, WORDS, Noun, adjectives_of, expand
from .phrase import Nominal

SPEAKERS = ("ich", "er", "sie", "wir", "sie/they")
_WEIGHTS = {"need": {"ein": 1.0}, "sky": {"der": 1.0},
            "relative": {"mein": 9, "der": 0.6, "dies": 0.1}}


def noun_phrase(draw: Draw, names: list[str], owner: Nominal | None = None, subject: bool = False,
                weights: Mapping[str, float] | None = None, adjective: float = 0.3,
                singular: bool = False) -> Nominal:
    """A noun phrase with one of the nouns; "owner" is whom a possessive may refer to."""
    noun = NOUNS[draw.pick(names)]
    plural = noun.g == "p" or (bool(noun.pl) and not singular and draw.chance(0.24))
    nominal = Nominal(noun, plural=plural)
    if plural:
        draw.marks.add(("plural", nominal.key + "n"))
    determine(draw, nominal, draw.weighted(weights or _weights(noun, plural, subject)), owner)
    decorate(draw, nominal, adjective / 3 if noun.kind == "relative" else adjective)
    settle(nominal)
    return nominal


def _weights(noun: Noun, plural: bool, subject: bool) -> dict[str, float]:
    """The weights of the determiners that suit the noun."""
    if noun.kind in _WEIGHTS:
        return _WEIGHTS[noun.kind]
    if noun.mass:
        return {"der": 3, "ein": 0 if subject else 4}
    weights = {"der": 5, "dies": 0.8, "ein": 3.5 if not subject else 0 if plural else 1}
    if noun.lemma in expand("owned"):
        weights["mein"] = 1.6
    if noun.lemma in expand("each") and not plural:
        weights["jed"] = 0.8
    if plural and noun.lemma != "Leute":
        weights["number"] = 1.5
    return weights


def determine(draw: Draw, nominal: Nominal, choice: str, owner: Nominal | None = None) -> None:
    """Set the determiner or number; a name, such as Berlin, has none."""
    noun, words = nominal.noun, ("", "")
    assert noun is not None
    if choice == "mein":
        words = _possessive(draw, owner)
        draw.marks.add(("possessive", nominal.key + "d"))
    elif choice == "number":
        numbers = list(WORDS["numbers"])
        word = draw.pick(numbers[:4] if noun.gendered or draw.chance(0.6) else numbers, "number ")
        nominal.number = word, WORDS["numbers"][word]
        draw.marks.add(("number", nominal.key + "c"))
    elif choice != "ein" or not (nominal.plural or noun.mass):
        words = choice, {"der": "the", "ein": "a", "jed": "every",
                         "dies": "these" if nominal.plural else "this"}[choice]
    nominal.determiner, nominal.english_determiner = ("", "") if noun.bare else words


def _possessive(draw: Draw, owner: Nominal | None) -> tuple[str, str]:
    """The subject's own where it has one in the third person, else my, your, our."""
    if owner and ((owner.pronoun and owner.pronoun.person == 3) or draw.chance(0.5)):
        if owner.pronoun:
            return owner.pronoun.poss
        if owner.noun and owner.noun.gendered and owner.noun.lemma != "Leute":
            return PRONOUNS[{"m": "er", "f": "sie", "p": "sie/they"}[owner.gender]].poss
    return PRONOUNS[draw.pick(("ich", "du", "wir", "ihr"), "possessive ")].poss


def decorate(draw: Draw, nominal: Nominal, chance: float) -> None:
    """Add an adjective that the noun allows, sometimes in the comparative."""
    assert nominal.noun is not None
    mine = nominal.determiner not in ("der", "ein", "dies", "")
    fits = [lemma for lemma in adjectives_of(nominal.noun.lemma)
            if lemma not in WORDS["predicative"] and not (mine and lemma in WORDS["states"])]
    if not fits or nominal.noun.bare or not draw.chance(chance):
        return
    lemma, link = draw.pick(fits), nominal.key + "a"
    nominal.adjective = ADJECTIVES[lemma]
    kind = inflection.adjective_declension(nominal.determiner)
    draw.marks |= {("adjective", link), (f"adjective-{kind}", link)}
    if nominal.determiner == "ein" and lemma in WORDS["compared"] and draw.chance(0.4):
        nominal.compared = True
        draw.marks.add(("comparative", link))


def settle(nominal: Nominal) -> None:
    """Relatives are someone's: an indefinite one becomes "the"."""
    relative = nominal.noun is not None and nominal.noun.kind == "relative"
    if relative and not nominal.number and nominal.determiner in ("ein", ""):
        nominal.determiner, nominal.english_determiner = "der", "the"


def pronoun(draw: Draw, names: Sequence[str]) -> Nominal:
    return Nominal(pronoun=PRONOUNS[draw.pick(names)])


def referring(draw: Draw, to: Nominal) -> Nominal | None:
    """The pronoun for a nominal by its grammatical gender; None where English could not decide."""
    if to.noun is None:
        return Nominal(pronoun=to.pronoun)
    if to.noun.kind == "youth" and not to.plural:
        return None
    name = {"m": "er", "f": "sie", "n": "es", "p": "sie/they"}[to.gender]
    if not to.noun.gendered and to.gender in "mf":
        name += "/it"
    result = Nominal(pronoun=PRONOUNS[name])
    draw.marks.add(("pronoun", result.key + "n"))
    return result


def others(names: Iterable[str], *taken: Nominal | None) -> list[str]:
    """The nouns but for those of the nominals."""
    lemmas = {nominal.noun.lemma for nominal in taken if nominal and nominal.noun}
    return [name for name in names if name not in lemmas]
