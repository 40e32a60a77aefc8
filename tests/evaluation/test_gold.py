"""What is read off the generated corpus's gold data."""

import json
from pathlib import Path

from translate.data.sample.corpus import Pair
from translate.evaluation.gold import exact_match, read_gold, word_classes


def test_gold_is_read_as_it_was_written(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(pair._asdict()) + "\n", encoding="utf-8")
    (read,) = read_gold(path)
    assert (read.phenomena, read.de_tokens, read.en_tokens) == (
        pair.phenomena, pair.de_tokens, pair.en_tokens)
    assert [tuple(link) for link in read.alignment] == pair.alignment


def test_words_are_classed_by_themselves_or_by_the_german_they_are_aligned_with(
    pair: Pair
) -> None:
    assert word_classes(pair) == ["pronoun", "verb", "other", "determiner", "noun", "other"]


def test_a_capital_at_the_beginning_of_a_sentence_makes_no_noun() -> None:
    pair = Pair([], [(0, 0), (1, 1), (2, 2), (3, 0), (4, 3), (5, 4)],
                ["Ruf", "Frau", "Schulz", "an", "jetzt", "!"],
                ["Call", "Ms", "Schulz", "now", "!"])
    assert word_classes(pair) == ["verb", "noun", "noun", "other", "other"]
    question = Pair([], [(0, 0), (1, 1), (2, 2)], ["Warum", "singt", "er"], ["Why", "sings", "he"])
    assert word_classes(question) == ["other", "verb", "pronoun"]


def test_exact_match_counts_each_sentence_under_all_its_phenomena() -> None:
    pairs = [Pair(labels, [], [], []) for labels in (["perfect", "plural"], ["perfect"], [])]
    found = exact_match(pairs, ["She slept.", "He runs", "Ja."], ["She slept.", "He runs.", "Ja."])
    assert found == {"all": {"sentences": 3, "right": 2}, "perfect": {"sentences": 2, "right": 1},
                     "plural": {"sentences": 1, "right": 1}}
