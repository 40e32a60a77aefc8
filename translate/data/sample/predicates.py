"""Drawn clauses: a verb with its subject, tense, objects, complements and adverbials."""

from collections.abc import Callable

from .adverbials import place, prepositional, time
from .clause import Clause
from .drawing import Draw
from .lexicon import ADJECTIVES, AUXILIARIES, MODALS, NOUNS, PRONOUNS, VERBS, WORDS, Verb, expand
from .nominals import decorate, determine, noun_phrase, others, pronoun, settle
from .phrase import Nominal, Phrase, pair

_TENSES = {"present": 34, "preterite": 17, "perfect": 26, "modal": 14, "future": 6,
           "progressive": 5}
_QUESTION_TENSES = {"present": 16, "preterite": 0, "perfect": 44, "modal": 24, "future": 10,
                    "progressive": 6}


def verbs_that(keep: Callable[[Verb], object]) -> list[str]:
    return [lemma for lemma, verb in VERBS.items() if keep(verb)]


def clause(draw: Draw, verbs: list[str], tense: str = "", pronouns: float = 0.3,
           formal: bool = False, adverbs: float = 1.0, subject: Nominal | None = None,
           question: bool = False) -> Clause:
    """A clause with one of the verbs and whatever it allows.

    "pronouns" and "adverbs" say how often there are such, "formal" whether "Sie" may be one.
    """
    verb = VERBS[draw.pick(verbs)]
    tense = tense or draw.weighted(_tenses(verb, question))
    form = "present" if tense in ("modal", "future") else tense
    if tense == "modal" and draw.chance(0.25):
        form = "preterite"
    if subject is None:
        familiar = form != "preterite" and (tense in ("perfect", "modal", "future")
                                            or verb.lemma in WORDS["everyday"])
        subject = _subject(draw, verb, pronouns, familiar, formal, question)
    made = Clause(verb, subject, form)
    draw.labels.add("present" if tense in ("progressive", "since") else tense)
    if verb.prefix:
        draw.labels.add("separable")
    negated = _modal(draw, made, tense, question)
    habit = False
    if tense == "progressive":
        made.parts["time"] = pair("gerade", "right now")
        draw.labels.add("time")
    elif draw.chance(0.3 * adverbs) or (verb.clock and draw.chance(0.6)):
        when = time(draw, made)
        if when:
            made.parts["time"] = when
            habit = tense == "present"
    elif draw.chance(0.14 * adverbs) and not (question or negated or verb.clock or verb.once
                                              or verb.static or made.modal):
        made.parts["frequency"] = draw.entry(WORDS["frequency"])
        draw.labels.add("time")
        habit = True
    _objects(draw, made, habit)
    complements(draw, made)
    _extras(draw, made, adverbs, negated)
    if negated and not habit:
        negate(draw, made)
    return made


def _tenses(verb: Verb, question: bool) -> dict[str, float]:
    """The tenses that the verb allows: nobody wants or plans what happens to him."""
    return {name: weight for name, weight in (_QUESTION_TENSES if question else _TENSES).items()
            if (verb.now if name == "progressive" else name in verb.tenses)
            and not (verb.involuntary and name in ("modal", "future"))
            and not (name == "modal" and "human" not in verb.subject)}


def _subject(draw: Draw, verb: Verb, pronouns: float, familiar: bool, formal: bool,
             question: bool) -> Nominal:
    names = expand(*verb.subject)
    if "pronoun" in names and draw.chance(pronouns):
        weights = {"ich": 0 if question else 5, "er": 2, "sie": 2, "wir": 1 if question else 2,
                   "sie/they": 1.5}
        if familiar:
            weights |= {"du": 2, "ihr": 1}
        if formal:
            weights["Sie"] = 3
        return Nominal(pronoun=PRONOUNS[draw.weighted(weights)])
    return noun_phrase(draw, [name for name in names if name != "pronoun"], subject=True)


def _modal(draw: Draw, made: Clause, tense: str, question: bool) -> bool:
    """Give the clause its modal, or werden in the future; return whether it is to be negated."""
    name = ""
    if tense == "modal":
        name = draw.pick([name for name, row in WORDS["modals"].items()
                          if made.tense == "present" or "past" in row])
    negated = (not question and tense not in ("progressive", "since")
               and draw.chance({"modal": 0.2, "future": 0.1}.get(tense, 0.11))
               and name not in ("können", "möchten"))
    if tense == "future":
        made.modal = AUXILIARIES["werden"], "will"
    elif name:
        row = WORDS["modals"][name]
        variant = "en_past" if made.tense == "preterite" else "en_not" if negated else "en"
        made.modal = MODALS[name], row.get(variant, row["en"])
    return negated


