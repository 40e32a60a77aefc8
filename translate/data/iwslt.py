"""IWSLT releases, as archives or folders: train.tags.* and *.xml to aligned sentences.

Sentences leave this module as they stand in the files, entities and all: text that an XML parser
has unescaped gets its ampersands back, so that `lines.clean` unescapes exactly once either way.
"""

import re
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from translate.data.alignment import checked
from translate.data.lines import Split, clean_split, split_lines
from translate.errors import UserError

TRAIN = "train.tags.de-en"
LARGEST = 1 << 29  # bytes of the files in an archive
NESTED = "de-en.tgz"  # the German-English archive inside the archive of a whole year
OFFICIAL_TESTS = {
    "iwslt2014": ["tst2010", "tst2011", "tst2012"],
    "iwslt2017": ["tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015"],
}
UNREADABLE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError,
              NotImplementedError)  # the last two: zip with a password, or an exotic compression


@dataclass(frozen=True)
class Release:
    """The files of one release by their base names, and what they were read from."""

    where: Path
    members: dict[str, bytes]
    inputs: list[Path]

    def pair(self, stem: str, ending: str = "") -> tuple[bytes, bytes]:
        """The German and the English file `stem.{de,en}ending`."""
        for name in (f"{stem}.de{ending}", f"{stem}.en{ending}"):
            if name not in self.members:
                raise UserError(f"{self.where}: {name} is missing from this release")
        return self.members[f"{stem}.de{ending}"], self.members[f"{stem}.en{ending}"]


def read_iwslt(root: Path, corpus: str, split_rule: str, repair: bool = False,
               ) -> tuple[list[Split], list[Path]]:
    """Training, validation and test splits of a release, and the paths they were read from.

    With the rule `official`, TED.dev2010 is for validation and the TED.tst* files are test sets;
    in releases without a list in OFFICIAL_TESTS the TEDX.* files are, too. With `fairseq` (the
    split of most published IWSLT 2014 figures), every 23rd training pair is for validation and all
    dev and test files together are the test set. fairseq's script differs still in training on the
    talks' titles and descriptions too.

    The segments of each dev and test file are checked for shifted runs, and realigned if `repair`.

    Raises:
        UserError: the release cannot be found or read, or a dev or test file's sides differ.
    """
    year = corpus[-2:]
    release = read_release(root, year)
    german, english, unaligned, notes = align_talks(
        *(talks(split_lines(data, f"{root}: {TRAIN}.{side}"), side)
          for side, data in zip(("de", "en"), release.pair(TRAIN), strict=True)))
    train = clean_split("train", TRAIN, german, english)
    if unaligned:
        dropped = {**train.dropped, "in talks that do not align": unaligned}
        train = replace(train, dropped=dropped, notes=notes)

    def from_xml(name: str, *stems: str) -> Split:
        parts = [checked(clean_split(name, stem.removesuffix(".de-en"), *_xml_sides(release, stem)),
                         repair) for stem in stems]
        dropped = sum((Counter(part.dropped) for part in parts), Counter[str]())
        return Split(max((part.name for part in parts), key=len),  # repaired if one of them is
                     ", ".join(part.source for part in parts),
                     [line for part in parts for line in part.german],
                     [line for part in parts for line in part.english],
                     dict(dropped), [note for part in parts for note in part.notes])

    stems = sorted(name.removesuffix(".de.xml") for name in release.members
                   if name.endswith(".de.xml"))
    if split_rule == "fairseq":
        pairs = list(zip(train.german, train.english, strict=True))
        validation = replace(train, name="validation", source=f"{TRAIN}, every 23rd pair",
                             german=[de for de, _ in pairs[22::23]],
                             english=[en for _, en in pairs[22::23]], dropped={}, notes=[])
        others = [pair for number, pair in enumerate(pairs, start=1) if number % 23]
        train = replace(train, source=f"{TRAIN}, the others", german=[de for de, _ in others],
                        english=[en for _, en in others])
        return [train, validation, from_xml("test", *stems)], release.inputs
    if corpus in OFFICIAL_TESTS:
        tests = {test: f"IWSLT{year}.TED.{test}.de-en" for test in OFFICIAL_TESTS[corpus]}
    else:
        tests = {stem.split(".", 1)[1].removeprefix("TED.").removesuffix(".de-en"): stem
                 for stem in stems if re.match(r"IWSLT\d\d\.(TED\.tst|TEDX\.)", stem)}
    if not tests:
        raise UserError(f"{root}: no test set IWSLT{year}.TED.tst*.de-en.de.xml in this release")
    named = {"validation": f"IWSLT{year}.TED.dev2010.de-en", **tests}
    return [train, *(from_xml(name, stem) for name, stem in named.items())], release.inputs


