"""The alignment error rate, on attention of which the right answer is known."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from translate.data.encoding import TextSide
from translate.data.sample.corpus import Pair
from translate.data.text import Subwords, TextPipeline, Tokenizer
from translate.data.vocabulary import SPECIALS, Vocabulary, train_subwords
from translate.decoding.translator import Attention
from translate.evaluation.alignment import Alignment, align, membership

GERMAN, ENGLISH = "Sie hat die Hunde gern gesehen.", "She saw gladly the dogs."
RIGHT = (0, 5, 4, 2, 3, 6)  # for each English word a German one that it is aligned with
SILENT = torch.zeros(0)


class Pointing:
    """In place of a translator: each head attends to one given source token a row."""

    def __init__(self, heads: Sequence[Sequence[Sequence[int]]]) -> None:
        self.heads = heads  # layers × heads × rows, <eos> last

    def attention(self, line: str, tokens: Sequence[str]) -> Attention:
        source = Tokenizer("de").split(line)
        cross = torch.full((len(self.heads), len(self.heads[0]), len(tokens) + 1,
                            len(source) + 1), 0.01)
        for layer, heads in enumerate(self.heads):
            for head, rows in enumerate(heads):
                cross[layer, head, range(len(rows)), list(rows)] = 0.9 - 0.1 * head
        return Attention([*source, "<eos>"], [*tokens, "<eos>"], SILENT, SILENT, cross)


def alignment(pair: Pair, *layers: Sequence[Sequence[int]]) -> Alignment:
    english = TextSide(TextPipeline("en", False, None), Vocabulary(SPECIALS))
    translator: object = Pointing(layers)
    return align(translator, english, [pair], [GERMAN], [ENGLISH])  # type: ignore[arg-type]


def test_heads_that_find_every_word_reach_the_lowest_rate_of_one_link_a_word(pair: Pair) -> None:
    found = alignment(pair, [[*RIGHT, 7], [*RIGHT, 7]])
    assert found.error_rate.shape == (1, 3)
    # 6 links, 7 gold ones ("saw" has two), 6 in both.
    assert found.error_rate == pytest.approx(1 - 2 * 6 / (6 + 7))
    assert found.reachable == pytest.approx(1 - 2 * 6 / (6 + 7))
    assert found.precision == pytest.approx(1)


def test_error_rate_and_precision_by_hand(pair: Pair) -> None:
    saw_wrong = [0, 4, 4, 2, 3, 6, 7]
    dogs_nowhere = [0, 1, 4, 2, 7, 6, 7]  # 7 is <eos>
    found = alignment(pair, [saw_wrong], [dogs_nowhere])
    assert found.error_rate[0] == pytest.approx(1 - 2 * 5 / (6 + 7))
    assert found.error_rate[1] == pytest.approx(1 - 2 * 5 / (5 + 7))  # a link less was made
    names = list(found.words)
    assert found.words == {"verb": 1, "determiner": 1, "pronoun": 1, "noun": 1, "other": 2}
    assert found.precision[0, 0].tolist() == [name != "verb" for name in names]
    assert found.precision[1, 0].tolist() == [name != "noun" for name in names]


def test_the_last_column_is_the_mean_of_the_heads_taken_as_one(pair: Pair) -> None:
    wrong = [3] * 7
    found = alignment(pair, [[*RIGHT, 7], wrong])  # the first head attends more strongly
    assert found.error_rate[0, 1] > 0.5
    assert found.error_rate[0, 2] == found.error_rate[0, 0] == pytest.approx(1 / 13)


def test_a_word_is_found_by_the_row_that_writes_it_not_by_the_next_one(pair: Pair) -> None:
    found = alignment(pair, [[6, *RIGHT]])  # each word is attended to a row too late
    assert found.error_rate[0, 0] == 1


def test_the_diagonal_takes_no_model(pair: Pair) -> None:
    # English words 0 … 5 with German ones 0, 1, 2, 4, 5, 6: right are the first two and the last.
    assert alignment(pair, [[0] * 7]).diagonal == pytest.approx(1 - 2 * 3 / (6 + 7))


def test_json_names_layer_and_head(pair: Pair) -> None:
    rows = alignment(pair, [[*RIGHT, 7], [3] * 7], [[3] * 7, [*RIGHT, 7]]).for_json()["heads"]
    assert [(row["layer"], row["head"]) for row in rows] == [
        (1, 1), (1, 2), (1, "mean"), (2, 1), (2, 2), (2, "mean")]
    assert rows[0]["error_rate"] == rows[4]["error_rate"] == pytest.approx(1 / 13)
    assert rows[0]["precision"]["verb"] == 1


def test_pieces_belong_to_every_word_of_which_they_have_a_character() -> None:
    words = ["Größe", "o'clock", "."]
    assert membership(["▁Gr", "öße", "▁o", "'", "clock", "."], words).argmax(axis=1).tolist() == [
        0, 0, 1, 1, 1, 2]
    bytewise = ["▁", "Gr", "<0xC3>", "<0xB6>", "ße", "▁o'clock."]
    found = membership(bytewise, words)
    assert found[0].sum() == 0  # a space alone
    assert np.argwhere(found[1:]).tolist() == [[0, 0], [1, 0], [2, 0], [3, 0], [4, 1], [4, 2]]
    with pytest.raises(ValueError, match="not the tokens of"):
        membership(["▁Größe"], words)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_of_a_subword_model_cover_the_words_in_order(kind: str) -> None:
    tokens = Tokenizer("de").split("Die Ärztin übersetzt um sieben Uhr die größten Häuser.")
    counts = dict.fromkeys(tokens, 5) | {f"▁{a}{b}": 1 for a in "abcdefghij" for b in "klmnopqrst"}
    subwords = Subwords(train_subwords(counts, kind, 400))  # type: ignore[arg-type]
    words = [token.removeprefix("▁") for token in tokens]
    found = membership(subwords.split(["▁Ж", *tokens]), ["Ж", *words])  # one in bytes
    rows, columns = np.nonzero(found)
    assert sorted(set(columns)) == list(range(len(words) + 1))
    assert (np.diff(columns) >= 0).all() and len(set(rows)) == len(rows) > len(words)
