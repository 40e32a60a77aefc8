"""Aligned text to ids: what is dropped, what is cached, and what the cache depends on."""

import os
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from translate.config import Config
from translate.data import encoding, token_table
from translate.data.corpora import Corpus, prepare
from translate.data.encoding import EncodedCorpus, encode
from translate.data.ragged import Pairs
from translate.data.vocabulary import UNK, Vocabulary
from translate.errors import UserError

GERMAN = ["Der Hund sieht die Katze.", "Die Katze sieht den Hund.", "Ein Hund bellt, z.B. laut!",
          "Der Hund bellt.", "Wörter wie Straßenbahn sind lang.", "Ja.", "Ja."]
ENGLISH = ["The dog sees the cat.", "The cat sees the dog.", "A dog barks, e.g. loudly!",
           "The dog barks.", "Words don't have to be long.", "Yes.", "Yes."]
LONG = " ".join(["sehr"] * 30)
TRAIN = ([*GERMAN, LONG, "Ja ja ja ja ja ja ja ja.", ""], [*ENGLISH, "Very.", "Yes", "Nothing."])
VALIDATION = (["Die Maus sieht die Katze.", LONG, ""], ["The mouse sees the cat.", "Very.", "Yes."])


def write_corpus(folder: Path) -> Corpus:
    paths = {}
    for split, sides in (("train", TRAIN), ("validation", VALIDATION)):
        for language, lines in zip(("de", "en"), sides, strict=True):
            paths[split, language] = folder / f"{split}.{language}"
            paths[split, language].write_text("".join(f"{line}\n" for line in lines), "utf-8")
    train, validation = ((paths[split, "de"], paths[split, "en"])
                         for split in ("train", "validation"))
    return Corpus("files", folder, train, validation, {})


def configure(**parts: Any) -> Config:
    return Config.model_validate({
        "name": "x", "data": {"corpus": "sample", "max_length": 20, "max_ratio": 3},
        "text": {"min_freq": 1}} | parts)


TEXTS: dict[str, dict[str, Any]] = {
    "words": {"min_freq": 1},
    "lowercased words": {"min_freq": 2, "lowercase": True},
    "joint bpe": {"subwords": {"size": 320}},
    "separate unigram": {"subwords": {"type": "unigram", "size": 320, "joint": False}},
}


