"""Any text and any bytes: a right answer or a message, and never a traceback."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from translate.config import Config, load_config, save_config
from translate.data.encoding import TextSide, load_text
from translate.data.iwslt import read_iwslt
from translate.data.lines import clean, read_lines, split_lines, tidy
from translate.data.text import MARK, Subwords, TextPipeline
from translate.data.vocabulary import Vocabulary, train_subwords
from translate.decoding.translator import Translator
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.runs import build_model
from translate.storage import read_state, read_tensors, write_state, write_tensors

fuzz = settings(max_examples=60, deadline=None, derandomize=True, database=None,
                suppress_health_check=[HealthCheck.function_scoped_fixture])

# All of Unicode, halves of surrogate pairs too; and runs of what rules of tokenizers look for.
TEXT = st.one_of(
    st.text(st.characters(codec=None)),
    st.text(st.sampled_from("ab '.,-()/:@&;<>|\t\n\r\0\x0b\x1c\x85\u2028\xa0\u00ad\u200d\ufeff▁␛_"
                            "ä\u0308😀\ud83d\ude00\u202e")),
    st.lists(st.sampled_from(["<unk>", "<0x41>", "▁", "␛_", "Hund", "z.B.", "http://", "  "]))
    .map("".join))

WORDS = ["Der", "Hund", "läuft", "z.B.", "schnell", ".", ",", "▁", "(", ")"]
MODEL = {"d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 16}


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords(train_subwords({MARK + word: 9 for word in WORDS}, "bpe", 320))


@pytest.fixture(scope="module")
def translators(subwords: Subwords) -> dict[str, Translator]:
    """Of models that have learned nothing."""
    words = Vocabulary(["<unk>", "<pad>", "<sos>", "<eos>", *(MARK + word for word in WORDS)])
    config = Config.model_validate(
        {"name": "x", "data": {"corpus": "sample", "max_length": 30}, "model": MODEL,
         "decoding": {"max_length_factor": 0.1, "max_length_extra": 3, "beam": 2,
                      "replace_unk": True}})
    made = {}
    for name, cutter, vocabulary in (("words", None, words),
                                     ("subwords", subwords, Vocabulary(subwords.pieces))):
        sides = [TextSide(TextPipeline(language, False, cutter), vocabulary)
                 for language in ("de", "en")]
        made[name] = Translator([build_model(config, len(vocabulary), len(vocabulary))], *sides,
                                config)
    return made


def is_refused_or(read: Callable[[], Any]) -> Any:
    """What is read; none if a message of at most two lines says why not."""
    try:
        return read()
    except UserError as error:
        assert 1 <= len(str(error).split("\n")) <= 2
        return None


# --- Text ---------------------------------------------------------------------------------------

@fuzz
@given(text=TEXT)
def test_any_text_comes_back_from_tokens_and_from_ids(subwords: Subwords, text: str) -> None:
    whole = " ".join(text.encode(errors="replace").decode().split())
    words, pieces = (TextPipeline("de", False, cutter) for cutter in (None, subwords))
    assert words.join(words.split(text)) == whole
    vocabulary = Vocabulary(subwords.pieces)
    ids = vocabulary.ids(pieces.split(text))
    assert pieces.join(vocabulary.tokens[i] for i in ids) == whole


@fuzz
@given(text=TEXT)
def test_any_text_is_tidy_once_it_is_tidied(text: str) -> None:
    for change in (tidy, clean):
        assert tidy(change(text)) == change(text)
        assert change(text).split() == change(text).split(" ") or not change(text)


@fuzz
@given(lines=st.lists(TEXT, max_size=4))
@pytest.mark.parametrize("kind", ["words", "subwords"])
def test_every_line_has_a_translation_of_one_line(
        translators: dict[str, Translator], kind: str, lines: list[str]) -> None:
    found = translators[kind].translate_best(lines)
    assert len(found) == len(lines)
    for line in found:
        line.encode()
        assert tidy(line) == line


@fuzz
@given(data=st.one_of(st.binary(), TEXT.map(lambda text: text.encode(errors="surrogatepass"))))
def test_any_bytes_are_lines_or_refused(data: bytes) -> None:
    lines = is_refused_or(lambda: split_lines(data, "stdin"))
    if lines is not None:
        assert "\n".join(lines).encode() == data.removesuffix(b"\n")


@pytest.mark.parametrize("unit", ["(", "a", "😀", "der Hund. ", "z.B.", "http://a.b/", "\u0308"])
def test_a_line_of_a_megabyte_is_translated(
        translators: dict[str, Translator], capsys: pytest.CaptureFixture[str], unit: str) -> None:
    line = unit * (1_000_000 // len(unit.encode()))
    (translation,) = translators["words"].translate_best([line], beam=1)
    assert "more than the 30 that this model was trained for" in capsys.readouterr().err
    assert tidy(translation) == translation


# --- Files --------------------------------------------------------------------------------------

Edit = tuple[int, int, bytes]


def damaged(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Some bytes taken out and others put in."""
    for place, length, new in edits:
        place %= len(data) + 1
        data = data[:place] + new + data[place + length:]
    return data


