"""Clauses in both languages at once: the order of words, and the verb with its auxiliaries."""

from dataclasses import dataclass, field

from . import inflection
from .lexicon import AUXILIARIES, VERBS, Verb
from .phrase import Nominal, Phrase, Token, new_key, tokens

# Pronouns before nouns, time before manner before place; "nicht" after the definite objects and
# before manner, place and complement; an object that is new (ein Buch) after the adverbs.
_GERMAN_ORDER = (
    "subject", "pronoun accusative", "pronoun dative", "time", "frequency", "dative", "accusative",
    "not", "likes", "manner", "adjunct", "place", "new accusative", "agent", "complement",
)
_ENGLISH_MODALS = ("can", "could", "must", "should", "may", "will", "would")

COMMA = Phrase([Token(",", ("comma",))], [Token(",", ("comma",))])
GERMAN_COMMA = Phrase([Token(",")], [])


@dataclass
class Clause:
    """A clause with its parts; "gap" names the part that "lead" stands for at the front."""

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
    key: str = field(default_factory=new_key)


def spell(clause: Clause, order: str = "second", question: bool = False) -> Phrase:
    """The clause with the German finite verb "first", "second" or "last" (subordinate)."""
    return Phrase(_german(clause, order), _english(clause, question))


def finish(phrase: Phrase, mark: str = ".") -> Phrase:
    end = [Token(mark, ("end",))]
    return phrase + Phrase(end, end)


def sentence(clause: Clause, order: str = "second", mark: str = ".") -> Phrase:
    """The clause as a sentence; one that ends in "?" is inverted in English."""
    return finish(spell(clause, order, question=mark == "?"), mark)


# --- German -------------------------------------------------------------------------------------

def _german_verb(clause: Clause) -> tuple[Token, list[Token], str]:
    """The finite verb, the other verb forms in the order of the right bracket, and the prefix."""
    own = link = clause.key + "v"
    verb = head = clause.verb
    rest, participle = "", verb.prefix + verb.de.split()[2]
    if clause.passive:
        head, rest = AUXILIARIES["werden"], participle
    if clause.tense == "perfect":
        rest += " worden" if clause.passive else participle
        head = AUXILIARIES["sein" if verb.sein or clause.passive else "haben"]
    if clause.modal:
        rest += f" {verb.prefix if head is verb else ''}{head.infinitive}"
        head, link = clause.modal[0], clause.key + "m"
    person, plural = clause.subject.agreement
    form = head.finite(clause.tense, person, plural)
    if clause.imperative and (person, plural) == (2, False):
        form = inflection.imperative(verb.infinitive, verb.de.split()[0])
    return Token(form, (link,)), tokens(rest, own), verb.prefix if head is verb else ""


def _german(clause: Clause, order: str) -> list[Token]:
    parts = {name: part.german for name, part in clause.parts.items() if name != clause.gap}
    if clause.negation == "nicht":
        parts["not"] = tokens("nicht", clause.key + "neg")
    if clause.likes:
        parts["likes"] = tokens("gern", clause.key + "like")
    if clause.imperative:  # Kommen Sie - come
        parts["subject"] = tokens("Sie" if clause.subject.agreement[0] == 3 else "",
                                  clause.key + "v")
    elif clause.gap != "subject":
        parts["subject"] = clause.subject.german("nom")
    for name, nominal in (("accusative", clause.accusative), ("dative", clause.dative)):
        if nominal and name != clause.gap:
            new = name == "accusative" and not nominal.definite
            kind = "pronoun " if nominal.pronoun else "new " if new else ""
            parts[kind + name] = nominal.german(name[:3])
    front: list[Token] = []
    if clause.lead:
        front = clause.lead.german
    elif order == "second":
        front = parts.pop(clause.front or "subject")
    first = () if clause.subject.pronoun else ("pronoun accusative", "pronoun dative")
    words = [word for name in dict.fromkeys((*first, *_GERMAN_ORDER))
             for word in parts.get(name, [])]
    finite, rest, prefix = _german_verb(clause)
    if order == "last":
        return [*front, *words, *rest, Token(prefix + finite.text, finite.links)]
    return [*front, finite, *words, *tokens(prefix, clause.key + "v"), *rest]


