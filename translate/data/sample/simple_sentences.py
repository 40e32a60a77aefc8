"""Patterns of sentences with one clause.

A pattern draws a sentence; None means that what was drawn makes no good one.
"""

from .adverbials import place, prepositional, span, time
from .clause import Clause, sentence
from .drawing import Draw
from .lexicon import ADJECTIVES, MODALS, NOUNS, VERBS, WORDS, adjectives_of, expand
from .nominals import SPEAKERS, noun_phrase, others, pronoun
from .phrase import Nominal, Phrase, pair, tokens
from .predicates import clause, complements, copula, negate, predicate, verbs_that


def statement(draw: Draw) -> Phrase:
    """Der Junge spielt im Garten."""
    return sentence(clause(draw, list(VERBS)))


def inverted(draw: Draw) -> Phrase | None:
    """Heute spielt der Junge im Garten."""
    verbs = verbs_that(lambda verb: not verb.static)
    return front(draw, clause(draw, verbs, formal=True, adverbs=1.6))


def front(draw: Draw, made: Clause) -> Phrase | None:
    """Move an adverbial before the verb; gerade, immer and nie stay where they are."""
    fixed = ("gerade", "immer", "nie", "selten")
    names = [name for name in ("time", "frequency", "place")
             if name in made.parts and made.parts[name].german[0].text not in fixed]
    if not names or (made.negation and names[0] == "place"):
        return None
    made.front = names[0]
    draw.labels.add("inversion")
    return sentence(made)


def yes_no(draw: Draw) -> Phrase:
    """Spielt der Junge im Garten?"""
    made = clause(draw, list(VERBS), pronouns=0.4, formal=True, adverbs=0.7, question=True)
    draw.labels.add("question")
    return sentence(made, "first", "?")


def w_question(draw: Draw) -> Phrase | None:
    """Wo spielt der Junge? The question word stands for one part of a clause."""
    made = clause(draw, list(VERBS), pronouns=0.4, formal=True, adverbs=0.5, question=True)
    if made.negation or "frequency" in made.parts:
        return None
    words = _question_words(made)
    if not words:
        return None
    made.gap = draw.pick(list(words))
    made.lead = pair(*words[made.gap])
    if made.gap == "subject":  # a possessive could refer to the subject, which is now unknown
        if any(label == "possessive" for label, _ in draw.marks):
            return None
        made.subject = Nominal(made.subject.noun)
    draw.labels.add("question")
    return sentence(made, mark="?")


def _question_words(made: Clause) -> dict[str, tuple[str, str]]:
    """The parts of the clause that can be asked for, and how."""
    parts, verb, words = made.parts, made.verb, dict[str, tuple[str, str]]()
    if "time" in parts and parts["time"].german[0].text != "gerade":
        words["time"] = "wann", "when"
    if "place" in parts or verb.site or verb.where:
        words["place" if "place" in parts else "complement"] = "wo", "where"
    elif verb.lemma in ("gehen", "fahren", "reisen", "fliegen", "rennen"):
        words["complement"] = "wohin", "where"
    if "manner" in parts and parts["manner"].german[0].text not in ("lange", "viel", "überall"):
        words["manner"] = "wie", "how"
    if made.accusative and made.accusative.noun:
        human = made.accusative.noun.human
        words["accusative"] = ("wen", "who") if human else ("was", "what")
    if made.dative and made.dative.noun and not made.accusative:
        words["dative"] = "wem", "who"
    if made.subject.noun and made.subject.noun.human:
        words["subject"] = "wer", "who"
    if "time" not in parts:
        words["reason"] = "warum", "why"
    return words


def command(draw: Draw) -> Phrase | None:
    """Komm nach Hause! Kommen Sie bitte nach Hause!"""
    made = clause(draw, verbs_that(lambda verb: verb.imperative), "present", adverbs=0,
                  subject=pronoun(draw, ("du", "ihr", "Sie")))
    made.imperative = True
    if any(part and part.pronoun and part.pronoun.person != 1
           for part in (made.accusative, made.dative)):
        return None
    if draw.chance(0.5):
        made.lead = pair("bitte", "please")
    draw.labels.discard("present")
    draw.labels.add("imperative")
    return sentence(made, "first", "!")


def description(draw: Draw) -> Phrase | None:
    """Der Tisch ist alt."""
    subject = noun_phrase(draw, [name for name in NOUNS if adjectives_of(name)], subject=True,
                          adjective=0.1)
    assert subject.noun is not None
    made = copula(draw, subject, predicate(draw.pick(adjectives_of(subject.noun.lemma))),
                  draw.weighted({"present": 3, "preterite": 1}))
    if subject.adjective or subject.number or subject.english_determiner == "a":
        return None
    if draw.chance(0.2):
        negate(draw, made)
    elif draw.chance(0.15):
        draw.labels.add("question")
        return sentence(made, "first", "?")
    return sentence(made)