EDITS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 40), st.binary(max_size=9)),
                 max_size=3)


def check(path: Path, read: Callable[[Path], Any], valid: bytes) -> None:
    """`read` refuses or takes whatever bytes the file holds."""
    @fuzz
    @given(data=st.one_of(st.binary(), EDITS.map(lambda edits: damaged(valid, edits))))
    @example(data=b"[1]")
    def any_bytes(data: bytes) -> None:
        path.write_bytes(data)
        is_refused_or(lambda: read(path))

    any_bytes()


def a_config(folder: Path) -> Path:
    save_config(Config.model_validate({"name": "x", "data": {"corpus": "sample"}}),
                folder / "run.yaml")
    return folder / "run.yaml"


def test_any_bytes_as_a_config(tmp_path: Path) -> None:
    path = a_config(tmp_path)

    def read(path: Path) -> None:
        try:
            save_config(load_config(path), path)
        except UserError as error:  # a line for a problem
            assert len(str(error).splitlines()) <= 11
    check(path, read, path.read_bytes())


@fuzz
@given(key=st.sampled_from(["name", "seed", "data.train", "data.root", "model.d_model", "text",
                            "training.factor", "decoding.max_length_factor", ""]),
       value=st.one_of(TEXT, st.integers().map(str), st.floats().map(str), st.recursive(
           st.none() | st.booleans() | st.integers() | st.text(),
           lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(json.dumps)))
def test_any_value_of_a_setting(tmp_path: Path, key: str, value: str) -> None:
    path = a_config(tmp_path)
    try:
        config = load_config(path, [f"{key}={value}"])
    except UserError as error:
        str(error).encode("utf-8", "backslashreplace")
    else:
        save_config(config, path)
        assert load_config(path) == config


@pytest.mark.parametrize("name", ["a.de", "a.de.gz"])
def test_any_bytes_as_a_corpus(tmp_path: Path, name: str) -> None:
    text = "Der Hund läuft.\nDie Katze\u2028schläft.\n".encode()
    check(tmp_path / name, read_lines, gzip.compress(text) if name.endswith("gz") else text)


def test_any_bytes_as_a_release(tmp_path: Path) -> None:
    files = {f"train.tags.de-en.{side}": "<talkid>1</talkid>\nText\n" for side in ("de", "en")}
    files |= {f"IWSLT17.TED.{name}.de-en.{side}.xml":
              '<mteval><doc docid="1"><seg id="1"> &amp;quot; </seg></doc></mteval>'
              for side in ("de", "en")
              for name in ("dev2010", *(f"tst201{n}" for n in range(6)))}
    plain, packed = io.BytesIO(), io.BytesIO()
    for mode, file in (("w", plain), ("w:gz", packed)):
        with tarfile.open(mode=mode, fileobj=file) as archive:  # type: ignore[call-overload]
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))

    def read(path: Path) -> Any:
        return read_iwslt(path, "iwslt2017", "official")

    path = tmp_path / "de-en.tgz"
    path.write_bytes(plain.getvalue())
    assert len(read(path)[0]) == 8
    check(path, read, plain.getvalue())
    check(path, read, packed.getvalue())


def test_any_bytes_as_vocabulary_and_subword_model(tmp_path: Path, subwords: Subwords) -> None:
    for side in ("source", "target"):
        Vocabulary(subwords.pieces).save(tmp_path / f"{side}.json")
        (tmp_path / f"{side}.model").write_bytes(subwords.model)

    def read(_: Path) -> None:
        for pipeline, vocabulary in load_text(tmp_path, lowercase=False):
            tokens = [vocabulary.tokens[i]
                      for i in vocabulary.ids(pipeline.split("Der Hund läuft 😀."))]
            pipeline.join(tokens).encode()

    for name in ("source.json", "source.model"):
        before = (tmp_path / name).read_bytes()
        check(tmp_path / name, read, before)
        (tmp_path / name).write_bytes(before)


def test_any_bytes_as_weights_and_state(tmp_path: Path) -> None:
    model = Transformer(5, 5, d_model=4, heads=2, encoder_layers=1, decoder_layers=1, d_ff=4)
    weights, state = tmp_path / "model.safetensors", tmp_path / "state.json"
    write_tensors(dict(model.named_parameters()), weights)
    write_state({"progress": {"update": 3}}, state)
    check(weights, read_tensors, weights.read_bytes())
    check(state, read_state, state.read_bytes())
