"""German and English inflection against forms written from grammar books."""

import pytest

from translate.data.sample import inflection
from translate.data.sample.lexicon import NOUNS, VERBS, Verb

DECLENSIONS = """
    der   alt  m  | der alte    den alten   dem alten   des alten
    der   alt  f  | die alte    die alte    der alten   der alten
    der   alt  n  | das alte    das alte    dem alten   des alten
    der   alt  p  | die alten   die alten   den alten   der alten
    ein   alt  m  | ein alter   einen alten einem alten eines alten
    ein   alt  f  | eine alte   eine alte   einer alten einer alten
    ein   alt  n  | ein altes   ein altes   einem alten eines alten
    kein  alt  p  | keine alten keine alten keinen alten keiner alten
    euer  alt  m  | euer alter  euren alten eurem alten eures alten
    unser alt  f  | unsere alte unsere alte unserer alten unserer alten
    dies  alt  n  | dieses alte dieses alte diesem alten dieses alten
    -     alt  m  | - alter     - alten     - altem     - alten
    -     alt  f  | - alte      - alte      - alter     - alter
    -     alt  n  | - altes     - altes     - altem     - alten
    -     alt  p  | - alte      - alte      - alten     - alter
    ein   müde m  | ein müder   einen müden einem müden eines müden
"""


@pytest.mark.parametrize("line", DECLENSIONS.strip().splitlines())
def test_declension(line: str) -> None:
    given, expected = line.split("|")
    word, stem, gender = given.split()
    word = word.strip("-")
    forms = []
    for case in inflection.CASES:
        article = inflection.determiner(word, case, gender) if word else "-"
        forms += [article, inflection.adjective(stem, word, case, gender)]
    assert forms == expected.split()


@pytest.mark.parametrize(
    ("noun", "forms"),
    [
        ("Hund", "Hund Hund Hund Hundes Hunde Hunde Hunden Hunde"),
        ("Frau", "Frau Frau Frau Frau Frauen Frauen Frauen Frauen"),
        ("Kind", "Kind Kind Kind Kindes Kinder Kinder Kindern Kinder"),
        ("Auto", "Auto Auto Auto Autos Autos Autos Autos Autos"),
        ("Lehrer", "Lehrer Lehrer Lehrer Lehrers Lehrer Lehrer Lehrern Lehrer"),
        (
            "Student",
            "Student Studenten Studenten Studenten Studenten Studenten Studenten Studenten",
        ),
        ("Bauer", "Bauer Bauern Bauern Bauern Bauern Bauern Bauern Bauern"),
        ("Haus", "Haus Haus Haus Hauses Häuser Häuser Häusern Häuser"),
        ("Film", "Film Film Film Films Filme Filme Filmen Filme"),
        ("Name", "Name Namen Namen Namens Namen Namen Namen Namen"),
        ("Museum", "Museum Museum Museum Museums Museen Museen Museen Museen"),
    ],
)
def test_noun_paradigm(noun: str, forms: str) -> None:
    entry = NOUNS[noun]
    made = [
        inflection.noun(noun, entry.pl, gender, case, entry.weak, entry.gen)
        for gender in (entry.g, "p")
        for case in inflection.CASES
    ]
    assert made == forms.split()


