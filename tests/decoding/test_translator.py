"""Text in, text out: a translation belongs to its line and to nothing else."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.encoding import TextSide
from translate.data.text import Subwords, TextPipeline, Tokenizer
from translate.data.vocabulary import EOS, SPECIALS, UNK, Vocabulary, train_subwords
from translate.decoding.translator import Translation, Translator
from translate.model.transformer import Transformer

GERMAN = ["Der Hund läuft heute schnell.", "Die Katze schläft.", "Ja.", "Der Bär grüßt die Katze.",
          "Heute läuft die Katze, und der Hund schläft nicht mehr.", "Schläft der Bär?"]
ENGLISH = ["The dog runs fast today.", "The cat sleeps.", "Yes.", "The bear greets the cat.",
           "Today the cat runs, and the dog doesn't sleep any more.", "Does the bear sleep?"]
SIZES = {"d_model": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 3, "d_ff": 32}

Sides = tuple[TextSide, TextSide]
every_kind = pytest.mark.parametrize("kind", ["words", "subwords"])


@pytest.fixture(scope="module")
def texts() -> dict[str, Sides]:
    """A German and an English side by words, and by subwords with bytes."""
    found: dict[str, list[TextSide]] = {"words": [], "subwords": []}
    for language, lines in (("de", GERMAN), ("en", ENGLISH)):
        tokens = [token for line in lines for token in Tokenizer(language).split(line)]
        found["words"].append(TextSide(TextPipeline(language, False, None),
                                       Vocabulary([*SPECIALS, *dict.fromkeys(tokens)])))
        subwords = Subwords(train_subwords({token: 9 for token in tokens}, "bpe", 320))
        found["subwords"].append(TextSide(TextPipeline(language, False, subwords),
                                          Vocabulary(subwords.pieces)))
    return {kind: (sides[0], sides[1]) for kind, sides in found.items()}


def a_translator(
    sides: Sides, model: dict[str, Any] | None = None, prefer: dict[int, float] | None = None,
    **decoding: Any,
) -> tuple[Translator, Transformer]:
    """Random weights, and `prefer` added to the logits of some target tokens."""
    torch.manual_seed(3)
    transformer = Transformer(*(len(side.vocabulary) for side in sides),
                              **{**SIZES, "tie_output": False, **(model or {})})
    with torch.no_grad():
        transformer.output.weight *= 2.5
    wanted = torch.zeros(len(sides[1].vocabulary))
    ending = 1.0 if len(wanted) < 100 else 1.8  # so that translations differ in length
    for token, by in {EOS: ending, **(prefer or {})}.items():
        wanted[token] = by
    transformer.output.register_forward_hook(lambda _module, _inputs, logits: logits + wanted)
    return Translator(transformer, *sides, DecodingConfig(**decoding)), transformer


def many_lines() -> list[str]:
    """Seventy lines of 1 to about 30 tokens, unknown words and empty lines among them."""
    chance = random.Random(1)
    words = [*" ".join(GERMAN).split(), "Donaudampfschiff", "🐻", "x"]
    lines = [" ".join(chance.choices(words, k=chance.randint(1, 25))) for _ in range(70)]
    lines[4] = lines[40] = ""
    return lines


def assert_same(found: list[list[Translation]], expected: list[list[Translation]]) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [(one.text, one.tokens) for one in some] == [(o.text, o.tokens) for o in others]
        assert [one.score for one in some] == pytest.approx([o.score for o in others], abs=1e-4)


@every_kind
@pytest.mark.parametrize("beam", [1, 3])
def test_a_translation_does_not_depend_on_batch_neighbours_or_order(
    texts: dict[str, Sides], kind: str, beam: int
) -> None:
    lines = many_lines()
    longest = max(len(texts[kind][0].pipeline.split(line)) for line in lines) + 1
    found = {}
    for size in (1, 7, 64):
        translator, model = a_translator(texts[kind], batch_tokens=size * beam * longest,
                                         max_length_factor=0.5, max_length_extra=6)
        sizes: list[int] = []
        model.source_embedding.register_forward_hook(
            lambda _module, inputs, _output, sizes=sizes: sizes.append(len(inputs[0])))
        found[size] = translator.translate(lines, beam)
        assert sizes[0] == size
        assert sum(sizes) == 68  # the empty ones are not translated
    assert len({len(best[0].tokens) for best in found[1]}) > 5
    assert_same(found[7], found[1])
    assert_same(found[64], found[1])

    order = random.Random(2).sample(range(70), 70)
    shuffled = translator.translate([lines[i] for i in order], beam)
    assert_same(shuffled, [found[1][i] for i in order])
    for i in (0, 1, 4, 69):
        assert_same(translator.translate([lines[i]], beam), [found[1][i]])


@every_kind
@pytest.mark.parametrize("beam", [1, 4])
def test_an_empty_line_gives_an_empty_line(
    texts: dict[str, Sides], kind: str, beam: int
) -> None:
    translator, _ = a_translator(texts[kind], prefer={EOS: -1.0})
    lines = ["", GERMAN[0], "   ", "\u2028", "\u200b\ufeff", GERMAN[1], ""]
    found = [best.text for best, *_ in translator.translate(lines, beam)]
    assert [bool(text) for text in found] == [False, True, False, False, False, True, False]
    assert translator.translate([], beam) == []


@every_kind
def test_odd_lines_are_translated_and_disturb_no_other(
    texts: dict[str, Sides], kind: str
) -> None:
    translator, _ = a_translator(texts[kind])
    odd = ["Quux Blorp", "🐻", "👩‍👩‍👧 🇩🇪", "<unk> <pad> <sos> <eos>", "▁ ␛", "$x$ \\ | \t",
           "漢字", "x" * 300, "Der Hund\u2028läuft"]
    together = translator.translate([*odd, *GERMAN], 3)
    assert_same(together[:len(odd)], [translator.translate([line], 3)[0] for line in odd])
    assert_same(together[len(odd):], translator.translate(GERMAN, 3))


def test_a_very_long_line_is_translated_within_its_limit(texts: dict[str, Sides]) -> None:
    lines = ["Ja.", " ".join(GERMAN * 10)]
    translator, _ = a_translator(texts["words"], prefer={EOS: -50.0}, max_length_factor=0.5,
                                 max_length_extra=3)
    source_tokens = len(texts["words"][0].pipeline.split(lines[1]))
    assert source_tokens > 300  # more than the table of positions holds at first
    for beam in (1, 2):
        short, long = translator.translate(lines, beam)
        assert len(short[0].tokens) == 3  # half of 2 tokens, and 3, less one for <eos>
        assert len(long[0].tokens) == source_tokens // 2 + 2


@pytest.mark.parametrize("beam", [1, 2])
def test_learned_positions_cut_what_is_longer_and_say_so(
    texts: dict[str, Sides], beam: int, capsys: pytest.CaptureFixture[str]
) -> None:
    translator, _ = a_translator(texts["words"], {"positions": "learned", "max_positions": 20},
                                 prefer={EOS: -50.0})
    fits, longer = " ".join(["Hund"] * 19), " ".join(["Hund"] * 20)
    best = translator.translate([fits], beam)[0][0]
    assert len(best.tokens) == 19
    assert translator.attention(fits, best.tokens).weights.shape[2:] == (20, 20)
    assert capsys.readouterr().err == ""
    assert_same(translator.translate([longer], beam), [[best]])
    assert "of a line of 20 tokens only the first are translated" in capsys.readouterr().err


def test_a_line_break_that_the_model_writes_does_not_shift_lines(texts: dict[str, Sides]) -> None:
    vocabulary = texts["subwords"][1].vocabulary
    newline, separator = vocabulary.ids(["<0x0A>", "<0x85>"])
    before = vocabulary.ids(["<0xC2>"])[0]
    translator, _ = a_translator(texts["subwords"],
                                 prefer={newline: 9.0, separator: 9.0, before: 9.0})
    for beam in (1, 3):
        best = translator.translate([GERMAN[0]], beam)[0][0]
        assert "<0x0A>" in best.tokens
        assert len(best.text.splitlines()) <= 1


def test_an_unknown_word_in_the_output_stays_a_word_of_its_own(texts: dict[str, Sides]) -> None:
    translator, _ = a_translator(texts["words"], prefer={UNK: 50.0}, max_length_factor=0.0,
                                 max_length_extra=4)
    best = translator.translate([GERMAN[0]], 1)[0][0]
    assert best.text == "<unk> <unk> <unk>"
    assert translator.attention(GERMAN[0], best.tokens).weights.isfinite().all()


def test_n_best_begins_with_the_best_and_widens_the_beam(texts: dict[str, Sides]) -> None:
    translator, _ = a_translator(texts["subwords"], beam=2)
    for line in GERMAN:
        found = translator.translate([line], n_best=5)[0]
        assert_same([found[:1]], translator.translate([line], beam=5))
        assert len({tuple(one.tokens) for one in found}) == 5
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert_same(translator.translate(GERMAN), translator.translate(GERMAN, beam=2))
    assert translator.translate_best(GERMAN) == [n[0].text for n in translator.translate(GERMAN)]


@every_kind
def test_dropout_is_off_while_translating_and_on_again_after(
    texts: dict[str, Sides], kind: str
) -> None:
    translator, model = a_translator(texts[kind], {"dropout": 0.5, "attention_dropout": 0.5})
    expected = translator.translate(GERMAN, 3)
    attention = translator.attention(GERMAN[0], expected[0][0].tokens).weights
    for training in (True, False):
        model.train(training)
        assert_same(translator.translate(GERMAN, 3), expected)
        again = translator.attention(GERMAN[0], expected[0][0].tokens).weights
        torch.testing.assert_close(again, attention)
        assert model.training is training


@every_kind
def test_attention_has_a_row_a_target_token_that_sums_to_one(
    texts: dict[str, Sides], kind: str
) -> None:
    source, target = texts[kind]
    translator, _ = a_translator(texts[kind])
    for line in (GERMAN[4], "", "🐻 $x$"):
        for english in (ENGLISH[4], ""):
            tokens = target.pipeline.split(english)
            found = translator.attention(line, tokens)
            assert found.source == [*source.pipeline.split(line), "<eos>"]
            assert found.target == [*tokens, "<eos>"]
            assert found.weights.shape == (3, 2, len(found.target), len(found.source))
            assert (found.weights >= 0).all()
            torch.testing.assert_close(found.weights.sum(-1), torch.ones(3, 2, len(tokens) + 1))


def test_attention_is_what_the_decoder_used_before_each_token(texts: dict[str, Sides]) -> None:
    """Row t sees no token from t on: it is the same in every translation that begins alike."""
    translator, _ = a_translator(texts["words"])
    tokens = texts["words"][1].pipeline.split(ENGLISH[4])
    whole: Tensor = translator.attention(GERMAN[4], tokens).weights
    for n in (0, 3, 7):
        torch.testing.assert_close(translator.attention(GERMAN[4], tokens[:n]).weights,
                                   whole[:, :, :n + 1])
    assert (whole[:, :, 3] - whole[:, :, 7]).abs().max() > 1e-3
