"""Patterns of sentences with several clauses, and pairs of sentences with a pronoun between."""

from . import inflection
from .clause import COMMA, GERMAN_COMMA, Clause, finish, sentence, spell
from .drawing import Draw
from .lexicon import MODALS, PRONOUNS, VERBS, WORDS, Verb, adjectives_of, expand
from .nominals import SPEAKERS, noun_phrase, pronoun, referring
from .phrase import Nominal, Phrase, capital, pair
from .predicates import clause, copula, negate, predicate, verbs_that


def embedded(draw: Draw) -> Phrase:
    """Ich glaube, dass der Zug angekommen ist. Weißt du, ob der Zug angekommen ist?"""
    lemma = draw.pick(list(WORDS["opinions"]))
    row = WORDS["opinions"][lemma]
    asks = draw.chance(0.25) and "ob" in row
    speaker = pronoun(draw, ("du", "ihr", "Sie") if asks else SPEAKERS)
    if lemma == "sagen":
        speaker = pronoun(draw, ("er", "sie", "sie/they"))
    verb = Verb(lemma, row["de"], row["en"], present=tuple(row.get("present", ())))
    verbs, tense = list(VERBS), ""
    if lemma == "hoffen":
        tense = draw.weighted({"present": 1, "perfect": 1, "future": 1})
        verbs = verbs_that(lambda verb: tense in verb.tenses and not verb.involuntary)
    inner = clause(draw, verbs, tense, adverbs=0.6)
    inner.lead = pair("ob", "if") if asks else pair("dass", "that")
    draw.labels |= {"subordinate", "question"} if asks else {"subordinate"}
    outer = spell(Clause(verb, speaker), "first" if asks else "second", question=asks)
    return finish(outer + GERMAN_COMMA + spell(inner, "last"), "?" if asks else ".")


def reason(draw: Draw) -> Phrase | None:
    """Ich kaufe den Tisch, weil er billig ist. Er arbeitet, obwohl er krank ist."""
    although = draw.chance(0.35)
    made = clause(draw, verbs_that(lambda v: v.though if although else v.why), adverbs=0.5)
    about = made.accusative or made.dative or made.subject
    fits = _suiting(made.verb.though if although else made.verb.why, about)
    uncertain = about is made.subject and made.tense == "present" and made.modal
    if (not about.definite or about.vague or about.adjective or made.negation or uncertain
            or "frequency" in made.parts or not fits):
        return None
    subject = referring(draw, about)
    if subject is None:
        return None
    inner = copula(draw, subject, predicate(draw.pick(fits)), _then(made))
    inner.lead = pair("obwohl", "although") if although else pair("weil", "because")
    draw.labels.add("subordinate")
    comma = COMMA if although else GERMAN_COMMA
    return finish(spell(made) + comma + spell(inner, "last"))


def _suiting(adjectives: tuple[str, ...], nominal: Nominal) -> list[str]:
    """Those adjectives that may be said of the nominal; a personal pronoun takes any."""
    return [lemma for lemma in adjectives
            if nominal.noun is None or lemma in adjectives_of(nominal.noun.lemma)]


def _then(made: Clause) -> str:
    """The tense of a state at the time of the clause."""
    return "preterite" if made.tense in ("preterite", "perfect") else "present"


def condition(draw: Draw) -> Phrase | None:
    """Wenn es regnet, bleibt der Vater zu Hause. Die Mutter singt, wenn sie glücklich ist."""
    draw.labels |= {"subordinate", "present"}
    kind, first = draw.weighted({"outdoor": 1, "indoor": 1, "state": 1}), False
    if kind == "state":
        verbs = verbs_that(lambda v: v.why and not (v.object or v.dative or v.goal or v.once))
        made = clause(draw, verbs, "present", adverbs=0.6)
        fits, subject = _suiting(made.verb.why, made.subject), referring(draw, made.subject)
        if not fits or subject is None or made.subject.vague:
            return None
        inner = copula(draw, subject, predicate(draw.pick(fits)))
        inner.lead = pair("wenn", "when")
        when = spell(inner, "last")
    else:
        made = clause(draw, WORDS[kind], "present", adverbs=0.6, formal=True)
        when = draw.entry(dict(WORDS["conditions"][kind]), "wenn ", "when ")
        first = draw.chance(0.6)
    if made.negation or {"time", "frequency", "adjunct"} & made.parts.keys():
        return None
    if first:
        made.lead = when + COMMA
        draw.labels.add("inversion")
        return sentence(made)
    if made.subject.pronoun == PRONOUNS["Sie"]:
        return None  # at the beginning, "Sie" would read as "they"
    return finish(spell(made) + GERMAN_COMMA + when)