# --- English ------------------------------------------------------------------------------------

def _english_verb(clause: Clause, inverted: bool) -> tuple[list[Token], list[Token]]:
    """The auxiliary (which inverts and takes "not") and the rest of the English verb."""
    verb, link = clause.verb, clause.key + "v"
    person, plural = clause.subject.agreement
    third, past = (person, plural) == (3, False), clause.tense in ("preterite", "perfect")
    negation = tokens("not" if clause.negation else "", clause.key + "neg")
    head, *fixed = verb.english[0]
    if clause.passive:
        head, fixed = "be", [verb.conjugate("part"), *fixed]
    elif clause.tense == "progressive":
        head, fixed = "be", [verb.conjugate("ing"), *fixed]
    elif clause.tense == "since":  # has lived, but: has been waiting
        head = "have"
        fixed[:0] = [verb.conjugate("part")] if verb.static else ["been", verb.conjugate("ing")]
    rest = tokens(" ".join(fixed), link)
    if clause.modal or clause.likes:
        first, modal = tokens(head, link), clause.modal[1] if clause.modal else "like to"
        head, *others = modal.split()
        link = clause.key + ("m" if clause.modal else "like")
        rest = tokens(" ".join(others), link) + first + rest
        if head in _ENGLISH_MODALS:
            return [Token(head, (link,)), *negation], rest
        verb = VERBS["haben"] if head == "have" else Verb("", "", head)
    if clause.imperative:
        do = tokens("do" if clause.negation else "", clause.key + "neg")
        return do + negation, [Token(head, (link,)), *rest]
    if head == "be" or clause.tense == "since":
        form = (inflection.english_be(past, person, plural) if head == "be"
                else "has" if third else "have")
        return [Token(form, (link,)), *negation], rest
    if negation or inverted:
        do = tokens("did" if past else "does" if third else "do",
                    clause.key + "neg" if negation else link)
        return do + negation, [Token(head, (link,)), *rest]
    form = verb.conjugate("past" if past else "third") if past or third else head
    return [], [Token(form, (link,)), *rest]


def _english_objects(clause: Clause) -> list[Token]:
    """Objects and the particle: give the boy a book, give it to the boy, turn it on."""
    accusative, dative = clause.accusative, clause.dative
    direct = accusative.english() if accusative and clause.gap != "accusative" else []
    indirect = dative.english() if dative and clause.gap != "dative" else []
    particle = tokens(clause.verb.english[1], clause.key + "v")
    pronoun = accusative is not None and accusative.pronoun is not None
    direct = direct + particle if pronoun else particle + direct
    if accusative and dative and (clause.verb.to or pronoun):
        link = dative.key + ("d" if dative.determiner and not dative.pronoun else "n")
        return [*direct, Token("to", (link,)), *indirect]
    return indirect + direct


def _english(clause: Clause, question: bool) -> list[Token]:
    """The clause; "question" inverts subject and auxiliary unless the subject is asked for."""
    part = {name: part.english for name, part in clause.parts.items() if name != clause.gap}
    first = clause.lead.english if clause.lead else []
    if clause.front in ("time", "frequency"):
        first = part.pop(clause.front)
    auxiliary, verb = _english_verb(clause, question and clause.gap != "subject")
    silent = clause.gap == "subject" or clause.imperative
    subject = [] if silent else clause.subject.english(subject=True)
    inverted = int(question)
    manner, complement = part.get("manner", []), part.get("complement", [])
    # speak quietly about the film, but: speak about the film for a long time
    how = complement + manner if len(manner) > 1 else manner + complement
    last = [word for name in ("agent", "adjunct", "place", "time") for word in part.get(name, [])]
    return [*first, *auxiliary[:inverted], *subject, *auxiliary[inverted:],
            *part.get("frequency", []), *verb, *_english_objects(clause), *how, *last]
