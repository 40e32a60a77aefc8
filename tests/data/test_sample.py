"""The sample corpus: its guarantees, and German and English forms written from grammar books."""

import csv
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from translate.data import inflection, sample
from translate.data.grammar import Verb

SPLITS = {"train": 24_000, "validation": 1_000, "test": 1_000}
PHENOMENA = (
    "present", "preterite", "perfect", "future", "modal", "separable", "inversion", "subordinate",
    "relative", "question", "negation", "adjective", "adjective-strong", "adjective-weak",
    "adjective-mixed", "preposition-accusative", "preposition-dative", "preposition-two-way",
    "genitive", "pronoun", "possessive", "plural", "comparative", "passive", "imperative",
    "number", "time",
)  # fmt: skip
CHECKED = Path(__file__).with_name("sample_checked.tsv")

Corpus = dict[str, list[tuple[str, str, dict[str, Any]]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample")
    assert sample.generate(path) == SPLITS
    return path


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return {
        name: list(
            zip(
                lines(folder / f"{name}.de"),
                lines(folder / f"{name}.en"),
                [json.loads(row) for row in lines(folder / f"{name}.jsonl")],
                strict=True,
            )
        )
        for name in SPLITS
    }


def lines(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n") and "\r" not in text
    return text.split("\n")[:-1]


def test_counts(corpus: Corpus) -> None:
    assert {name: len(rows) for name, rows in corpus.items()} == SPLITS


def test_no_sentence_is_shared(corpus: Corpus) -> None:
    german = [row[0] for rows in corpus.values() for row in rows]
    assert len(set(german)) == len(german)
    for side in (0, 1):
        train = {row[side] for row in corpus["train"]}
        for name in ("validation", "test"):
            assert train.isdisjoint(row[side] for row in corpus[name])


def test_german_decides_english(corpus: Corpus) -> None:
    """Case aside, a German sentence has one translation: "sie" is decided by its verb."""
    english: dict[str, str] = {}
    for rows in corpus.values():
        for german, translation, _ in rows:
            assert english.setdefault(german, translation) == translation


@pytest.mark.parametrize("side", ["de_tokens", "en_tokens"])
def test_held_out_words_are_frequent_in_training(corpus: Corpus, side: str) -> None:
    counts = Counter(word for row in corpus["train"] for word in row[2][side])
    for name in ("validation", "test"):
        assert min(counts[word] for row in corpus[name] for word in row[2][side]) >= 5


def test_same_bytes_every_time(folder: Path, tmp_path: Path) -> None:
    sample.generate(tmp_path)
    for path in sorted(folder.iterdir()):
        first, second = (
            hashlib.sha256(p.read_bytes()).hexdigest() for p in (path, tmp_path / path.name)
        )
        assert first == second, path.name


def test_lexicon_size() -> None:
    lexicon = sample.load()
    words = lexicon.words
    tables = ("numbers", "frequency", "manner", "weekdays", "months", "seasons", "spans")
    lemmas = {name.split("/")[0] for table in tables for name in words[table]}
    for entries in (lexicon.nouns, lexicon.verbs, lexicon.adjectives, lexicon.modals):
        lemmas |= {name.split("/")[0] for name in entries}
    assert len(lemmas) >= 450


def test_every_noun_and_verb_is_learnable(corpus: Corpus) -> None:
    """Balanced drawing: no noun of the lexicon is rare in training."""
    counts = Counter(word for row in corpus["train"] for word in row[2]["de_tokens"])
    for noun in sample.load().nouns.values():
        assert counts[noun.lemma] + counts[noun.pl] >= 20, noun.lemma


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_phenomenon_is_frequent(corpus: Corpus, phenomenon: str) -> None:
    count = sum(phenomenon in row[2]["phenomena"] for row in corpus["train"])
    assert count >= 0.02 * len(corpus["train"])


def test_no_unknown_phenomenon(corpus: Corpus) -> None:
    for rows in corpus.values():
        for row in rows:
            assert row[2]["phenomena"] and set(row[2]["phenomena"]) <= set(PHENOMENA)


def test_tokens_join_to_the_line(corpus: Corpus) -> None:
    for rows in corpus.values():
        for german, english, row in rows:
            for text, tokens in ((german, row["de_tokens"]), (english, row["en_tokens"])):
                joined = " ".join(tokens)
                for mark in ",.?!":
                    joined = joined.replace(f" {mark}", mark)
                assert text == joined
                assert "'" not in text.replace("o'clock", "")


def test_alignment_is_complete(corpus: Corpus) -> None:
    """Every German word is aligned, every English one too; only commas may stand alone."""
    for rows in corpus.values():
        for _, _, row in rows:
            german, english = row["de_tokens"], row["en_tokens"]
            left = {i for i, _ in row["alignment"]}
            right = {j for _, j in row["alignment"]}
            assert left <= set(range(len(german))) and right <= set(range(len(english)))
            assert all(i in left for i, word in enumerate(german) if word != ",")
            assert all(j in right for j, word in enumerate(english) if word != ",")


def test_alignment_by_example(corpus: Corpus) -> None:
    """ "hat ... gekauft" goes with "bought" as a group."""
    row = next(
        r for _, _, r in corpus["train"] if "gekauft" in r["de_tokens"] and "hat" in r["de_tokens"]
    )
    bought = row["en_tokens"].index("bought")
    for word in ("hat", "gekauft"):
        assert [row["de_tokens"].index(word), bought] in row["alignment"]


def test_pairs_checked_by_hand(corpus: Corpus) -> None:
    with CHECKED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert len(rows) >= 60
    pairs = {german: (english, row) for part in corpus.values() for german, english, row in part}
    assert {phenomenon for phenomenon, _, _ in rows} >= set(PHENOMENA)
    for phenomenon, german, english in rows:
        assert pairs[german][0] == english
        assert phenomenon in pairs[german][1]["phenomena"]


# --- forms written from grammar knowledge -------------------------------------------------------

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
    entry = sample.load().nouns[noun]
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
    entry = sample.load().verbs[verb]
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
