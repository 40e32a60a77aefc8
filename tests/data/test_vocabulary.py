"""Tokens to ids: what is in a vocabulary, and what decoding needs to read one."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from translate.config import Config, save_config
from translate.data.text import Language, Subwords, Tokenizer
from translate.data.vocabulary import (
    EOS,
    PAD,
    SOS,
    SPECIALS,
    UNK,
    Vocabulary,
    build_words,
    train_subwords,
    word_field,
)
from translate.errors import UserError
from translate.runs import build_model
from translate.storage import write_tensors

SENTENCES = ["Der Hund sieht den Hund.", "Der HUND bellt.", "Die Katze schläft, z.B. im Garten."]
COUNTS = {"▁Hund": 9, "▁Hunde": 5, "▁Katze": 4, "▁Katzen": 3, "▁schläft": 2, ".": 12, "▁im": 1}


def words(min_freq: int, lowercase: bool = False) -> Vocabulary:
    field = word_field("de", lowercase)
    return build_words(field, Counter(t for s in SENTENCES for t in field.preprocess(s)), min_freq)


def test_the_special_tokens_are_the_first_four() -> None:
    assert (UNK, PAD, SOS, EOS) == (0, 1, 2, 3)
    assert SPECIALS == ("<unk>", "<pad>", "<sos>", "<eos>")
    assert tuple(words(1).tokens[:4]) == SPECIALS


def test_words_are_there_from_min_freq_on_the_most_frequent_first() -> None:
    assert words(2).tokens == [*SPECIALS, ".", "▁Der", "▁Hund"]
    assert words(2, lowercase=True).tokens == [*SPECIALS, ".", "▁hund", "▁der"]
    assert len(words(1)) == 4 + 14


def test_a_word_that_is_rare_or_new_is_unknown() -> None:
    vocabulary = words(2)
    assert vocabulary.ids(["▁Hund", "▁Katze", "▁Maus", "."]) == [6, UNK, UNK, 4]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("language", ["de", "en"])
def test_torchtexts_field_gives_the_tokens_that_decoding_will_see(
        language: Language, lowercase: bool) -> None:
    field, tokenizer = word_field(language, lowercase), Tokenizer(language, lowercase)
    for text in [*SENTENCES, "", "  I CAN'T\u2028… ", "▁ ␛ İß\n", "Ärger\n\n"]:
        assert field.preprocess(text) == tokenizer.split(text)


def test_text_that_spells_a_special_token_is_not_one() -> None:
    field = word_field("de", False)
    vocabulary = build_words(field, dict.fromkeys(["▁a", "<eos>", "<pad>", "▁<sos>"], 3), 1)
    assert vocabulary.tokens.count("<eos>") == 1
    assert vocabulary.ids(["<unk>", "<pad>", "<sos>", "<eos>"]) == [UNK] * 4
    assert not set(vocabulary.ids(field.preprocess("<eos> a<pad> <sos>"))) & {PAD, SOS, EOS}


def test_a_vocabulary_without_the_special_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with <unk> <pad> <sos> <eos>"):
        Vocabulary(["<pad>", "<unk>", "<sos>", "<eos>", "a"])


def test_a_vocabulary_is_plain_json_and_comes_back(tmp_path: Path) -> None:
    vocabulary = Vocabulary([*SPECIALS, "▁Käse", "\u2028", '"', "\\", "😀", "\x00"])
    vocabulary.save(tmp_path / "v.json")
    assert json.loads((tmp_path / "v.json").read_text(encoding="utf-8")) == vocabulary.tokens
    assert "▁Käse" in (tmp_path / "v.json").read_text(encoding="utf-8")
    assert Vocabulary.load(tmp_path / "v.json").tokens == vocabulary.tokens


@pytest.mark.parametrize("content", [b"[", b"", b"\xff", b'["a", "b"]', b"{}", b"3", b"null"])
def test_a_broken_vocabulary_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"v\.json: not a readable vocabulary"):
        Vocabulary.load(path)
    with pytest.raises(UserError, match=r"absent\.json: not a readable vocabulary"):
        Vocabulary.load(tmp_path / "absent.json")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_text_gives_the_same_subword_model_byte_for_byte(
        kind: Literal["bpe", "unigram"]) -> None:
    assert train_subwords(COUNTS, kind, 300) == train_subwords(COUNTS, kind, 300)


def test_a_subword_model_tells_nothing_of_the_machine_it_was_made_on(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    model = train_subwords(COUNTS, "bpe", 300)
    assert str(tmp_path).encode() not in model and b"/tmp" not in model


def test_a_subword_vocabulary_begins_with_the_special_tokens_and_has_all_bytes() -> None:
    pieces = Subwords(train_subwords(COUNTS, "bpe", 300)).pieces
    assert tuple(pieces[:4]) == SPECIALS
    assert len(pieces) == len(set(pieces)) == 300
    assert {f"<0x{byte:02X}>" for byte in range(256)} <= set(pieces)
    assert "▁Hund" in pieces


def test_more_subwords_than_the_text_has_are_as_many_as_it_has() -> None:
    assert 300 < len(Subwords(train_subwords(COUNTS, "bpe", 9000)).pieces) < 400


def test_fewer_subwords_than_the_text_has_characters_are_refused_with_advice() -> None:
    counts = {f"▁{chr(0x4e00 + n)}": 2 for n in range(100)}
    with pytest.raises(UserError, match=r"(?s)text\.subwords\.size=300: .*choose a larger size"):
        train_subwords(counts, "bpe", 300)


TRANSLATE = """
import sys
import translate.decode
from pathlib import Path
from translate.decoding.translator import Translator
from translate.runs import load_trained
trained = load_trained(Path("run/best"))
translator = Translator([trained.model], trained.source, trained.target, trained.config)
assert len(translator.translate(["Der Hund", ""], beam=2)) == 2
print(*sorted({"torchtext", "tensorboard", "matplotlib", "ctranslate2"} & sys.modules.keys()))
"""


def test_decoding_imports_nothing_that_only_training_needs(tmp_path: Path) -> None:
    config = Config.model_validate({
        "name": "run", "device": "cpu", "data": {"corpus": "sample"},
        "model": {"d_model": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 8}})
    vocabulary = words(1)
    (tmp_path / "run" / "text").mkdir(parents=True)
    (tmp_path / "run" / "best").mkdir()
    save_config(config, tmp_path / "run" / "config.yaml")
    for side in ("source", "target"):
        vocabulary.save(tmp_path / "run" / "text" / f"{side}.json")
    model = build_model(config, len(vocabulary), len(vocabulary))
    write_tensors(dict(model.named_parameters()),
                  tmp_path / "run" / "best" / "model.safetensors")
    result = subprocess.run([sys.executable, "-c", TRANSLATE], cwd=tmp_path, capture_output=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"}, encoding="utf-8",
                            timeout=900)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stderr
