"""Where a model breaks, found in outputs that break in known ways."""

import pytest
import sacrebleu

from translate.data.encoding import TextSide
from translate.data.text import TextPipeline
from translate.data.vocabulary import SPECIALS, Vocabulary
from translate.decoding.translator import Translation
from translate.evaluation.breakdown import breakdown, by_source_length, loops, worst


def test_sentences_are_grouped_by_the_tokens_of_their_source() -> None:
    sources = [" ".join(["Wort"] * n) for n in (1, 10, 11, 50, 51, 200)] + ["a b c d e f g h i, j"]
    lines = [f"This is sentence number {n} of them." for n in range(len(sources))]
    groups = by_source_length(sources, lines, lines)
    assert [(group["tokens"], group["sentences"]) for group in groups] == [
        ("≤ 10", 2), ("≤ 20", 2), ("≤ 50", 1), ("> 50", 2)]  # the comma is a token


def test_scores_of_a_group_are_those_of_its_sentences_alone() -> None:
    sources = ["Ja.", "Wort " * 15, "Nein."]
    references = ["The dog sleeps here.", "A cat sat on the mat.", "The dog runs very fast."]
    hypotheses = ["The dog sleeps here.", "A cat.", "The dog runs fast."]
    short, long = by_source_length(sources, hypotheses, references)
    direct = sacrebleu.corpus_bleu(hypotheses[::2], [references[::2]])
    assert short["bleu"] == direct.score
    assert short["length_ratio"] == direct.sys_len / direct.ref_len
    assert long["length_ratio"] == 3 / 7  # tokens, the full stops among them


@pytest.mark.parametrize("line, lengths", [
    ("the dog the dog sleeps", {2}), ("no no no", {1}), ("go on and on and on", {2}),
    ("the dog and the dog sleep", set()), ("a b c a b c a b c a b c", {3}), ("", set()),
    ("so so so so so so so so", {1, 2, 3, 4})])
def test_a_loop_is_the_same_words_twice_in_a_row(line: str, lengths: set[int]) -> None:
    assert {n for n in (1, 2, 3, 4) if loops([line], n)} == lengths
    assert loops([line, "fine"], 1) == (1 in lengths) / 2


def test_the_worst_sentences_come_first_and_are_at_most_ten() -> None:
    references = [f"the dog has {n} brown bones" for n in range(12)]
    hypotheses = [*references[:11], "cats"]
    hypotheses[4] = "the dog has"
    found = worst([f"Zeile {n}" for n in range(12)], hypotheses, references)
    assert len(found) == 10
    assert [row["source"] for row in found[:2]] == ["Zeile 11", "Zeile 4"]
    assert found[1]["hypothesis"] == "the dog has"
    assert found[1]["chrf"] == sacrebleu.sentence_chrf("the dog has", [references[4]]).score
    assert found[2]["chrf"] == pytest.approx(100)


def test_unknown_words_and_outputs_cut_at_the_limit_are_counted() -> None:
    source, target = (TextSide(TextPipeline(language, False, None),
                               Vocabulary([*SPECIALS, *("▁" + word for word in words)]))
                      for language, words in (("de", ("der", "Hund")), ("en", ("the", "dog"))))
    translations = [Translation("the dog", -1.0, -1.0, ["▁the", "▁dog"], False),
                    Translation("the <unk>", -1.0, -1.0, ["▁the", "▁<unk>"], True)]
    found = breakdown(["der Hund", "der Uhu"], translations, ["the dog", "the owl"], source, target)
    assert found["unknown"] == {"source": 0.25, "output": 0.25}
    assert found["cut_at_length_limit"] == 0.5