def comparison(draw: Draw) -> Phrase | None:
    """Der Hund ist schneller als die Katze. Der Hund ist so groß wie die Katze."""
    lemma = draw.pick([lemma for lemma, row in ADJECTIVES.items() if row.comp != "none"])
    nouns = expand(*ADJECTIVES[lemma].of)
    subject = noun_phrase(draw, nouns, subject=True, adjective=0.1)
    assert subject.noun is not None
    same = [name for name in others(nouns, subject) if NOUNS[name].kind == subject.noun.kind]
    if not same or subject.vague or subject.adjective or subject.number:
        return None
    other = noun_phrase(draw, same, subject=True, adjective=0.1)
    if other.vague or other.adjective or other.number:
        return None
    tense = draw.weighted({"present": 3, "preterite": 1})
    than = Phrase(other.german("nom"), other.english())
    if draw.chance(0.75):
        complement = predicate(lemma, compared=True) + pair("als", "than") + than
    else:
        complement = pair("so", "as") + predicate(lemma) + pair("wie", "as") + than
    draw.labels.add("comparative")
    return sentence(copula(draw, subject, complement, tense))


def passive(draw: Draw) -> Phrase | None:
    """Das Auto wurde von dem Mechaniker repariert. Das Auto muss repariert werden."""
    tense = draw.weighted({"preterite": 4, "perfect": 3, "present": 2.5, "modal": 1.5})
    verbs = verbs_that(
        lambda verb: verb.passive and (tense != "present" or verb.lemma in WORDS["routine"]))
    verb = VERBS[draw.pick(verbs)]
    subject = noun_phrase(draw, expand(*verb.object), subject=True)
    if subject.number or subject.determiner == "jed":
        return None
    made = Clause(verb, subject, "present" if tense == "modal" else tense, passive=True)
    if tense == "modal":
        name = draw.pick(("können", "müssen", "sollen"))
        made.modal = MODALS[name], WORDS["modals"][name]["en"]
    draw.labels |= {"passive", tense}
    if verb.prefix:
        draw.labels.add("separable")
    when = time(draw, made) if tense == "present" or draw.chance(0.4) else None
    if when:
        made.parts["time"] = when
    elif tense == "present":
        return None
    if tense in ("preterite", "perfect") and draw.chance(0.4):
        agents = others(expand(*verb.subject), subject)
        agent = noun_phrase(draw, [name for name in agents if name != "pronoun"], adjective=0.1)
        made.parts["agent"] = prepositional(draw, agent, "von", "dat", "by")
    elif verb.at and draw.chance(0.4):
        made.parts["place"] = place(draw, verb.at)
    if verb.whither or verb.where:
        complements(draw, made)
    return front(draw, made) if when and draw.chance(0.35) else sentence(made)


def profession(draw: Draw) -> Phrase | None:
    """Mein Bruder ist Lehrer. Seine Tochter ist eine gute Ärztin."""
    subject = noun_phrase(draw, expand("relative"), adjective=0)
    assert subject.noun is not None
    if subject.plural or subject.number:
        return None
    jobs = [name for name in WORDS["professions"] if NOUNS[name].g == subject.noun.g]
    job = Nominal(NOUNS[draw.pick(jobs)], determiner="", english_determiner="a")
    if draw.chance(0.6):
        job.determiner = "ein"
        job.adjective = ADJECTIVES[draw.pick(
            ("gut", "berühmt", "jung", "nett", "fleißig", "freundlich", "schlecht"))]
        draw.marks |= {(name, job.key + "a") for name in ("adjective", "adjective-mixed")}
    return sentence(copula(draw, subject, Phrase(job.german("nom"), job.english()),
                           draw.weighted({"present": 2, "preterite": 1})))


def property_of(draw: Draw) -> Phrase:
    """Die Farbe des Autos ist hässlich. Ich mag die Farbe des Autos."""
    quality = draw.pick(list(WORDS["qualities"]))
    row = WORDS["qualities"][quality]
    owner = noun_phrase(draw, expand(*row["of"]), weights={"der": 4, "mein": 1.5, "dies": 1},
                        adjective=0)
    genitive = Phrase(owner.german("gen"), tokens("of", owner.key + "d") + owner.english())
    head = Nominal(NOUNS[quality], tail=genitive)
    draw.labels.add("genitive")
    if draw.chance(0.3):
        verb = VERBS[draw.pick(("kennen", "vergessen", "mögen"))]
        draw.labels.add("present")
        return sentence(Clause(verb, pronoun(draw, SPEAKERS), accusative=head))
    return sentence(copula(draw, head, predicate(draw.pick(row["is"])),
                           draw.weighted({"present": 2, "preterite": 1})))


def since(draw: Draw) -> Phrase:
    """Er wohnt seit drei Jahren in Berlin: the English present perfect."""
    made = clause(draw, WORDS["lasting"], "since", adverbs=0)
    units = ["Monat", "Jahr"] if made.verb.static else ["Tag", "Stunde"]
    german, english = span(draw, units, "number ")
    made.parts["time"] = pair(f"seit {german}", f"for {english}")
    draw.labels.add("time")
    return sentence(made)