def _objects(draw: Draw, made: Clause, habit: bool) -> None:
    """Add the objects that the verb calls for."""
    verb, person = made.verb, made.subject.agreement[0]
    if verb.dative:
        if draw.chance(0.2):
            names = ["ich", "du", "er", "sie", "wir", "sie/they"]
            made.dative = pronoun(
                draw, [name for name in names if PRONOUNS[name].person != person])
        else:
            made.dative = noun_phrase(draw, expand(*verb.dative), made.subject)
    if verb.object:
        names = expand(*verb.object)
        if all(NOUNS[name].human for name in names) and draw.chance(0.15) and person != 1:
            made.accusative = pronoun(draw, ("ich", "wir"))
        else:
            made.accusative = noun_phrase(draw, names, made.subject,
                                          weights={"ein": 3, "mein": 1} if habit else None)


def complements(draw: Draw, made: Clause) -> None:
    """Add the prepositional object, destination or position that the verb calls for."""
    verb = made.verb
    if verb.site or verb.goal:
        made.parts["complement"] = place(draw, verb.site or verb.goal, goal=bool(verb.goal))
    if verb.prep:
        names = others(expand(*verb.target), made.subject)
        where = NOUNS[names[0]].kind in ("nature", "water", "surface", "town", "building")
        weights = {"der": 6, "dies": 1} if where else None
        target = noun_phrase(draw, names, made.subject, weights=weights, adjective=0.2,
                             singular=where)
        made.parts["complement"] = prepositional(draw, target, *verb.prep)
    if verb.where or verb.whither:
        options = [f"{german}/{english}/{noun}"
                   for german, english, nouns in WORDS["positions"][verb.where or verb.whither]
                   for noun in others(expand(*nouns), made.subject, made.accusative)]
        german, english, noun = draw.pick(options).split("/")
        target = Nominal(NOUNS[noun])
        choice = draw.weighted({"der": 8, "mein": 1, "dies": 0.5, "ein": 0.7})
        determine(draw, target, choice, made.subject)
        settle(target)
        decorate(draw, target, 0.15)
        made.parts["complement"] = prepositional(
            draw, target, german, "acc" if verb.whither else "dat", english)


def _extras(draw: Draw, made: Clause, adverbs: float, negated: bool) -> None:
    """Add manner, place and an optional prepositional phrase, at most two adverbials in all."""
    verb, timed = made.verb, "time" in made.parts
    manners = verb.manner
    if made.accusative and (made.accusative.pronoun or not made.accusative.definite):
        manners = tuple(manner for manner in manners if manner == "gern")
    if manners and draw.chance(0.4 * adverbs):
        manner = draw.pick(manners, "manner ")
        if manner == "gern":
            made.likes = not (made.modal or timed or made.tense == "perfect")
        else:
            made.parts["manner"] = pair(manner.split("/")[0], WORDS["manner"][manner])
    if len(made.parts) > 1:
        return
    fits = [row for row in WORDS["adjuncts"]
            if verb.prefix + verb.infinitive in row["verbs"] and "/" not in verb.lemma
            and not (row["case"] == "gen" and negated)
            and not (timed and row["de"] in ("vor", "nach", "während"))]
    if fits and draw.chance(0.35 * adverbs):
        row = draw.any(fits)
        names, bare = others(expand(*row["nouns"]), made.subject), "bare" in row
        the = {"der": 1} if row["case"] == "gen" or row["de"] in ("vor", "nach") else None
        noun = (Nominal(NOUNS[draw.pick(names)]) if bare
                else noun_phrase(draw, names, made.subject, weights=the, adjective=0.1))
        made.parts["adjunct"] = prepositional(
            draw, noun, row["de"], row["case"], row["en"], article=not bare)
    elif verb.at and draw.chance(0.4 * adverbs):
        made.parts["place"] = place(draw, verb.at)


def negate(draw: Draw, made: Clause) -> None:
    """nicht, or kein with an indefinite object: "not a", before a plural "not any"."""
    target = made.accusative
    if target is None or target.definite:
        made.negation = "nicht"
    elif not target.number:
        made.negation = "kein"
        target.determiner, target.negation = "kein", (made.key + "neg",)
        if target.plural:
            target.english_determiner = "any"
    if made.negation:
        draw.labels.add("negation")


def copula(draw: Draw, subject: Nominal, complement: Phrase, tense: str = "present") -> Clause:
    draw.labels.add(tense)
    return Clause(AUXILIARIES["sein"], subject, tense, parts={"complement": complement})


def predicate(lemma: str, compared: bool = False) -> Phrase:
    """An adjective after sein, which has no ending."""
    adjective = ADJECTIVES[lemma]
    return pair(adjective.german(compared, attributive=False), adjective.english(compared))
