"""Text files of one segment a line: reading, cleaning and writing them without losing a line."""

import gzip
import html
import io
import math
import os
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Protocol

from translate.errors import UserError

# Only references that end in a semicolon: HTML's older ones, without it, would eat "Q&Amp" or
# make "¬" of the first letters of "&nothing".
ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
LONGEST = 16_000_000  # bytes of a line
INVISIBLE = re.compile("[\u00ad\u200b\ufeff]")  # soft hyphen, zero-width space, byte-order mark


class Lines(Protocol):
    """A list of lines, or as many in a file that is read whenever they are gone through."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class Split:
    """One split of a corpus, cleaned: line n of one side is the translation of line n."""

    name: str
    source: str  # the file names, for the table
    german: Lines
    english: Lines
    dropped: dict[str, int] = field(default_factory=dict)  # why -> pairs
    notes: list[str] = field(default_factory=list)


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file (gzipped if it is named .gz), split at "\\n" alone.

    Raises:
        UserError: the file cannot be read, or a byte is not UTF-8 (file and line are named).
    """
    return list(iter_lines(path))


def iter_lines(path: Path) -> Iterator[str]:
    """As `read_lines`, but one after another, for files that are larger than memory."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            yield from _decoded(file, str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None


def split_lines(data: bytes, where: str) -> list[str]:
    """The lines of UTF-8 bytes, without their "\\n"; `where` is what an error calls them."""
    return list(_decoded(io.BytesIO(data), where))


def _decoded(file: io.BufferedIOBase, where: str) -> Iterator[str]:
    """Lines of a binary file, which end at "\\n" alone.

    Never `str.splitlines`: U+2028, U+0085, U+000B, U+000C and others are inside lines of real
    corpora, on one side only, and would shift every line after them.
    """
    for number, line in enumerate(iter(partial(file.readline, LONGEST + 1), b""), start=1):
        if len(line) > LONGEST:  # such as what a few bytes of gzip can be made to stand for
            raise UserError(f"{where}: line {number} is longer than {LONGEST:,} bytes; a file of "
                            "text has one segment a line")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{where}: line {number}: byte 0x{line[error.start]:02x} is not "
                            f"UTF-8; convert the file to UTF-8, for instance with iconv") from None
        yield text.removesuffix("\n")


def clean(line: str) -> str:
    """One segment of a corpus as plain text: entities unescaped once, then `tidy`.

    In this order, since "&nbsp;" and "&shy;" yield characters that `tidy` looks for. "&amp;quot;"
    becomes "&quot;": unescaping twice would alter texts that speak of entities.
    """
    if "&" in line:
        line = ENTITY.sub(lambda reference: html.unescape(reference[0]), line)
    return tidy(line)


def tidy(line: str) -> str:
    """The text without invisible characters, in NFC, every run of white space (line separators
    and no-break spaces too) one space, none at the ends."""
    return " ".join(unicodedata.normalize("NFC", INVISIBLE.sub("", line)).split())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write UTF-8 lines atomically: after a crash there is the former file or the whole new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
        os.replace(temporary, path)
    except OSError as error:
        error.filename = str(path)  # a full disk has none
        raise
    finally:
        temporary.unlink(missing_ok=True)


def clean_split(name: str, source: str, german: list[str], english: list[str]) -> Split:
    """Clean both sides; a pair of `train` with nothing on a side is dropped, the others stay.

    Raises:
        UserError: the sides have different numbers of lines.
    """
    check_aligned(german, english, source)
    pairs = [(clean(left), clean(right)) for left, right in zip(german, english, strict=True)]
    kept = [pair for pair in pairs if all(pair)] if name == "train" else pairs
    return Split(name, source, [pair[0] for pair in kept], [pair[1] for pair in kept],
                 _empty(len(pairs) - len(kept)))


def clean_files(source: str, german: Path, english: Path) -> Split:
    """As `clean_split` for `train`, but without the files in memory.

    They are read and cleaned anew whenever the lines of a side are gone through.
    """
    def pairs() -> Iterator[tuple[str, str]]:
        for left, right in zip_longest(iter_lines(german), iter_lines(english)):
            if left is None or right is None:
                check_aligned(read_lines(german), read_lines(english), source)
            yield clean(left), clean(right)

    counts = Counter(map(all, pairs()))
    return Split("train", source, _Side(pairs, 0, counts[True]), _Side(pairs, 1, counts[True]),
                 _empty(counts[False]))


@dataclass(frozen=True)
class _Side:
    """Lines: one side of those pairs that have something on both."""

    pairs: Callable[[], Iterator[tuple[str, str]]]
    number: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return (pair[self.number] for pair in self.pairs() if all(pair))


def _empty(pairs: int) -> dict[str, int]:
    return {"empty on a side": pairs} if pairs else {}


def check_aligned(german: list[str], english: list[str], where: str) -> None:
    """Raise a UserError if the two sides have different numbers of lines.

    It names the line at which the two sides seem to come apart: the place before which the
    lengths fit best counting lines from the top, and after which they fit best counting from
    the bottom. For one missing or one extra line that is the very place, give or take a few.
    """
    if len(german) == len(english):
        return
    shorter = min(len(german), len(english))
    sizes = [[len(line) + 1 for line in side] for side in (german, english)]
    usual = math.log(max(1, sum(sizes[0])) / max(1, sum(sizes[1])))

    def misfits(pairs: Iterable[tuple[int, int]]) -> list[float]:
        return [abs(math.log(left / right) - usual) for left, right in pairs]

    from_top = misfits(zip(*sizes, strict=False))
    from_bottom = misfits(zip(*(side[len(side) - shorter:] for side in sizes), strict=True))
    gain = accumulate((bottom - top for top, bottom in zip(from_top, from_bottom, strict=True)),
                      initial=0.0)  # of counting from the top as far as here
    line = max(enumerate(gain, start=1), key=lambda place: (place[1], place[0]))[0]
    raise UserError(f"{where}: {len(german)} German lines but {len(english)} English lines; by "
                    f"their lengths the two sides come apart at about line {line}")