def relative(draw: Draw) -> Phrase | None:
    """Der Mann, der im Garten arbeitet, ist alt. Ich kenne das Lied, das sie singt."""
    made = clause(draw, list(VERBS), pronouns=0.0 if draw.chance(0.6) else 1.0, adverbs=0.5)
    if made.negation == "kein" or (made.modal and draw.chance(0.5)):
        return None
    about = made.accusative if made.subject.pronoun else made.subject
    noun = about.noun if about else None
    if not about or not noun or noun.mass or noun.bare or noun.kind == "relative":
        return None
    made.gap, case = ("accusative", "acc") if made.subject.pronoun else ("subject", "nom")
    who = "who" if noun.human and made.gap == "subject" else "that"
    made.lead = pair(inflection.determiner("der", case, about.gender), who)
    draw.labels.add("relative")
    head, tail = Nominal(noun, plural=about.plural), GERMAN_COMMA + spell(made, "last")
    fits = adjectives_of(noun.lemma)
    if draw.chance(0.5) and fits:
        head.tail = tail + GERMAN_COMMA
        return sentence(copula(draw, head, predicate(draw.pick(fits))))
    verbs = [verb for verb in ("sehen", "kennen", "suchen", "kaufen", "brauchen", "treffen",
                               "finden", "mögen") if noun.lemma in expand(*VERBS[verb].object)]
    if not verbs:
        return None
    verb, tense = VERBS[draw.pick(verbs)], "present"
    if "perfect" in verb.tenses:
        tense = draw.weighted({"present": 2, "perfect": 1, "preterite": 0.6})
    draw.labels.add(tense)
    outer = Clause(verb, pronoun(draw, SPEAKERS), tense, accusative=head)
    return finish(spell(outer) + tail)  # Ich habe das Lied gehört, das sie singt


def pronoun_pair(draw: Draw) -> Phrase | None:
    """Der Tisch ist neu. Er steht im Zimmer. - Die Lampe ist kaputt. Er repariert sie."""
    if draw.chance(0.45):
        second = clause(draw, verbs_that(lambda v: v.object and v.why), adverbs=0.4)
        about = second.accusative
    else:
        verbs = verbs_that(lambda v: not v.object or "human" not in v.subject)
        second = clause(draw, verbs, pronouns=0, adverbs=0.5)
        about = second.subject
    if (about is None or about.noun is None or not about.definite or about.vague
            or about.adjective or second.negation):
        return None
    if about is second.accusative or second.verb.why:
        fits = _suiting(second.verb.why, about)
    else:
        fits = [lemma for lemma in adjectives_of(about.noun.lemma) if lemma not in WORDS["states"]]
    later = referring(draw, about)
    if later is None or not fits:
        return None
    first = copula(draw, about, predicate(draw.pick(fits)), _then(second))
    if about is second.accusative:
        second.accusative = later
    else:
        second.subject = later
    return finish(spell(first) + pair(".", ".") + capital(spell(second)))


def coordinated(draw: Draw) -> Phrase | None:
    """Der Vater kocht und die Mutter liest."""
    tense = draw.weighted({"present": 2, "preterite": 1, "perfect": 1})
    one, two = (clause(draw, WORDS["chores"], tense, pronouns=0.2, adverbs=0.2) for _ in range(2))
    same = one.subject.noun == two.subject.noun
    if one.verb is two.verb or same or not (one.subject.noun and two.subject.noun):
        return None
    return finish(spell(one) + pair("und", "and") + spell(two))


def obstacle(draw: Draw) -> Phrase | None:
    """Ich möchte nach Rom reisen, aber ich habe kein Geld."""
    verbs = verbs_that(lambda v: "human" in v.subject and "modal" in v.tenses and not v.static)
    made = clause(draw, verbs, "present", adverbs=0.4)
    subject = referring(draw, made.subject)
    if (subject is None or made.subject.vague or made.negation or made.likes
            or {"time", "frequency"} & made.parts.keys()):
        return None
    name = draw.pick(("möchten", "wollen"))
    made.modal = MODALS[name], WORDS["modals"][name]["en"]
    lack = Clause(VERBS["haben"], subject, accusative=noun_phrase(draw, ["Zeit", "Geld"]))
    negate(draw, lack)
    draw.labels.add("modal")
    return finish(spell(made) + COMMA + pair("aber", "but") + spell(lack))