# --- Archives and folders -----------------------------------------------------------------------

def read_release(root: Path, year: str) -> Release:
    """Find the German-English release of a year in a .tgz, a .zip or a folder.

    Files are known by their exact base names (so that "._train.tags.de-en.de" is none of them)
    in whatever folder holds them. Archives are read in place, never unpacked: nothing is
    written, and members with absolute paths or ".." are passed over.
    """
    wanted = re.compile(rf"{re.escape(TRAIN)}\.(de|en)|IWSLT{year}\.TEDX?\.\w+\.de-en\.(de|en)\.xml"
                        rf"|{re.escape(NESTED)}")
    if root.is_dir():
        files = {path: path.read_bytes() for path in sorted(root.rglob("*de-en*"))
                 if wanted.fullmatch(path.name)}
    elif root.is_file():
        with open(root, "rb") as file:
            files = _unpack(root, file, wanted)
    else:
        raise UserError(f"{root}: there is no such file or folder")
    if not any(path.name == f"{TRAIN}.de" for path in files):
        for path in [path for path in files if path.name == NESTED]:
            files |= _unpack(path, BytesIO(files[path]), wanted)
    folders = [path.parent for path in files if path.name == f"{TRAIN}.de"]
    if len(folders) != 1:
        found = ", ".join(map(str, folders)) or "none"
        raise UserError(f"{root}: must hold {TRAIN}.de, with the other files of the de-en release "
                        f"of 20{year}, in one folder; found: {found}")
    members = [path for path in files if path.parent == folders[0]]
    # Of what was read, and the folders and the archive around it, that which is on disk.
    inputs = [path for member in members for path in (member, *member.parents)
              if path.is_relative_to(root) and path.exists()]
    return Release(root, {path.name: files[path] for path in members}, inputs)


def _unpack(archive: Path, file: BinaryIO, wanted: re.Pattern[str]) -> dict[Path, bytes]:
    """The wanted files of a .zip or .tgz, as if the archive were a folder."""
    files = {}

    def is_wanted(name: str) -> bool:
        path = PurePosixPath(name)
        inside = not path.is_absolute() and ".." not in path.parts
        return inside and wanted.fullmatch(path.name) is not None

    def check_size(size: int) -> None:
        if size > LARGEST:
            raise UserError(f"{archive}: its files have more than {LARGEST >> 20:,} MiB; a release "
                            "has a tenth of that")

    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as opened:
                wanted_members = [each for each in opened.infolist() if is_wanted(each.filename)]
                check_size(sum(each.file_size for each in wanted_members))
                for each in wanted_members:
                    files[archive / each.filename] = opened.read(each)
        else:
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                for member in tar:
                    content = tar.extractfile(member) if member.isfile() else None
                    if content is not None and is_wanted(member.name):
                        check_size(member.size + sum(map(len, files.values())))
                        files[archive / member.name] = content.read()
    except (*UNREADABLE, OSError) as error:
        raise UserError(f"{archive}: cannot be read as a .tgz or .zip: "
                        + " ".join(str(error).split())) from None
    return files


# --- train.tags: sentences between lines of tags ------------------------------------------------

