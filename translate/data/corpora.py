"""The corpora by name: from whatever form each comes in to aligned plain text on disk.

`prepare` leaves in data/<corpus>/ one UTF-8 file a split and language, and corpus.json, which
says what they were made from. Only training pairs are ever dropped, and each drop is counted.
Validation and test sets are checked for runs of shifted lines; `data.repair` realigns them in a
folder of its own, under names that say so.
"""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translate.columns import columns
from translate.config import DataConfig
from translate.data.alignment import REPAIRED, checked
from translate.data.download import Source, fetch
from translate.data.iwslt import read_iwslt
from translate.data.lines import Split, clean_files, clean_split, read_lines, write_lines
from translate.errors import UserError

VERSION = 2  # of the prepared files; a higher one has all corpora made again
MANIFEST = "corpus.json"

MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
MULTI30K_SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}
MULTI30K_OPTIONAL = ("test_2017_flickr", "test_2017_mscoco")  # no checksum is known for these

IWSLT_SOURCES = {
    "iwslt2014": [Source("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
                         md5="10936dfdf616504ddbd844e91b94ef4a", strict=False)],
    "iwslt2017": [
        Source("https://huggingface.co/datasets/IWSLT/iwslt2017/resolve/"
               "ebd7c60d9800c2a1be010a227e5f0a2363730f7a/data/2017-01-trnted/texts/de/en/de-en.tgz",
               sha256="ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
               size=16_751_373),
        Source("https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-trnted/"
               "texts/de/en/de-en.tgz", md5="ca2b94d694150d4d6c5dc64c200fa589"),
    ],
}
# Pairs, as published; "test sets" is all of them together.
PUBLISHED_PAIRS = {
    "multi30k": {"train": 29_000, "validation": 1_014, "test_2016_flickr": 1_000},
    "iwslt2017": {"train": 206_112, "validation": 888, "test sets": 8_079},
}


@dataclass(frozen=True)
class Corpus:
    """Where the aligned text of a corpus lies; each pair of paths is German, English."""

    name: str
    folder: Path
    train: tuple[Path, Path]
    validation: tuple[Path, Path]
    test: dict[str, tuple[Path, Path]]  # by name, in the order to report them


Manifest = dict[str, Any]
Reading = tuple[list[Split], list[Path]]  # train, validation, tests; what they were read from


def prepare(data: DataConfig, base: Path = Path("data")) -> Corpus:
    """Make the aligned text of a corpus, unless it is there already, and say where it lies.

    Prints a table of what was made from what. Does nothing when the same settings have made
    the files before and the input files have not changed since.

    Raises:
        UserError: a source cannot be had or read, or its two sides do not correspond.
    """
    try:
        return prepared(data, base) or _make(data, base)
    except OSError as error:
        raise UserError(f"{error.filename or base}: {error.strerror}") from None


def prepared(data: DataConfig, base: Path = Path("data")) -> Corpus | None:
    """The corpus, if these settings have made it already; none if it is to be made (again)."""
    folder = _folder(data, base)
    manifest = _read_manifest(folder)
    if manifest is None or _outdated(data, folder, manifest):
        return None
    return _corpus(data, folder, manifest)


def table(folder: Path) -> str:
    """The table of a prepared corpus: split, source, pairs, what was dropped and why."""
    manifest = _read_manifest(folder)
    if manifest is None:
        raise UserError(f"{folder / MANIFEST}: no corpus has been prepared here")
    cells = [("split", "source", "pairs", "dropped")]
    for row in manifest["splits"]:
        dropped = ", ".join(f"{count:,} {why}" for why, count in row["dropped"].items())
        cells.append((row["name"], row["source"], f"{row['pairs']:,}", dropped or "-"))
    return "\n".join([columns(cells, "llrl"), *(f"note: {note}" for note in manifest["notes"])])


def _folder(data: DataConfig, base: Path) -> Path:
    name: str = data.corpus
    if data.corpus == "files":
        paths = "\n".join(_settings(data)["files"])
        name = f"files-{hashlib.sha256(paths.encode()).hexdigest()[:8]}"
    if data.split_rule != "official":
        name = f"{name}-{data.split_rule}"
    return base / (f"{name}{REPAIRED}" if data.repair else name)


def _make(data: DataConfig, base: Path) -> Corpus:
    folder = _folder(data, base)
    former = _read_manifest(folder)
    if former is not None:
        print(f"{folder}: {_outdated(data, folder, former)}; making it again")
    folder.mkdir(parents=True, exist_ok=True)
    splits, inputs = _read(data, base, folder)
    for split in splits:
        if not split.german:
            kind = "training" if split.name == "train" else split.name
            raise UserError("\n".join([f"{split.source}: no {kind} pair in it can be used",
                                       *split.notes[:3]]))
    notes = [note for split in splits for note in split.notes] + _surprises(data.corpus, splits)
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)
    texts = {f"{split.name}.{language}": lines for split in splits
             for language, lines in (("de", split.german), ("en", split.english))}
    here = folder.resolve()
    if {here / name for name in texts} & {path.resolve() for path in inputs}:
        raise UserError(f"{folder}: its files would be overwritten by the corpus made from them; "
                        f"move them to another folder, and name that")
    # From here until the new manifest is in place there is none: after a crash in between, the
    # next start makes everything again.
    (folder / MANIFEST).unlink(missing_ok=True)
    if data.corpus != "sample":  # whose generator has written them
        for name, lines in texts.items():
            write_lines(folder / name, lines)
    for stale in set(former["files"] if former else ()) - texts.keys():
        (folder / stale).unlink(missing_ok=True)
    manifest = {
        "settings": _settings(data),
        "inputs": {str(path): _stamp(path) for path in inputs if path.resolve() != here},
        "files": [*texts, *(path.name for path in folder.glob("*.jsonl"))],  # sample has those
        "splits": [{"name": split.name, "source": split.source, "pairs": len(split.german),
                    "dropped": split.dropped} for split in splits],
        "notes": notes,
    }
    write_lines(folder / MANIFEST, [json.dumps(manifest, indent=1, ensure_ascii=False)])
    print(table(folder))
    return _corpus(data, folder, manifest)


