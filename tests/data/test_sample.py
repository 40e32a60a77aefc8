"""The sample corpus: its guarantees, and pairs checked by hand."""

import csv
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from translate.data import sample
from translate.data.sample.lexicon import ADJECTIVES, MODALS, NOUNS, VERBS, WORDS

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
    tables = ("numbers", "frequency", "manner", "weekdays", "months", "seasons", "spans")
    lemmas = {name.split("/")[0] for table in tables for name in WORDS[table]}
    for entries in (NOUNS, VERBS, ADJECTIVES, MODALS):
        lemmas |= {name.split("/")[0] for name in entries}
    assert len(lemmas) >= 450


def test_every_noun_and_verb_is_learnable(corpus: Corpus) -> None:
    """Balanced drawing: no noun of the lexicon is rare in training."""
    counts = Counter(word for row in corpus["train"] for word in row[2]["de_tokens"])
    for noun in NOUNS.values():
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