def talks(lines: list[str], side: str) -> dict[str, list[str]]:
    """The sentences of each talk by its talkid: the lines that do not begin with "<".

    A talk begins at the block of tag lines that holds its <talkid>, wherever in the block. Other
    tag lines, in whatever number, neither begin nor end one, save <url> and <doc>: sentences
    that follow such a block without a talkid belong to no talk of the other side.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    identified = False  # whether this block of tag lines has had its <talkid>
    for number, line in enumerate(lines, start=1):
        tag = re.match(r"[\ufeff\s]*<(\w*)>?\s*([^<]*)", line)
        if tag is None:
            if current is None:
                current = found[f"without talkid ({side}, line {number})"] = []
            current.append(line)
            identified = False
        elif tag[1] == "talkid":
            talkid, times = tag[2].strip(), 1
            while (name := talkid if times == 1 else f"{talkid} (no. {times})") in found:
                times += 1
            current = found[name] = []
            identified = True
        elif tag[1] in ("url", "doc") and not identified:
            current = None
    return found


def align_talks(german: dict[str, list[str]], english: dict[str, list[str]],
                ) -> tuple[list[str], list[str], int, list[str]]:
    """Join the talks that have equally many sentences on both sides.

    Returns German and English sentences, the number of pairs in other talks, and a note on each.
    """
    left: list[str] = []
    right: list[str] = []
    dropped, notes = 0, []
    for talk in dict.fromkeys([*german, *english]):
        de, en = german.get(talk, []), english.get(talk, [])
        if len(de) == len(en):
            left += de
            right += en
        else:
            dropped += max(len(de), len(en))
            notes.append(f"talk {talk} dropped: {len(de)} German and {len(en)} English sentences")
    return left, right, dropped, notes


# --- Dev and test files -------------------------------------------------------------------------

def _xml_sides(release: Release, stem: str) -> list[list[str]]:
    """The German and the English lines, whose segments must have the same ids."""
    names = [f"{release.where}: {stem}.{side}.xml" for side in ("de", "en")]
    sides = [segments(data, name)
             for name, data in zip(names, release.pair(stem, ".xml"), strict=True)]
    for position in range(max(map(len, sides))):
        de, en = (f"doc {side[position][0][0]} seg {side[position][0][1]}"
                  if position < len(side) else "the end of the file" for side in sides)
        if de != en:
            raise UserError(f"{names[0]}: segment {position + 1} is {de}, but in {names[1]} "
                            f"it is {en}; the two sides must have the same segments")
    return [[text for _, text in side] for side in sides]


def segments(data: bytes, where: str) -> list[tuple[tuple[str, str], str]]:
    """((docid, seg id), text) of a dev or test file, in order, entities left as they are."""
    text = "\n".join(split_lines(data, where)).removeprefix("\ufeff")
    if re.search("<!(DOCTYPE|ENTITY)", text):  # entities could be made to grow without bound
        raise UserError(f"{where}: has a DOCTYPE or ENTITY declaration; official files have none")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        found = _segments_by_line(text)
    else:
        found = [((doc.get("docid", ""), seg.get("id", "")),
                  "".join(seg.itertext()).replace("&", "&amp;"))
                 for doc in root.iter("doc") for seg in doc.iter("seg")]
    if not found:
        raise UserError(f"{where}: there is no <seg id=…> in this file")
    return found


def _segments_by_line(text: str) -> list[tuple[tuple[str, str], str]]:
    """For files that are not well formed, mostly for a bare "&" or "<" in the text."""
    found = []
    docid = ""
    for match in re.finditer(r"""<doc\b[^>]*?\bdocid=["']([^"']*)|"""
                             r"""<seg\b[^>]*?\bid=["']([^"']*)["'][^>]*>(.*?)"""
                             r"""(?:</seg>|(?=<seg\b|</doc>|\Z))""", text, re.DOTALL):
        if match[1] is not None:
            docid = match[1]
        else:
            found.append(((docid, match[2]), match[3]))
    return found
