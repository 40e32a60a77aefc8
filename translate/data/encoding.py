"""Aligned text to token ids: tokenised once on all cores, then read from a memory-mapped cache."""

import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from translate.config import Config, DataConfig, TextConfig
from translate.data.corpora import Corpus
from translate.data.ragged import Pairs, Ragged, RaggedWriter, map_ragged, offsets
from translate.data.text import Language, Subwords, TextPipeline, load_subwords
from translate.data.token_table import Splitting, tokenise
from translate.data.vocabulary import Vocabulary, build_words, train_subwords, word_field
from translate.errors import UserError

CACHE_VERSION = 3
META = "meta.json"
_SIDES: tuple[tuple[str, Language], ...] = (("source", "de"), ("target", "en"))


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
    """Token ids of the training and validation split, from the cache where it holds them.

    Raises:
        UserError: no training pair is left, or the cache cannot be written.
    """
    cache = corpus.folder / "cache" / _key(config, corpus)
    meta = _read_meta(cache)
    if meta is None:
        _build(config, corpus, cache)
        meta = json.loads((cache / META).read_text(encoding="utf-8"))
    source, target = load_text(cache / "text", config.text.lowercase)
    train, validation = (Pairs(*(map_ragged(cache / f"{split}.{side}") for side, _ in _SIDES))
                         for split in ("train", "validation"))
    return EncodedCorpus(source, target, train, validation, meta["dropped"], cache / "text")


def _key(config: Config, corpus: Corpus) -> str:
    """A name that changes with everything that the ids depend on."""
    key = hashlib.sha256()
    settings = [CACHE_VERSION, config.text.model_dump(mode="json"), config.data.max_length,
                config.data.max_ratio, version("spacy"), version("sentencepiece"),
                version("torchtext")]
    key.update(json.dumps(settings).encode())
    for path in (*corpus.train, *corpus.validation):
        content = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                content.update(block)
        key.update(content.digest())
    return key.hexdigest()[:16]


def _read_meta(cache: Path) -> dict[str, Any] | None:
    """What a whole cache says of itself; none if there is none, or it has lost a part."""
    try:
        meta: dict[str, Any] = json.loads((cache / META).read_text(encoding="utf-8"))
        if _sizes(cache) == meta["sizes"]:
            return meta
    except FileNotFoundError:
        if not cache.exists():
            return None
    except (ValueError, KeyError, TypeError):
        pass
    print(f"{cache}: it is damaged; making it again", file=sys.stderr)
    shutil.rmtree(cache)
    return None


def _sizes(cache: Path) -> dict[str, int]:
    """Of each file, in bytes."""
    return {path.relative_to(cache).as_posix(): path.stat().st_size
            for path in sorted(cache.rglob("*")) if path.is_file() and path.name != META}


def _build(config: Config, corpus: Corpus, cache: Path) -> None:
    partial = cache.with_name(f"{cache.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process of the same id that was killed
    try:
        _write(config, corpus, partial)
        os.replace(partial, cache)
    except OSError as error:
        if not cache.exists():  # where another process was faster, what it wrote is the same
            raise UserError(f"{cache}: cannot write it: {error.strerror or error}") from None
    except BrokenExecutor:
        raise UserError("a process that cuts text into tokens was killed, perhaps for want of "
                        "memory") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(config: Config, corpus: Corpus, folder: Path) -> None:
    """Everything that `encode` reads back."""
    tokens = folder / "tokens"
    tokens.mkdir(parents=True)
    tables = {
        (split, side): tokenise(path, Splitting(language, config.text.lowercase,
                                                words=config.text.subwords is None),
                                tokens / f"{split}.{side}")
        for split, paths in (("train", corpus.train), ("validation", corpus.validation))
        for (side, language), path in zip(_SIDES, paths, strict=True)
    }
    (folder / "text").mkdir()
    counts = [tables["train", side].counts() for side, _ in _SIDES]
    sides = _write_text(config.text, counts, folder / "text")
    dropped: Counter[str] = Counter()
    for split in ("train", "validation"):
        own = [tables[split, side] for side, _ in _SIDES]
        ids = [_spell(table.tokens, *side) for table, side in zip(own, sides, strict=True)]
        stems = [folder / f"{split}.{side}" for side, _ in _SIDES]
        with RaggedWriter(stems[0]) as source, RaggedWriter(stems[1]) as target:
            for rows in zip(own[0].chunks(), own[1].chunks(), strict=True):
                pairs = Pairs(ids[0].expand(rows[0]), ids[1].expand(rows[1]))
                if split == "train":
                    pairs = _filter(pairs, config.data, dropped)
                source.append(pairs.source)
                target.append(pairs.target)
            if split == "train" and not len(source):
                raise UserError(f"no training pair of {corpus.train[0]} is left: "
                                + ", ".join(f"{n:,} {why}" for why, n in dropped.items())
                                + "; raise data.max_length or data.max_ratio")
    shutil.rmtree(tokens)
    meta = {"dropped": dropped, "sizes": _sizes(folder)}
    (folder / META).write_text(json.dumps(meta), encoding="utf-8")


def _write_text(config: TextConfig, counts: list[dict[str, int]], folder: Path,
                ) -> list[tuple[Vocabulary, Subwords | None]]:
    """The vocabulary and the subword model of each side, as `load_text` reads them."""
    subwords = config.subwords
    if subwords and subwords.joint:
        both = {token: counts[0].get(token, 0) + counts[1].get(token, 0)
                for token in counts[0] | counts[1]}
        counts = [both, both]
    sides: list[tuple[Vocabulary, Subwords | None]] = []
    for n, (side, language) in enumerate(_SIDES):
        cutter = None
        if subwords:
            first = sides[0][1] if sides and subwords.joint else None
            cutter = first or Subwords(train_subwords(counts[n], subwords.type, subwords.size))
            (folder / f"{side}.model").write_bytes(cutter.model)
            vocabulary = Vocabulary(cutter.pieces)
        else:
            vocabulary = build_words(word_field(language, config.lowercase), counts[n],
                                     config.min_freq)
        vocabulary.save(folder / f"{side}.json")
        sides.append((vocabulary, cutter))
    return sides


def _spell(tokens: list[str], vocabulary: Vocabulary, subwords: Subwords | None) -> Ragged:
    """The ids of every token."""
    ids = [vocabulary.ids(subwords.split([token]) if subwords else [token]) for token in tokens]
    return Ragged(np.array([i for own in ids for i in own], np.int32),
                  offsets(np.array([len(own) for own in ids], np.int64)))


def _filter(pairs: Pairs, config: DataConfig, dropped: Counter[str]) -> Pairs:
    """The pairs that training takes; the others are counted in `dropped`."""
    lengths = np.stack([pairs.source.lengths, pairs.target.lengths])
    longer, shorter = lengths.max(axis=0), lengths.min(axis=0)
    too_long = longer > config.max_length
    uneven = ~too_long & (longer > config.max_ratio * shorter)
    dropped[f"longer than {config.max_length} tokens"] += int(too_long.sum())
    dropped[f"length ratio above {config.max_ratio:g}"] += int(uneven.sum())
    keep = ~(too_long | uneven)
    return Pairs(pairs.source.select(keep), pairs.target.select(keep))
