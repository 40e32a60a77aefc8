"""Aligned text to token ids: tokenised once on all cores, then read from a memory-mapped cache."""

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config import Config
from translate.data.corpora import Corpus
from translate.data.lines import read_lines
from translate.data.text import Language, Subwords, TextPipeline, Tokenizer, load_subwords
from translate.data.vocabulary import Vocabulary, build_words, train_subwords, word_field
from translate.errors import UserError

CACHE_VERSION = 1
_CHUNK = 5_000  # lines a task; corpora of fewer than four chunks are tokenised in this process
_SIDES: tuple[tuple[str, Language], ...] = (("source", "de"), ("target", "en"))


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of ids end to end: sequence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[i]:self.offsets[i + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def select(self, keep: NDArray[np.bool_]) -> "Ragged":
        lengths = self.lengths
        return Ragged(self.ids[np.repeat(keep, lengths)], _offsets(lengths[keep]))


class Pairs(NamedTuple):
    source: Ragged
    target: Ragged

    def __len__(self) -> int:
        return len(self.source)


class TextSide(NamedTuple):
    """How one language becomes ids."""

    pipeline: TextPipeline
    vocabulary: Vocabulary


@dataclass(frozen=True)
class EncodedCorpus:
    """What training reads. `dropped` counts training pairs by the reason they were left out."""

    source: TextSide
    target: TextSide
    train: Pairs
    validation: Pairs
    dropped: dict[str, int]
    text_folder: Path


def load_text(folder: Path, lowercase: bool) -> tuple[TextSide, TextSide]:
    """The German and the English side from the `text/` folder of a run."""
    sides = []
    for side, language in _SIDES:
        pipeline = TextPipeline(language, lowercase, load_subwords(folder / f"{side}.model"))
        sides.append(TextSide(pipeline, Vocabulary.load(folder / f"{side}.json")))
    return sides[0], sides[1]


def encode(config: Config, corpus: Corpus) -> EncodedCorpus:
    """Token ids of the training and validation split, from the cache where it holds them."""
    cache = corpus.folder / "cache" / _key(config, corpus)
    if not (cache / "meta.json").exists():
        _build(config, corpus, cache)
    source, target = load_text(cache / "text", config.text.lowercase)
    meta = json.loads((cache / "meta.json").read_text(encoding="utf-8"))
    train, validation = (
        Pairs(*(Ragged(np.load(cache / f"{split}.{side}.ids.npy", mmap_mode="r"),
                       np.load(cache / f"{split}.{side}.offsets.npy"))
                for side, _ in _SIDES))
        for split in ("train", "validation")
    )
    return EncodedCorpus(source, target, train, validation, meta["dropped"], cache / "text")


def _key(config: Config, corpus: Corpus) -> str:
    """A name that changes with everything that the ids depend on."""
    key = hashlib.sha256()
    settings = [CACHE_VERSION, config.text.model_dump(mode="json"), config.data.max_length,
                config.data.max_ratio, version("spacy"), version("sentencepiece"),
                version("torchtext")]
    key.update(json.dumps(settings).encode())
    for path in (*corpus.train, *corpus.validation):
        key.update(hashlib.sha256(path.read_bytes()).digest())
    return key.hexdigest()[:16]


def _build(config: Config, corpus: Corpus, cache: Path) -> None:
    partial = cache.with_name(f"{cache.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process of the same id that was killed
    try:
        _write(config, corpus, partial)
        os.replace(partial, cache)
    except OSError:  # another process was faster; what it wrote is the same
        if not cache.exists():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Everything that `encode` reads back."""
    text = folder / "text"
    text.mkdir(parents=True)
    subwords = config.text.subwords
    fields = [word_field(language, config.text.lowercase) for _, language in _SIDES]
    tables = {
        (split, side): _tokenise(read_lines(path), language, config.text.lowercase,
                                 words=subwords is None)
        for split, paths in (("train", corpus.train), ("validation", corpus.validation))
        for (side, language), path in zip(_SIDES, paths, strict=True)
    }
    counts = [tables["train", side].counts() for side, _ in _SIDES]
    if subwords and subwords.joint:
        both = {token: counts[0].get(token, 0) + counts[1].get(token, 0)
                for token in counts[0] | counts[1]}
        counts = [both, both]
    models: list[bytes] = []
    encoded: dict[str, list[Ragged]] = {"train": [], "validation": []}
    for n, (side, _) in enumerate(_SIDES):
        cutter = None
        if subwords:
            shared = subwords.joint and n == 1
            models.append(models[0] if shared else
                          train_subwords(counts[n], subwords.type, subwords.size))
            cutter = Subwords(models[n])
            (text / f"{side}.model").write_bytes(models[n])
            vocabulary = Vocabulary(cutter.pieces)
        else:
            vocabulary = build_words(fields[n], tables["train", side].sentences(),
                                     config.text.min_freq)
        vocabulary.save(text / f"{side}.json")
        for split, sides in encoded.items():
            sides.append(tables[split, side].encode(vocabulary, cutter))
    train, dropped = _filter(Pairs(*encoded["train"]), config.data.max_length,
                             config.data.max_ratio)
    if not len(train):
        raise UserError(f"no training pair of {corpus.train[0]} is left: "
                        + ", ".join(f"{n:,} {why}" for why, n in dropped.items())
                        + "; raise data.max_length or data.max_ratio")
    for split, pairs in (("train", train), ("validation", Pairs(*encoded["validation"]))):
        for (side, _), sequences in zip(_SIDES, pairs, strict=True):
            np.save(folder / f"{split}.{side}.ids.npy", sequences.ids)
            np.save(folder / f"{split}.{side}.offsets.npy", sequences.offsets)
    (folder / "meta.json").write_text(json.dumps({"dropped": dropped}), encoding="utf-8")


def _filter(pairs: Pairs, max_length: int, max_ratio: float) -> tuple[Pairs, dict[str, int]]:
    lengths = np.stack([pairs.source.lengths, pairs.target.lengths])
    longer, shorter = lengths.max(axis=0), lengths.min(axis=0)
    too_long = longer > max_length
    uneven = ~too_long & (longer > max_ratio * shorter)
    keep = ~(too_long | uneven)
    dropped = {f"longer than {max_length} tokens": int(too_long.sum()),
               f"length ratio above {max_ratio:g}": int(uneven.sum())}
    return Pairs(pairs.source.select(keep), pairs.target.select(keep)), dropped


class TokenTable(NamedTuple):
    """Tokenised sentences, each distinct token held once: `rows` are indices into `tokens`."""

    tokens: list[str]
    rows: Ragged

    def counts(self) -> dict[str, int]:
        occurrences = np.bincount(self.rows.ids, minlength=len(self.tokens))
        return dict(zip(self.tokens, occurrences.tolist(), strict=True))

    def sentences(self) -> Iterator[list[str]]:
        for i in range(len(self.rows)):
            yield [self.tokens[j] for j in self.rows[i]]

    def encode(self, vocabulary: Vocabulary, subwords: Subwords | None) -> Ragged:
        """Ids of the sentences; every distinct token is cut and looked up once."""
        pieces = [vocabulary.ids(subwords.split([token]) if subwords else [token])
                  for token in self.tokens]
        width = np.array([len(ids) for ids in pieces], dtype=np.int64)
        flat = np.array([i for ids in pieces for i in ids], dtype=np.int32)
        start = _offsets(width)
        repeats = width[self.rows.ids]
        ends = _offsets(repeats)
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], repeats)
        ids = flat[np.repeat(start[self.rows.ids], repeats) + within]
        return Ragged(ids, ends[self.rows.offsets])


def _tokenise(lines: list[str], language: Language, lowercase: bool, words: bool) -> TokenTable:
    chunks = [lines[i:i + _CHUNK] for i in range(0, len(lines), _CHUNK)]
    tasks = [(chunk, language, lowercase, words) for chunk in chunks]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(chunks) < 4 or cores == 1:
        return _merge(map(_tokenise_chunk, tasks))
    with multiprocessing.get_context("spawn").Pool(min(cores or 1, len(chunks))) as pool:
        return _merge(pool.imap(_tokenise_chunk, tasks))


def _tokenise_chunk(task: tuple[list[str], Language, bool, bool]) -> TokenTable:
    lines, language, lowercase, words = task
    split = (word_field(language, lowercase).preprocess if words
             else Tokenizer(language, lowercase).split)
    return _table(map(split, lines))


def _table(sentences: Iterable[list[str]]) -> TokenTable:
    index: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    for tokens in sentences:
        ids += [index.setdefault(token, len(index)) for token in tokens]
        lengths.append(len(tokens))
    rows = Ragged(np.array(ids, dtype=np.int32), _offsets(np.array(lengths, dtype=np.int64)))
    return TokenTable(list(index), rows)


def _merge(tables: Iterable[TokenTable]) -> TokenTable:
    index: dict[str, int] = {}
    ids, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for tokens, rows in tables:
        globally = np.array([index.setdefault(t, len(index)) for t in tokens], dtype=np.int32)
        ids.append(globally[rows.ids])
        lengths.append(rows.lengths)
    return TokenTable(list(index), Ragged(np.concatenate(ids), _offsets(np.concatenate(lengths))))


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
