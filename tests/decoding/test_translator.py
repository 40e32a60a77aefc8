"""Text in, text out: a translation belongs to its line and to nothing else."""

import itertools
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.config import Config
from translate.data.encoding import TextSide
from translate.data.sample import corpus
from translate.data.text import Subwords, TextPipeline, Tokenizer
from translate.data.vocabulary import EOS, SPECIALS, UNK, Vocabulary, train_subwords
from translate.decoding.sampling import Sampling
from translate.decoding.translator import Translation, Translator, batches
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


def a_config(max_length: int = 1000, **decoding: Any) -> Config:
    """`max_length`: source tokens of the longest training pair."""
    return Config.model_validate({"name": "x", "decoding": decoding,
                                  "data": {"corpus": "sample", "max_length": max_length}})


def a_translator(
    sides: Sides, model: dict[str, Any] | None = None, prefer: dict[int, float] | None = None,
    max_length: int = 1000, **decoding: Any,
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
    return Translator([transformer], *sides, a_config(max_length, **decoding)), transformer


def many_lines() -> list[str]:
    """Three hundred sentences of the sample grammar, unknown words and two empty lines."""
    lines = [pair.german for pair in corpus._distinct()]
    lines[4] = lines[140] = ""
    lines[7] += " 🐻 Donaudampfschiff"
    return lines


def assert_same(found: list[list[Translation]], expected: list[list[Translation]]) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [(one.text, one.tokens) for one in some] == [(o.text, o.tokens) for o in others]
        assert [one.score for one in some] == pytest.approx([o.score for o in others], abs=1e-4)


@pytest.mark.parametrize(("kind", "beam", "layers"), [("words", 3, 2), ("subwords", 1, 1)])
def test_a_translation_does_not_depend_on_batch_neighbours_or_order(
    texts: dict[str, Sides], kind: str, beam: int, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "DRAWN", 300)
    lines = many_lines()
    longest = max(len(texts[kind][0].pipeline.split(line)) for line in lines) + 1
    found = {}
    for size in (1, 7, 64):
        translator, model = a_translator(texts[kind], {"decoder_layers": layers},
                                         prefer={EOS: 0.4},
                                         batch_tokens=size * beam * longest,
                                         max_length_factor=0.3, max_length_extra=5)
        sizes: list[int] = []
        model.source_embedding.register_forward_hook(
            lambda _module, inputs, _output, sizes=sizes: sizes.append(len(inputs[0])))
        found[size] = translator.translate(lines, beam)
        assert sizes[0] == size
        assert sum(sizes) == 298  # the empty ones are not translated
    assert len({len(best[0].tokens) for best in found[1]}) > 4
    assert_same(found[7], found[1])
    assert_same(found[64], found[1])

    order = random.Random(2).sample(range(300), 300)
    shuffled = translator.translate([lines[i] for i in order], beam)
    assert_same(shuffled, [found[1][i] for i in order])
    for i in (0, 1, 4, 299):
        assert_same(translator.translate([lines[i]], beam), [found[1][i]])


def test_batches_hold_every_line_once_within_the_budget_and_as_many_for_each_thread() -> None:
    draw = random.Random(3)
    for number, budget, threads in itertools.product((0, 3, 50, 400), (1, 700, 4096), (1, 2, 5)):
        lengths = [draw.randint(0, 30) for _ in range(number)]
        found = batches(lengths, budget, threads)
        assert sorted(itertools.chain(*found)) == [row for row in range(number) if lengths[row]]
        padded = [len(rows) * (lengths[rows[0]] + 1) for rows in found]
        assert all(n <= budget or len(rows) == 1 for n, rows in zip(padded, found, strict=True))
        if number == 400 and budget > 1:
            assert len(found) % threads == 0
    assert batches([9] * 40, 4096) == [list(range(40))]
    assert [len(rows) for rows in batches([9] * 60, 4096, 2)] == [30, 30]
    assert [len(rows) for rows in batches([9] * 600, 10_000, 2)] == [150] * 4  # two for each
    assert len(batches([9] * 5, 4096, 2)) == 1  # too few to divide


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
           "漢字", "שלום עולם", "مرحبا \u202eHund\u202c", "x" * 300, "j", "Der Hund\u2028läuft"]
    together = translator.translate([*odd, *GERMAN], 3)
    assert_same(together[:len(odd)], [translator.translate([line], 3)[0] for line in odd])
    assert_same(together[len(odd):], translator.translate(GERMAN, 3))


def test_a_line_of_2000_tokens_is_translated_within_its_limit(texts: dict[str, Sides]) -> None:
    lines = ["Ja.", " ".join(["Hund"] * 2000)]
    translator, _ = a_translator(texts["words"], prefer={EOS: -50.0}, max_length=2000,
                                 max_length_factor=0.02, max_length_extra=3)
    for beam in (1, 2):
        short, long = translator.translate(lines, beam)
        assert len(short[0].tokens) == 2  # int(0.02 · 2) and 3, less one for <eos>
        assert len(long[0].tokens) == 42
        assert short[0].cut and long[0].cut


