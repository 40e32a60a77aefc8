"""Drawn adverbials: prepositional phrases, places and times."""

from . import inflection
from .clause import Clause
from .drawing import Draw
from .lexicon import NOUNS, PLACE_ADVERBS, WORDS, expand
from .nominals import decorate, determine
from .phrase import Nominal, Phrase, new_key, pair, tokens

_TWO_WAY = ("in", "an", "auf", "unter", "neben", "vor", "hinter", "über", "zwischen")
_LABELS = {"acc": "preposition-accusative", "dat": "preposition-dative", "gen": "genitive"}


def prepositional(draw: Draw, noun: Nominal, german: str, case: str, english: str, *,
                  article: bool = True) -> Phrase:
    """A preposition with its noun phrase; the English preposition may be several words."""
    key = new_key()
    draw.marks.add(("preposition-two-way" if german in _TWO_WAY else _LABELS[case], key))
    return Phrase(noun.german(case, german, key),
                  tokens(english, key) + noun.english(article=article))


def place(draw: Draw, names: tuple[str, ...], goal: bool = False) -> Phrase:
    """Where (dative) or where to (accusative, or dative after zu and nach)."""
    lemma = draw.pick(expand(*names))
    if lemma in PLACE_ADVERBS:
        return pair(lemma, PLACE_ADVERBS[lemma])
    noun = NOUNS[lemma]
    german, english, *bare = noun.to if goal else noun.at
    nominal = Nominal(noun)
    if bare or noun.bare:
        determine(draw, nominal, "der")
    else:
        mine = 0.8 if noun.kind == "room" else 0
        determine(draw, nominal, draw.weighted({"der": 8, "dies": 0.6, "mein": mine}))
        decorate(draw, nominal, 0.12)
    case = "acc" if goal and german in ("in", "an", "auf") else "dat"
    return prepositional(draw, nominal, german, case, english, article=not bare)


def span(draw: Draw, units: list[str], kind: str = "") -> tuple[str, str]:
    """Drei Tagen - three days."""
    draw.labels.add("number")
    number, unit = draw.pick(list(WORDS["numbers"])[:6], kind), draw.pick(units)
    plural, english = WORDS["spans"][unit]
    return (f"{number} {inflection.noun(unit, plural, 'p', 'dat')}",
            f"{WORDS['numbers'][number]} {english}s")


def time(draw: Draw, clause: Clause) -> Phrase | None:
    """A time that goes with verb and tense, or None."""
    verb = clause.verb
    if verb.static:
        return None
    tense = clause.tense if clause.tense == "present" else "past"
    if clause.modal and tense == "present":
        tense = "future"
    if draw.chance(0.8 if verb.clock else 0.12):
        kind = "clock"
    elif verb.clock:
        kind = draw.weighted({"list": 3, "every" if tense == "present" else "weekdays": 1})
    elif tense == "present":
        kind = draw.weighted({"list": 4, "every": 1, "seasons": 1})
        if verb.once:
            return None
    else:
        kind = draw.weighted({"list": 5, "weekdays": 1.5, "months": 0.8, "seasons": 0.5,
                              "spans": 1})
    draw.labels.add("time")
    match kind:
        case "clock":
            word = draw.pick(list(WORDS["numbers"]))
            phrase = pair(f"um {word} Uhr", f"at {WORDS['numbers'][word]} o'clock")
            draw.marks.add(("number", phrase.german[1].links[0]))
            return phrase
        case "list":
            return draw.entry(WORDS["times"][tense])
        case "spans":
            german, english = span(draw, list(WORDS["spans"]))
            if tense == "future":
                return pair(f"in {german}", f"in {english}")
            ago = pair(f"vor {german}", f"ago {english}")
            return Phrase(ago.german, ago.english[1:] + ago.english[:1])
        case "every":
            return draw.entry(WORDS["weekdays"], "jeden ", "every ")
        case "weekdays":
            return draw.entry(WORDS["weekdays"], "am ", "on ")
    return draw.entry(WORDS[kind], "im ", "in ")