@pytest.fixture(scope="module", params=TEXTS.values(), ids=TEXTS.keys())
def encoded(request: pytest.FixtureRequest,
            tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"))
    return encode(configure(text=request.param), corpus)


def as_lists(pairs: Pairs) -> list[tuple[list[int], list[int]]]:
    return [(pairs.source[i].tolist(), pairs.target[i].tolist()) for i in range(len(pairs))]


def test_a_row_holds_the_ids_of_its_line_and_only_fitting_training_pairs_have_one(
        encoded: EncodedCorpus) -> None:
    rows = {}
    for split, lines in (("train", TRAIN), ("validation", VALIDATION)):
        rows[split] = [tuple(side.vocabulary.ids(side.pipeline.split(line))
                             for side, line in zip((encoded.source, encoded.target), pair,
                                                   strict=True))
                       for pair in zip(*lines, strict=True)]
    short = [pair for pair in rows["train"] if max(map(len, pair)) <= 20]
    even = [pair for pair in short if max(map(len, pair)) <= 3 * min(map(len, pair))]
    assert as_lists(encoded.train) == even
    assert as_lists(encoded.validation) == rows["validation"]
    assert encoded.dropped == {"longer than 20 tokens": len(rows["train"]) - len(short),
                               "length ratio above 3": len(short) - len(even)}


def test_long_and_uneven_pairs_are_dropped_from_training_alone_and_counted(
        tmp_path: Path) -> None:
    encoded = encode(configure(), write_corpus(tmp_path))
    assert encoded.dropped == {"longer than 20 tokens": 1, "length ratio above 3": 2}
    assert len(encoded.train) == len(GERMAN)
    assert len(encoded.validation) == 3
    assert encoded.train.source.lengths.tolist() == [6, 6, 7, 4, 6, 2, 2]


def test_words_of_validation_are_not_in_the_vocabulary_of_words(tmp_path: Path) -> None:
    encoded = encode(configure(), write_corpus(tmp_path))
    for n, new in enumerate(("▁Maus", "▁mouse")):
        vocabulary = (encoded.source, encoded.target)[n].vocabulary
        assert new not in vocabulary.tokens
        assert UNK in encoded.validation[n][0]
        assert UNK not in encoded.train[n].ids


def test_subwords_are_learned_from_the_training_split_alone(tmp_path: Path) -> None:
    models = []
    for name, mouse in (("one", "Maus"), ("two", "Qualle")):
        (tmp_path / name).mkdir()
        corpus = write_corpus(tmp_path / name)
        corpus.validation[0].write_text(f"{mouse}\n" * 3, encoding="utf-8")
        folder = encode(configure(text={"subwords": {"size": 320}}), corpus).text_folder
        models.append((folder / "source.model").read_bytes())
    assert models[0] == models[1]


def test_a_joint_model_is_one_for_both_languages_and_a_separate_one_is_not(
        encoded: EncodedCorpus) -> None:
    files = {path.name: path.read_bytes() for path in encoded.text_folder.iterdir()}
    if encoded.source.pipeline.subwords is None:
        assert files.keys() == {"source.json", "target.json"}
    else:
        joint = encoded.source.vocabulary.tokens == encoded.target.vocabulary.tokens
        assert (files["source.model"] == files["target.model"]) == joint
        assert encoded.source.pipeline.subwords.model == files["source.model"]
        assert joint == ("source.json" in files and files["source.json"] == files["target.json"])


def test_a_second_start_reads_the_cache_and_tokenises_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, config = write_corpus(tmp_path), configure()
    first = encode(config, corpus)

    def refuse(*_: object) -> None:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(encoding, "tokenise", refuse)
    second = encode(config, corpus)
    assert second.dropped == first.dropped
    assert second.source.vocabulary.tokens == first.source.vocabulary.tokens
    for split in ("train", "validation"):
        for old, new in zip(getattr(first, split), getattr(second, split), strict=True):
            assert np.array_equal(old.ids, new.ids) and np.array_equal(old.offsets, new.offsets)
    with pytest.raises(AssertionError, match="tokenised again"):
        encode(configure(text={"min_freq": 2}), corpus)


@pytest.mark.parametrize("change", [
    {"data": {"corpus": "sample", "max_length": 19, "max_ratio": 3}},
    {"data": {"corpus": "sample", "max_length": 20, "max_ratio": 4}},
    {"text": {"min_freq": 2}}, {"text": {"min_freq": 1, "lowercase": True}},
    {"text": {"min_freq": 1, "subwords": {"size": 320}}},
    {"text": {"min_freq": 1, "subwords": {"size": 321}}},
    {"text": {"min_freq": 1, "subwords": {"size": 320, "joint": False}}},
    {"text": {"min_freq": 1, "subwords": {"size": 320, "type": "unigram"}}},
], ids=str)
def test_the_cache_is_another_for_every_setting_that_the_ids_depend_on(
        tmp_path: Path, change: dict[str, Any]) -> None:
    corpus = write_corpus(tmp_path)
    others = [configure(), *(configure(text=text) for text in TEXTS.values() if
                             text != change.get("text"))]
    keys = {encoding._key(config, corpus) for config in others}
    assert encoding._key(configure(**change), corpus) not in keys


@pytest.mark.parametrize("change", [
    {"seed": 7}, {"name": "y"}, {"device": "cpu"}, {"training": {"batch_tokens": 999}},
    {"model": {"d_model": 64}}, {"decoding": {"beam": 2}},
], ids=str)
def test_the_cache_is_the_same_whatever_else_a_run_sets(
        tmp_path: Path, change: dict[str, Any]) -> None:
    corpus = write_corpus(tmp_path)
    assert encoding._key(configure(**change), corpus) == encoding._key(configure(), corpus)


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_cache_is_another_when_a_file_says_something_else(
        tmp_path: Path, split: str, side: int) -> None:
    corpus = write_corpus(tmp_path)
    before = encoding._key(configure(), corpus)
    path = getattr(corpus, split)[side]
    content = path.read_text(encoding="utf-8")
    path.write_text(content.replace(".", "!", 1), encoding="utf-8")
    assert encoding._key(configure(), corpus) != before
    path.write_text(content, encoding="utf-8")
    os.utime(path, (1, 1))
    assert encoding._key(configure(), corpus) == before


def test_a_crash_half_way_leaves_no_cache_and_is_not_in_the_way(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, config = write_corpus(tmp_path), configure()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, "save", crash)
        with pytest.raises(KeyboardInterrupt):
            encode(config, corpus)
    assert list((tmp_path / "cache").iterdir()) == []
    # A process that was killed tidies nothing, and ours may have its number.
    (tmp_path / "cache" / f"{encoding._key(config, corpus)}.{os.getpid()}.partial/text").mkdir(
        parents=True)
    assert len(encode(config, corpus).train) == len(GERMAN)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [
        encoding._key(config, corpus)]


def test_of_two_processes_that_encode_at_once_the_slower_uses_the_others_result(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, config = write_corpus(tmp_path), configure()
    write = encoding._write

    def write_second(config: Config, corpus: Corpus, folder: Path) -> None:
        write(config, corpus, folder.parent / encoding._key(config, corpus))
        write(config, corpus, folder)

    monkeypatch.setattr(encoding, "_write", write_second)
    assert len(encode(config, corpus).train) == len(GERMAN)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_corpus_of_which_nothing_is_left_is_an_error_that_says_why(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path)
    config = configure(data={"corpus": "sample", "max_length": 1})
    with pytest.raises(UserError, match=r"no training pair of .*train\.de is left: "
                                        r"\d+ longer than 1 tokens.*raise data\.max_length"):
        encode(config, corpus)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_ids_do_not_depend_on_the_size_of_the_chunks(
        encoded: EncodedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest) -> None:
    config = configure(text=request.node.callspec.params["encoded"])
    monkeypatch.setattr(token_table, "CHUNK", 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    in_chunks = encode(config, write_corpus(tmp_path))
    assert as_lists(in_chunks.train) == as_lists(encoded.train)
    assert as_lists(in_chunks.validation) == as_lists(encoded.validation)
    assert in_chunks.dropped == encoded.dropped
    assert in_chunks.source.vocabulary.tokens == encoded.source.vocabulary.tokens


def test_memory_does_not_grow_with_the_corpus(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_table, "CHUNK", 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)

    def write(times: int) -> None:
        folder = tmp_path / str(times)
        folder.mkdir()
        raw = [folder / f"raw.{language}" for language in ("de", "en")]
        for path, lines in zip(raw, (GERMAN, ENGLISH), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines) * times, encoding="utf-8")
        held_out = [str(path) for path in write_corpus(folder).validation]
        config = configure(text=TEXTS["joint bpe"], data={
            "corpus": "files", "train": [str(path) for path in raw], "validation": held_out,
            "test": held_out})
        encoding._write(config, prepare(config.data, folder), folder / "cache")

    write(1)  # loads what stays
    peaks = []
    for times in (30, 600):
        tracemalloc.start()
        write(times)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # for twenty times the text


@pytest.mark.parametrize("name", ["train.source.ids.npy", "validation.target.offsets.npy",
                                  "text/target.json", "meta.json"])
@pytest.mark.parametrize("damage", ["cut short", "gone"])
def test_a_damaged_cache_is_made_again_and_said_to_be(
        name: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, config = write_corpus(tmp_path), configure()
    path = encode(config, corpus).text_folder.parent / name
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1])
    encode(config, corpus)
    assert path.read_bytes() == whole
    assert capsys.readouterr().err == f"{tmp_path / 'cache' / path.relative_to(tmp_path).parts[1]}"\
        ": it is damaged; making it again\n"
    encode(config, corpus)
    assert capsys.readouterr().err == ""


def test_a_disk_that_is_full_is_told_and_leaves_no_cache(tmp_path: Path) -> None:
    corpus, config = write_corpus(tmp_path), configure()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (100, 300):  # bytes a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(UserError, match=r"cache/\w+: cannot write it: "):
                encode(config, corpus)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert list((tmp_path / "cache").iterdir()) == []
    assert len(encode(config, corpus).train) == len(GERMAN)