def test_only_what_reached_its_limit_counts_as_cut(texts: dict[str, Sides]) -> None:
    translator, _ = a_translator(texts["words"], prefer={EOS: 50.0})
    assert not any(one[0].cut for one in translator.translate(GERMAN, 2))


SHORT, MEDIUM = "Der Hund schläft.", "Die Katze läuft heute nicht."  # 4 and 6 tokens


def test_a_line_longer_than_the_training_pairs_is_cut_between_sentences_and_joined_again(
    texts: dict[str, Sides], capsys: pytest.CaptureFixture[str]
) -> None:
    translator, _ = a_translator(texts["words"], max_length=10)
    lines = [SHORT, f"{SHORT} {MEDIUM}", f"{MEDIUM} {SHORT} {SHORT} {MEDIUM} {MEDIUM}"]
    parts = [f"{MEDIUM} {SHORT}", f"{SHORT} {MEDIUM}", MEDIUM]
    for n_best in (1, 3):
        found = translator.translate(lines, 3, n_best)
        assert "line 3 has 26 tokens, more than the 10" in (err := capsys.readouterr().err)
        assert "in 3 parts" in err and "left out" not in err and err.count("\n") == 1
        of_parts = translator.translate(parts, 3, n_best)
        assert capsys.readouterr().err == ""
        for n, whole in enumerate(found[2]):
            assert whole.text == " ".join(part[n].text for part in of_parts if part[n].text)
            assert whole.score == pytest.approx(sum(part[n].score for part in of_parts))
            assert whole.tokens == [token for part in of_parts for token in part[n].tokens]


def test_where_no_cut_is_possible_the_tail_is_dropped_and_said(
    texts: dict[str, Sides], capsys: pytest.CaptureFixture[str]
) -> None:
    translator, _ = a_translator(texts["words"], max_length=6)
    endless = " ".join(["Hund"] * 9)
    found = translator.translate(["", f"{SHORT} {endless} {SHORT}", endless], 2)
    err = capsys.readouterr().err.splitlines()
    kept = " ".join(["Hund"] * 6)
    assert [one[0].text for one in found] == [
        "", *(" ".join(part[0].text for part in translator.translate(parts, 2))
              for parts in ([SHORT, kept], [kept]))]
    assert "line 2 has 17 tokens" in err[0] and "7 tokens at the ends" in err[0]
    assert "line 3 has 9 tokens" in err[1] and "3 tokens at the ends" in err[1]


@pytest.mark.parametrize("beam", [1, 2])
def test_learned_positions_limit_source_and_translation(
    texts: dict[str, Sides], beam: int, capsys: pytest.CaptureFixture[str]
) -> None:
    translator, _ = a_translator(texts["words"], {"positions": "learned", "max_positions": 20},
                                 prefer={EOS: -50.0})
    fits, longer = " ".join(["Hund"] * 19), " ".join(["Hund"] * 20)
    best = translator.translate([fits], beam)[0][0]
    assert len(best.tokens) == 19 and best.cut
    assert translator.attention(longer, best.tokens).cross.shape[2:] == (20, 20)
    assert capsys.readouterr().err == ""
    assert_same(translator.translate([longer], beam), [[best]])
    assert "line 1 has 20 tokens, more than the 19" in capsys.readouterr().err


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
    assert translator.attention(GERMAN[0], best.tokens).cross.isfinite().all()


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
    attention = translator.attention(GERMAN[0], expected[0][0].tokens).cross
    for training in (True, False):
        model.train(training)
        assert_same(translator.translate(GERMAN, 3), expected)
        again = translator.attention(GERMAN[0], expected[0][0].tokens).cross
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
            assert found.cross.shape == (3, 2, len(found.target), len(found.source))
            assert (found.cross >= 0).all()
            torch.testing.assert_close(found.cross.sum(-1), torch.ones(3, 2, len(tokens) + 1))


def test_attention_is_what_the_decoder_used_before_each_token(texts: dict[str, Sides]) -> None:
    """Row t sees no token from t on: it is the same in every translation that begins alike."""
    translator, _ = a_translator(texts["words"])
    tokens = texts["words"][1].pipeline.split(ENGLISH[4])
    whole: Tensor = translator.attention(GERMAN[4], tokens).cross
    for n in (0, 3, 7):
        torch.testing.assert_close(translator.attention(GERMAN[4], tokens[:n]).cross,
                                   whole[:, :, :n + 1])
    assert (whole[:, :, 3] - whole[:, :, 7]).abs().max() > 1e-3