def _corpus(data: DataConfig, folder: Path, manifest: Manifest) -> Corpus:
    train, validation, *tests = ((folder / f"{row['name']}.de", folder / f"{row['name']}.en")
                                 for row in manifest["splits"])
    return Corpus(data.corpus, folder, train, validation,
                  {german.stem: (german, english) for german, english in tests})


# --- The manifest: what the prepared files were made from ---------------------------------------

def _settings(data: DataConfig) -> dict[str, Any]:
    pairs = [pair for pair in (data.train, data.validation, data.test) if pair]
    return {
        "version": VERSION,
        "corpus": data.corpus,
        "split_rule": data.split_rule,
        "repair": data.repair,
        "root": str(data.root.expanduser().resolve()) if data.root else None,
        "files": [str(path.expanduser().resolve()) for pair in pairs for path in pair],
    }


def _stamp(path: Path) -> list[int] | None:
    """Size and time of change; none if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _read_manifest(folder: Path) -> Manifest | None:
    """The manifest; none if there is none, or it cannot be read and all is to be made again."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and "settings" in manifest else None


def _outdated(data: DataConfig, folder: Path, manifest: Manifest) -> str | None:
    """Why a prepared corpus has to be made again; none if it has not."""
    for key, value in _settings(data).items():
        if manifest["settings"].get(key) != value:
            return f"it was made with {key} {manifest['settings'].get(key)}, not {value}"
    for name in manifest["files"]:
        if not (folder / name).exists():
            return f"its file {name} is gone"
    for name, stamp in manifest["inputs"].items():
        # An input that is gone, such as a disk taken out, is no reason: it could not be read.
        if _stamp(Path(name)) not in (stamp, None):
            return f"{name} has changed since it was made"
    return None


def _surprises(corpus: str, splits: list[Split]) -> list[str]:
    """A note for each split that has not the number of pairs that is published for it."""
    found = {split.name.removesuffix(REPAIRED): len(split.german) + sum(split.dropped.values())
             for split in splits}
    found["test sets"] = sum(len(split.german) for split in splits[2:])
    return [f"{corpus}: {name} has {found[name]:,} pairs; {published:,} are published"
            for name, published in PUBLISHED_PAIRS.get(corpus, {}).items()
            if found[name] != published]


# --- The corpora --------------------------------------------------------------------------------

def _read(data: DataConfig, base: Path, folder: Path) -> Reading:
    root = data.root.expanduser().resolve() if data.root else None
    downloads = base / "downloads" / data.corpus
    if data.corpus == "sample":
        return _sample(folder)
    if data.corpus.startswith("iwslt"):
        archive = root or fetch(data.corpus, IWSLT_SOURCES[data.corpus], downloads / "de-en.tgz")
        return read_iwslt(archive, data.corpus, data.split_rule, data.repair)
    if data.corpus == "multi30k":
        files = _multi30k_files(root, downloads)
    else:
        assert data.train and data.validation and data.test  # as DataConfig has seen to
        files = {"train": data.train, "validation": data.validation, "test": data.test}
    splits, inputs = [], [root] if root else []
    for name, pair in files.items():
        german, english = (path.expanduser().absolute() for path in pair)
        source = f"{german.name}, {english.name}"
        splits.append(clean_files(source, german, english) if name == "train" else checked(
            clean_split(name, source, read_lines(german), read_lines(english)), data.repair))
        inputs += [german, english]
    return splits, inputs


def _sample(folder: Path) -> Reading:
    from translate.data import sample  # large, and of no use to the other corpora

    (folder / MANIFEST).unlink(missing_ok=True)
    sample.generate(folder)
    splits = [Split(name, "generated", read_lines(folder / f"{name}.de"),
                    read_lines(folder / f"{name}.en")) for name in ("train", "validation", "test")]
    code = sorted(Path(sample.__file__).parent.glob("*.py"))
    return splits, [*code, *sorted(sample.LEXICON.glob("*.yaml"))]


def _multi30k_files(root: Path | None, downloads: Path) -> dict[str, tuple[Path, Path]]:
    stems = {"train": "train", "validation": "val", "test_2016_flickr": "test_2016_flickr",
             **{name: name for name in MULTI30K_OPTIONAL}}
    files = {}
    for name, stem in stems.items():
        try:
            german, english = (_multi30k_file(root, f"{stem}.{language}", downloads)
                               for language in ("de", "en"))
        except UserError as error:
            if name not in MULTI30K_OPTIONAL:
                raise
            if root is None:
                print(f"warning: going on without {name}: {error}", file=sys.stderr)
        else:
            files[name] = german, english
    return files


def _multi30k_file(root: Path | None, name: str, downloads: Path) -> Path:
    packed = f"{name}.gz"
    if root is None:
        source = Source(f"{MULTI30K_URL}/{packed}", sha256=MULTI30K_SHA256.get(packed))
        return fetch("multi30k ({train,val,test_2016_flickr}.{de,en}.gz)", [source],
                     downloads / packed)
    for path in (root / name, root / packed):
        if path.is_file():
            return path
    raise UserError(f"{root}: there is neither {name} nor {packed} in this folder (data.root)")