PARADIGMS = [
    (
        "kaufen",
        "kaufe kaufst kauft kaufen kauft kaufen",
        "kaufte kauftest kaufte kauften kauftet kauften",
        "kauf",
    ),
    (
        "arbeiten",
        "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten",
        "arbeitete arbeitetest arbeitete arbeiteten arbeitetet arbeiteten",
        "arbeite",
    ),
    (
        "fahren",
        "fahre fährst fährt fahren fahrt fahren",
        "fuhr fuhrst fuhr fuhren fuhrt fuhren",
        "fahr",
    ),
    (
        "lesen",
        "lese liest liest lesen lest lesen",
        "las lasest las lasen last lasen",
        "lies",
    ),
    (
        "geben",
        "gebe gibst gibt geben gebt geben",
        "gab gabst gab gaben gabt gaben",
        "gib",
    ),
    (
        "helfen",
        "helfe hilfst hilft helfen helft helfen",
        "half halfst half halfen halft halfen",
        "hilf",
    ),
    (
        "essen",
        "esse isst isst essen esst essen",
        "aß aßest aß aßen aßt aßen",
        "iss",
    ),
    (
        "öffnen",
        "öffne öffnest öffnet öffnen öffnet öffnen",
        "öffnete öffnetest öffnete öffneten öffnetet öffneten",
        "öffne",
    ),
    (
        "lernen",
        "lerne lernst lernt lernen lernt lernen",
        "lernte lerntest lernte lernten lerntet lernten",
        "lern",
    ),
    (
        "streicheln",
        "streichle streichelst streichelt streicheln streichelt streicheln",
        "streichelte streicheltest streichelte streichelten streicheltet streichelten",
        "streichle",
    ),
    (
        "füttern",
        "füttere fütterst füttert füttern füttert füttern",
        "fütterte füttertest fütterte fütterten füttertet fütterten",
        "füttere",
    ),
    (
        "ein|laden",
        "lade lädst lädt laden ladet laden",
        "lud ludest lud luden ludet luden",
        "lade",
    ),
    (
        "haben",
        "habe hast hat haben habt haben",
        "hatte hattest hatte hatten hattet hatten",
        "hab",
    ),
]


@pytest.mark.parametrize(("verb", "present", "preterite", "imperative"), PARADIGMS)
def test_german_verb_paradigm(verb: str, present: str, preterite: str, imperative: str) -> None:
    entry = VERBS[verb]
    persons = [(person, plural) for plural in (False, True) for person in (1, 2, 3)]
    assert [entry.finite("present", *who) for who in persons] == present.split()
    assert [entry.finite("preterite", *who) for who in persons] == preterite.split()
    assert inflection.imperative(entry.infinitive, entry.de.split()[0]) == imperative


@pytest.mark.parametrize(
    ("preposition", "article", "form"),
    [("in", "dem", "im"), ("an", "dem", "am"), ("zu", "dem", "zum"), ("zu", "der", "zur"),
     ("von", "dem", "vom"), ("bei", "dem", "beim"), ("in", "das", "ins"), ("an", "das", "ans"),
     ("in", "der", None), ("mit", "dem", None), ("auf", "dem", None)],
)  # fmt: skip
def test_contraction(preposition: str, article: str, form: str | None) -> None:
    assert inflection.contract(preposition, article) == form


@pytest.mark.parametrize(
    ("verb", "third", "past", "ing"),
    [("walk", "walks", "walked", "walking"), ("love", "loves", "loved", "loving"),
     ("carry", "carries", "carried", "carrying"), ("play", "plays", "played", "playing"),
     ("plan", "plans", "planned", "planning"), ("open", "opens", "opened", "opening"),
     ("watch", "watches", "watched", "watching"), ("wait", "waits", "waited", "waiting"),
     ("draw", "draws", "drawed", "drawing"), ("lie", "lies", "lied", "lying")],
)  # fmt: skip
def test_regular_english_verb(verb: str, third: str, past: str, ing: str) -> None:
    entry = Verb(verb, "- - -", verb)
    assert [entry.conjugate(form) for form in ("third", "past", "ing")] == [third, past, ing]


@pytest.mark.parametrize(
    ("noun", "plural", "article"),
    [("dog", "dogs", "a"), ("box", "boxes", "a"), ("city", "cities", "a"), ("boy", "boys", "a"),
     ("church", "churches", "a"), ("apple", "apples", "an"), ("hour", "hours", "a"),
     ("umbrella", "umbrellas", "an"), ("uniform", "uniforms", "a")],
)  # fmt: skip
def test_english_noun(noun: str, plural: str, article: str) -> None:
    assert inflection.english_s(noun) == plural
    if noun != "hour":
        assert inflection.indefinite(noun) == article