def test_a_score_is_found_again_when_its_tokens_are_forced(texts: dict[str, Sides]) -> None:
    for kind, sides in texts.items():
        translator, _ = a_translator(sides, prefer={UNK: 0.5})
        lines = [GERMAN[0], "", *GERMAN[1:], "Quux Blorp"]
        for rank in (0, 2):
            found = [n_best[min(rank, len(n_best) - 1)]
                     for n_best in translator.translate(lines, 4, 3)]
            again = translator.score(lines, [one.tokens for one in found])
            for one, forced in zip(found, again, strict=True):
                assert forced.text == one.text, kind
                assert forced.log_probability == pytest.approx(one.log_probability, abs=1e-4)
                assert forced.score == pytest.approx(one.score, abs=1e-4)
    by_text = translator.score(GERMAN, ENGLISH)
    tokens = [sides[1].pipeline.split(line) for line in ENGLISH]
    assert by_text == translator.score(GERMAN, tokens)
    assert [one.text for one in by_text] == ENGLISH


def test_an_ensemble_means_the_probabilities_of_its_models(texts: dict[str, Sides]) -> None:
    sides = texts["words"]
    first, one_model = a_translator(sides)
    second, other_model = a_translator(sides, {"norm": "pre", "encoder_layers": 1})
    config = a_config(length_penalty=0.0)
    both = Translator([one_model, other_model], *sides, config)
    twice = Translator([one_model, one_model], *sides, config)
    for beam in (1, 3):
        assert_same(twice.translate(GERMAN, beam),
                    Translator([one_model], *sides, config).translate(GERMAN, beam))
        found = both.translate(GERMAN, beam)
        forced = both.score(GERMAN, [one[0].tokens for one in found])
        for one, again in zip(found, forced, strict=True):
            assert one[0].log_probability == pytest.approx(again.log_probability, abs=1e-4)
    word = sides[1].vocabulary.tokens[5]  # by hand, of one token and <eos> in a row
    steps = [[translator.score(["Ja."], [tokens])[0].log_probability for tokens in ([], [word])]
             for translator in (first, second, both)]
    for n in range(1):  # the first token alone: <eos>
        assert math.exp(steps[2][n]) == pytest.approx(
            (math.exp(steps[0][n]) + math.exp(steps[1][n])) / 2, rel=1e-4)


def test_replace_unk_shows_the_source_word_that_attention_points_at(
    texts: dict[str, Sides]
) -> None:
    line = "Der Quux läuft heute."
    plain, _ = a_translator(texts["words"], prefer={UNK: 7.0})
    replacing, _ = a_translator(texts["words"], prefer={UNK: 7.0}, replace_unk=True)
    for before, after in zip(plain.translate([line], 3, 3)[0],
                             replacing.translate([line], 3, 3)[0], strict=False):
        assert after.tokens == before.tokens and "▁<unk>" in before.tokens
        attention = plain.attention(line, before.tokens)
        last = attention.cross[-1].mean(dim=0)[:, :-1]  # <eos> is no word
        words = [attention.source[int(row.argmax())] if token == "▁<unk>" else token
                 for token, row in zip(before.tokens, last, strict=False)]
        expected = "".join(word if word.startswith("▁") else f"▁{word}" if token == "▁<unk>"
                           else word for word, token in zip(words, before.tokens, strict=True))
        assert after.text == expected.replace("▁", " ").strip()
        assert "<unk>" not in after.text


def test_the_seed_and_the_sentence_alone_decide_what_is_sampled(texts: dict[str, Sides]) -> None:
    translator, _ = a_translator(texts["words"])
    found = translator.translate(GERMAN, sampling=Sampling(seed=1))
    assert_same(translator.translate(GERMAN[::-1], sampling=Sampling(seed=1)), found[::-1])
    for n, line in enumerate(GERMAN):
        assert_same(translator.translate([line], sampling=Sampling(seed=1)), [found[n]])
    assert translator.translate(GERMAN, sampling=Sampling(seed=2)) != found
    likeliest = translator.translate(GERMAN, beam=1)
    for almost_greedy in (Sampling(top_k=1), Sampling(top_p=1e-6), Sampling(temperature=1e-4)):
        assert_same(translator.translate(GERMAN, sampling=almost_greedy), likeliest)


def test_translations_with_the_same_text_are_listed_once(texts: dict[str, Sides]) -> None:
    """«a», «b» in one piece or two are one translation to a reader."""
    sides = texts["subwords"]
    ids = sides[1].vocabulary.ids(["▁", "T", "h", "▁Th", "▁T"])
    translator, _ = a_translator(sides, prefer={**dict.fromkeys(ids, 20.0), EOS: 20.0},
                                 max_length_factor=0, max_length_extra=4)
    found = translator.translate([GERMAN[0]], 12, 12)[0]
    assert len(found) == len({one.text for one in found}) < 12
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
