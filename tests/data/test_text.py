"""Text to tokens and back, without loss: the promise that an honest BLEU rests on."""

from collections import Counter

import pytest

from translate.data.text import MARK, Language, Subwords, TextPipeline, Tokenizer, join
from translate.data.vocabulary import Vocabulary, train_subwords

TEXTS = [
    "", "   ", "a", "Der Hund läuft schnell.", "  doppelte   Leerzeichen \t und\r\nZeilen  ",
    "z.B. am 3. Mai d.h. ca. 3,5 % usw.", "Dr. Müller wohnt i.d.R. in St. Gallen (u.a.).",
    "„Käse“, »ja«, ›nein‹, ‚so‘ und 'tis \"quoted\" ``texts''", "don't can't I'm they've O'Neil's",
    "1.000.000,50 € = $1,000,000.50; 10:30 Uhr, 5km², −3°C, ½", "100% 50€/Tag #1 a+b=c x<0xff>y",
    "https://example.org/Straße?a=1&b=%20#top oder max@example.org, C:\\Temp\\x",
    "a\u2028b\u2029c\u0085d\u000be\u000cf\u00a0g\u202fh\u3000i", "Donau\u00addampf\u200bschiff",
    "👩‍🔬 🇩🇪 😀.👍🏽 :-) :D <3 xD", "\u200fשלום\u200e עולם \u202babc\u202c \u061c",
    "u\u0308ber e\u0301tude n\u0303 \u0308allein", "ﬁnden ŉ İstanbul ẞ ǅ ſtraße",
    "▁", "▁▁ ▁a a▁ a▁b", "␛", "␛_ ␛␛ ␛▁ ▁␛_ _▁", "_ __ a_b /_", "▅ x▅y � \ufffd",
    "<unk> <pad> <sos> <eos> a<eos>b <0xC3> <0xffff> <s></s>", "\x00 a\x00b \x01\x7f",
    "你好，世界。 مرحبا Привет नमस्ते", "Haus-, Hof-Arbeit … ... -- — –", "\ufeff" + "x" * 300,
]
LANGUAGES: tuple[Language, ...] = ("de", "en")
TOKENIZERS = {(language, lowercase): Tokenizer(language, lowercase)
              for language in LANGUAGES for lowercase in (False, True)}
SENTENCES = ["Der große Hund läuft schnell über die Straße.", "Die Hunde laufen in den Garten.",
             "The big dog runs across the street.", "The dogs are running, and we don't run."]


Pipelines = dict[Language, TextPipeline]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pipelines(request: pytest.FixtureRequest) -> Pipelines:
    counts: Counter[str] = Counter()
    for language in LANGUAGES:
        for sentence in SENTENCES:
            counts.update(TOKENIZERS[language, False].split(sentence))
    subwords = Subwords(train_subwords(counts, request.param, 330))
    return {language: TextPipeline(language, False, subwords) for language in LANGUAGES}


@pytest.fixture
def subwords(pipelines: Pipelines) -> Subwords:
    assert pipelines["de"].subwords
    return pipelines["de"].subwords


def collapsed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:16]))
@pytest.mark.parametrize("language", LANGUAGES)
def test_joining_the_words_gives_the_text_back(language: Language, text: str) -> None:
    assert join(TOKENIZERS[language, False].split(text)) == collapsed(text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_joining_the_subwords_gives_the_text_back_through_ids_too(
        pipelines: Pipelines, subwords: Subwords, language: Language) -> None:
    pipeline = pipelines[language]
    vocabulary = Vocabulary(subwords.pieces)
    for text in TEXTS:
        pieces = pipeline.split(text)
        assert pipeline.join(pieces) == collapsed(text)
        assert [vocabulary.tokens[i] for i in vocabulary.ids(pieces)] == pieces


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_token_has_the_mark_exactly_where_white_space_stood_before_it(
        language: Language) -> None:
    assert TOKENIZERS[language, False].split("Ja, (nein) 3%") == [
        "▁Ja", ",", "▁(", "nein", ")", "▁3", "%"]


def test_each_language_has_its_own_rules() -> None:
    german, english = (TOKENIZERS[language, False] for language in LANGUAGES)
    assert german.split("z.B. don't") == ["▁z.B.", "▁don't"]
    assert english.split("z.B. don't") == ["▁z.", "B.", "▁do", "n't"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_lowercase_lowers_the_tokens_and_cuts_in_the_same_places(language: Language) -> None:
    cased, lowered = (TOKENIZERS[language, lowercase] for lowercase in (False, True))
    for text in TEXTS:
        assert lowered.split(text) == [token.lower() for token in cased.split(text)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_empty_text_has_no_tokens(language: Language) -> None:
    assert TOKENIZERS[language, False].split(" \u2028 \t") == []
    assert join([]) == ""


def test_a_piece_never_crosses_two_words(pipelines: Pipelines, subwords: Subwords) -> None:
    for language in LANGUAGES:
        for text in [*SENTENCES, *TEXTS]:
            tokens = TOKENIZERS[language, False].split(text)
            pieces = pipelines[language].split(text)
            assert pieces == [piece for token in tokens for piece in subwords.split([token])]
    assert not [piece for piece in subwords.pieces if MARK in piece[1:]]


def test_a_word_seen_in_training_needs_no_bytes(pipelines: Pipelines) -> None:
    for pipeline in pipelines.values():
        for sentence in SENTENCES:
            pieces = pipeline.split(sentence)
            assert not [piece for piece in pieces if piece.startswith("<0x")]


def test_unknown_characters_become_bytes_and_come_back(subwords: Subwords) -> None:
    pieces = subwords.split(["▁😀ж"])
    assert pieces[-6:] == [f"<0x{byte:02X}>" for byte in "😀ж".encode()]
    assert join(subwords.join(pieces)) == "😀ж"


@pytest.mark.parametrize(("pieces", "text"), [
    (["▁a", "<0xC3>"], "a�"), (["<0xC3>", "▁a"], "� a"), (["<0xFF>", "<0xC3>", "<0xA4>"], "�ä"),
    (["<0xE2>", "<0x96>"], "�"), (["<0x80>", "b"], "�b"),
])
def test_bad_bytes_become_a_replacement_character(pieces: list[str], text: str) -> None:
    assert join(Subwords.join(pieces)) == text


@pytest.mark.parametrize("piece", ["<0xffff", "<0xZZ>", "<0x41", "<0xc3>", "<0x413>"])
def test_text_that_only_resembles_a_byte_is_text(piece: str) -> None:
    assert join(Subwords.join([MARK + "a", piece])) == "a" + piece


def test_frequent_text_that_resembles_bytes_comes_back() -> None:
    counts = {"▁x<0xffff>": 50, "▁x<0xAB>": 50, "▁x<0xabc>": 50, "<eos>": 50, "▁<unk>": 50}
    subwords = Subwords(train_subwords(counts, "bpe", 320))
    for token in counts:
        assert join(subwords.join(subwords.split([token]))) == token.removeprefix(MARK)


def test_joining_undoes_an_escape_that_a_model_wrote_wrongly_without_raising() -> None:
    assert join(["▁␛", "▁x"]) == "␛ x"
    assert join(["␛x␛"]) == "␛x␛"
