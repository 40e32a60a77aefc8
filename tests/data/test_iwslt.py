"""Reading tiny releases in the official layout, as folder, .tgz and .zip."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from translate.data import iwslt
from translate.data.iwslt import align_talks, read_iwslt, read_release, segments, talks
from translate.errors import UserError


def head(talkid: str) -> str:
    return (f"<url>http://example.org/{talkid}</url>\n<keywords>a, b</keywords>\n"
            f"<speaker>S</speaker>\n<talkid>{talkid}</talkid>\n<title>T</title>\n"
            f"<description>D</description>\n")


FOOT = "<reviewer></reviewer>\n<translator></translator>\n"


def xml(language: str, *segs: str, docid: str = "7") -> str:
    body = "\n".join(f'<seg id="{n}"> {text} </seg>' for n, text in enumerate(segs, start=1))
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="x" '
            f'srclang="{language}">\n<doc docid="{docid}" genre="lectures">\n<url>u</url>\n'
            f"<talkid>{docid}</talkid>\n<title>Titel</title>\n{body}\n</doc>\n</srcset>\n</mteval>\n")


def release(year: str = "16", tests: tuple[str, ...] = ("TED.tst2010", "TED.tst2011"),
            ) -> dict[str, str]:
    """The files of a tiny release: two talks, and dev and test sets of two segments each."""
    files = {
        "train.tags.de-en.de": f"{head('1')}eins\nzwei\n{FOOT}{head('2')}drei\n{FOOT}",
        "train.tags.de-en.en": f"{head('1')}one\ntwo\n{FOOT}{head('2')}three\n{FOOT}",
        "README": "text",
        "IWSLT99.TED.tst2010.de-en.de.xml": "of another year",
    }
    for name in ("TED.dev2010", *tests):
        for language in ("de", "en"):
            files[f"IWSLT{year}.{name}.de-en.{language}.xml"] = xml(
                language, f"{language} {name}", "&amp;quot; &lt;b&gt;")
    return files


def as_folder(files: dict[str, str], path: Path, inside: str = "de-en/") -> Path:
    for name, text in files.items():
        file = path / inside / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return path


def as_tgz(files: dict[str, str], path: Path, inside: str = "de-en/") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(inside + name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def as_zip(files: dict[str, str], path: Path, inside: str = "de-en/") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(inside + name, text)
    return path


# --- Finding the files --------------------------------------------------------------------------

@pytest.mark.parametrize("pack", [as_folder, as_tgz, as_zip])
@pytest.mark.parametrize("inside", ["de-en/", "./de-en/", "2016-01/texts/de/en/de-en/", ""])
def test_a_release_is_read_the_same_in_every_form(tmp_path: Path, pack, inside: str) -> None:
    root = pack(release(), tmp_path / "release", inside)
    splits, inputs = read_iwslt(root, "iwslt2016", "official")
    assert [(split.name, split.german, split.english) for split in splits] == [
        ("train", ["eins", "zwei", "drei"], ["one", "two", "three"]),
        ("validation", ["de TED.dev2010", "&quot; <b>"], ["en TED.dev2010", "&quot; <b>"]),
        ("tst2010", ["de TED.tst2010", "&quot; <b>"], ["en TED.tst2010", "&quot; <b>"]),
        ("tst2011", ["de TED.tst2011", "&quot; <b>"], ["en TED.tst2011", "&quot; <b>"]),
    ]
    assert all(path.exists() for path in inputs)
    if root.is_file():
        assert set(inputs) == {root}
    else:
        assert root / inside / "train.tags.de-en.de" in inputs
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"]  # nothing unpacked


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_the_archive_inside_the_archive_or_folder_of_a_year_is_found(
        tmp_path: Path, form: str) -> None:
    inner = as_tgz(release(), tmp_path / "de-en.tgz")
    if form == "archive":
        root = tmp_path / "2016-01.tgz"
        with tarfile.open(root, "w:gz") as archive:
            archive.add(inner, "2016-01/texts/de/en/de-en.tgz")
            archive.add(inner, "2016-01/texts/en/de/en-de.tgz")
    else:
        root = tmp_path / "2016-01"
        (root / "texts").mkdir(parents=True)
        inner.rename(root / "texts" / "de-en.tgz")
    splits, inputs = read_iwslt(root, "iwslt2016", "official")
    assert splits[0].german == ["eins", "zwei", "drei"]
    assert (root if form == "archive" else root / "texts" / "de-en.tgz") in inputs


@pytest.mark.parametrize("pack", [as_tgz, as_zip])
def test_other_names_and_paths_that_lead_outside_are_passed_over(tmp_path: Path, pack) -> None:
    evil = {name: text.replace("eins", "evil") for name, text in release().items()}
    files = release()
    for prefix in ("../", "a/../../", f"{tmp_path}/absolute/", "__MACOSX/._", "._", "old-"):
        files |= {f"{prefix}{name}": text for name, text in evil.items()}
    root = pack(files, tmp_path / "release", inside="")
    splits, _ = read_iwslt(root, "iwslt2016", "official")
    assert splits[0].german == ["eins", "zwei", "drei"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
                                  tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_an_archive_are_not_read(tmp_path: Path, kind: bytes) -> None:
    root = as_tgz(release(), tmp_path / "release.tgz")
    with tarfile.open(tmp_path / "links.tgz", "w:gz") as archive, tarfile.open(root) as source:
        for member in source:
            if member.name.endswith("train.tags.de-en.en"):
                member.type, member.linkname, member.size = kind, "/etc/passwd", 0
            archive.addfile(member, source.extractfile(member) if member.isfile() else None)
    with pytest.raises(UserError, match=r"train.tags.de-en.en is missing"):
        read_iwslt(tmp_path / "links.tgz", "iwslt2016", "official")


@pytest.mark.parametrize("pack", [as_tgz, as_zip])
def test_an_archive_of_more_than_a_release_is_refused_before_it_is_read(
        tmp_path: Path, pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iwslt, "LARGEST", 1 << 20)
    bomb = release() | {"train.tags.de-en.en": "x" * (1 << 20)}
    with pytest.raises(UserError, match=r"a: its files have more than 1 MiB; a release has a ten"):
        read_release(pack(bomb, tmp_path / "a"), "16")


@pytest.mark.parametrize("pack", [as_folder, as_tgz, as_zip])
def test_a_missing_or_doubled_release_is_told(tmp_path: Path, pack) -> None:
    with pytest.raises(UserError, match=r"must hold train.tags.de-en.de.*found: none"):
        read_release(pack({"README": "text"}, tmp_path / "a"), "16")
    both = {f"{folder}/{name}": text for folder in "xy" for name, text in release().items()}
    with pytest.raises(UserError, match=r"found: .*/x, .*/y"):
        read_release(pack(both, tmp_path / "b", ""), "16")
    with pytest.raises(UserError, match=r"IWSLT17.TED.dev2010.de-en.de.xml is missing"):
        read_iwslt(pack(release(), tmp_path / "c"), "iwslt2017", "official")
    no_tests = pack(release(tests=()), tmp_path / "d")
    with pytest.raises(UserError, match=r"no test set IWSLT16.TED.tst"):
        read_iwslt(no_tests, "iwslt2016", "official")


def test_a_damaged_archive_and_a_missing_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: there is no such file or folder"):
        read_release(tmp_path / "absent", "16")
    whole = as_tgz(release(), tmp_path / "whole.tgz").read_bytes()
    zipped = as_zip(release(), tmp_path / "whole.zip").read_bytes()
    wrong = bytearray(zipped)
    wrong[60:70] = b"##########"  # text of the first member: its CRC no longer fits
    for content in (b"text", b"", whole[: len(whole) // 2], zipped[: len(zipped) // 2], wrong):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(UserError, match=r"bad: cannot be read as a \.tgz or \.zip"):
            read_release(tmp_path / "bad", "16")


# --- Splits -------------------------------------------------------------------------------------

def test_official_test_sets_are_those_of_the_year(tmp_path: Path) -> None:
    years = {"14": ["tst2010", "tst2011", "tst2012"],
             "16": ["tst2009", "tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015",
                    "TEDX.dev2012"],  # what there is
             "17": ["tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015"]}
    available = (*(f"TED.tst{year}" for year in range(2009, 2016)), "TEDX.dev2012")
    for year, expected in years.items():
        root = as_tgz(release(year, available), tmp_path / year)
        splits, _ = read_iwslt(root, f"iwslt20{year}", "official")
        assert [split.name for split in splits] == ["train", "validation", *expected]


def test_the_fairseq_rule_takes_every_23rd_pair_and_all_dev_and_test_files(tmp_path: Path) -> None:
    files = release("14", ("TED.tst2010", "TED.tst2012", "TEDX.dev2012"))
    numbers = [n for n in range(1, 101) if n != 5]  # the pair that is empty does not count
    for side in ("de", "en"):
        lines = [f"{side} {n}" if n != 5 or side == "de" else "" for n in range(1, 101)]
        files[f"train.tags.de-en.{side}"] = head("1") + "\n".join(lines) + "\n"
    train, validation, test = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2014", "fairseq")[0]
    for side, language in (("german", "de"), ("english", "en")):
        assert getattr(validation, side) == [f"{language} {n}" for n in numbers[22::23]]
        assert getattr(train, side) == [f"{language} {n}" for i, n in enumerate(numbers, start=1)
                                        if i % 23]
        assert sorted(getattr(test, side)[::2]) == [
            f"{language} {name}" for name in ("TED.dev2010", "TED.tst2010", "TED.tst2012",
                                              "TEDX.dev2012")]
    assert (test.name, len(test.german)) == ("test", 8)
    assert train.dropped == {"empty on a side": 1} and not validation.dropped


def shifted(year: str, *extra: str) -> dict[str, str]:
    """A release in whose TEDX.dev2012 lines 31-60 are off by one."""
    lines = ["x" * (1 + 37 * n % 101) for n in range(90)]
    slipped = [*lines[:30], lines[30][:40], lines[30][40:], *lines[31:58],
               f"{lines[58]} {lines[59]}", *lines[60:]]
    files = release(year, ("TED.tst2010", "TEDX.dev2012", *extra))
    files[f"IWSLT{year}.TEDX.dev2012.de-en.de.xml"] = xml("de", *slipped)
    files[f"IWSLT{year}.TEDX.dev2012.de-en.en.xml"] = xml("en", *lines)
    return files


def test_a_shifted_run_is_told_by_the_lines_of_its_file(tmp_path: Path) -> None:
    for year, rule in (("16", "official"), ("14", "fairseq")):
        root = as_tgz(shifted(year), tmp_path / year)
        test = read_iwslt(root, f"iwslt20{year}", rule)[0][-1]
        assert [note.split(";")[0] for note in test.notes] == [
            f"IWSLT{year}.TEDX.dev2012: lines 31-60 (30 pairs) look shifted: German line n belongs "
            "to English line n-1"]


def test_repair_realigns_the_one_set_and_names_what_it_is_part_of(tmp_path: Path) -> None:
    root = as_tgz(shifted("16"), tmp_path / "16")
    asis, repaired = (read_iwslt(root, "iwslt2016", "official", repair)[0]
                      for repair in (False, True))
    assert [split.name for split in repaired] == [
        "train", "validation", "tst2010", "TEDX.dev2012-repaired"]
    assert repaired[:3] == asis[:3]
    assert repaired[3].german[31:58] == repaired[3].english[31:58] == asis[3].english[31:58]

    root = as_tgz(shifted("14", "TEDX.tst2013"), tmp_path / "14")
    asis, repaired = (read_iwslt(root, "iwslt2014", "fairseq", repair)[0][-1]
                      for repair in (False, True))
    assert (repaired.name, repaired.source) == ("test-repaired", asis.source)
    assert (len(asis.german), len(repaired.german), repaired.dropped) == (
        96, 95, {"joined to a neighbour": 1})
    assert repaired.english[-2:] == asis.english[-2:] == ["en TEDX.tst2013", "&quot; <b>"]


# --- train.tags ---------------------------------------------------------------------------------

def parse(text: str, side: str = "de") -> dict[str, list[str]]:
    return talks(text.split("\n")[:-1], side)


@pytest.mark.parametrize("text", [
    f"{head('1')}a\nb\n{FOOT}{head('2')}c\n{FOOT}",
    f"{head('1')}a\nb\n{head('2')}c\n",  # nothing closes a talk
    f"\ufeff{head('1')}a\nb\n{FOOT}{FOOT}{head('2')}c\n",
    f"{head('1')}a\n<reviewer>x</reviewer>\nb\n{FOOT}{head('2')}c\n",  # a stray tag inside
    f"{head('1')}{FOOT}a\nb\n{head('2')}{FOOT}c\n",  # reviewer and translator at the beginning
    "<talkid>1</talkid>\n<url>u</url>\na\nb\n<talkid>2</talkid>\nc\n",  # other orders
    "<doc docid='9'>\n<talkid> 1 </talkid>\n<url>u</url>\na\nb\n</doc>\n"
    "<doc docid='8'>\n<url>u</url>\n<talkid>2\nc\n</doc>\n",
])
def test_talks_are_told_apart_by_the_talkid_in_their_block(text: str) -> None:
    assert parse(text) == {"1": ["a", "b"], "2": ["c"]}


def test_talks_without_sentences_and_empty_sentences_are_kept_apart() -> None:
    assert parse(f"{head('1')}{FOOT}{head('2')}{FOOT}{head('3')}\nc\n\n") == {
        "1": [], "2": [], "3": ["", "c", ""]}


def test_a_talkid_that_comes_twice_is_two_talks() -> None:
    assert parse(f"{head('1')}a\n{head('1')}b\n{head('1')}c\n") == {
        "1": ["a"], "1 (no. 2)": ["b"], "1 (no. 3)": ["c"]}


def test_sentences_without_a_talkid_belong_to_no_talk_of_the_other_side() -> None:
    text = f"a\n{head('1')}b\n{FOOT}<url>u</url>\n<title>T</title>\nc\nd\n{head('2')}e\n"
    german, english = parse(text), parse(text, "en")
    assert german == {"without talkid (de, line 1)": ["a"], "1": ["b"],
                      "without talkid (de, line 13)": ["c", "d"], "2": ["e"]}
    left, right, dropped, notes = align_talks(german, english)
    assert left == right == ["b", "e"]
    assert dropped == 6 and len(notes) == 4


def test_tag_lines_may_differ_in_number_between_the_sides(tmp_path: Path) -> None:
    files = release()
    files["train.tags.de-en.de"] = f"{head('1')}eins\nzwei\n{FOOT}{FOOT}{head('2')}drei\n"
    files["train.tags.de-en.en"] = (f"{head('1')}<doc docid='1'>\n<seekvideo>0</seekvideo>\none\n"
                                    f"two\n{FOOT}{head('2')}<translator>x</translator>\nthree\n")
    train = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")[0][0]
    assert train.german == ["eins", "zwei", "drei"] and train.english == ["one", "two", "three"]
    assert not train.dropped and not train.notes


def test_a_talk_that_does_not_align_is_dropped_and_told_and_never_shifted(tmp_path: Path) -> None:
    files = release()
    files["train.tags.de-en.de"] = (
        f"{head('1')}a1\na2\n{head('2')}b1\nb2\nb3\n{head('3')}c1\n{head('4')}d1\nd2\n")
    files["train.tags.de-en.en"] = (
        f"{head('5')}E1\n{head('4')}D1\nD2\n{head('1')}A1\nA2\n{head('2')}B1\nB2\n")
    train = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")[0][0]
    assert list(zip(train.german, train.english, strict=True)) == [
        ("a1", "A1"), ("a2", "A2"), ("d1", "D1"), ("d2", "D2")]
    assert train.dropped == {"in talks that do not align": 5}
    assert train.notes == ["talk 2 dropped: 3 German and 2 English sentences",
                           "talk 3 dropped: 1 German and 0 English sentences",
                           "talk 5 dropped: 0 German and 1 English sentences"]


def test_line_separators_inside_a_sentence_do_not_shift(tmp_path: Path) -> None:
    files = release()
    files["train.tags.de-en.de"] = f"{head('1')}ei\u2028ns\nzw\u0085ei\u000b\u000c\n{head('2')}c\n"
    train = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")[0][0]
    assert train.german == ["ei ns", "zw ei", "c"] and train.english == ["one", "two", "three"]


def test_windows_line_ends_make_no_difference(tmp_path: Path) -> None:
    files = {name: text.replace("\n", "\r\n") for name, text in release().items()}
    splits, _ = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")
    assert splits == read_iwslt(as_tgz(release(), tmp_path / "b"), "iwslt2016", "official")[0]


# --- XML ----------------------------------------------------------------------------------------

def test_segments_come_with_their_ids_and_are_unescaped_exactly_once_later() -> None:
    found = segments(xml("de", "a &amp;amp; b", "", "&#252; &lt;i&gt;", "x <b>y</b> z").encode(),
                     "file")
    assert found == [(("7", "1"), " a &amp;amp; b "), (("7", "2"), "  "),
                     (("7", "3"), " ü <i> "), (("7", "4"), " x y z ")]


@pytest.mark.parametrize("text", ["AT&T & <3 a < b", "a &nbsp; b", "eins\u000bzwei &amp;amp;"])
def test_a_file_that_is_not_well_formed_is_read_by_lines(text: str) -> None:
    broken = xml("de", "eins", text, "drei\nund vier", "fünf").replace("fünf </seg>", "fünf")
    assert segments(("\ufeff" + broken).encode(), "file") == [
        (("7", "1"), " eins "), (("7", "2"), f" {text} "), (("7", "3"), " drei\nund vier "),
        (("7", "4"), " fünf\n")]


def test_a_side_that_is_not_well_formed_fits_one_that_is(tmp_path: Path) -> None:
    files = release()
    files["IWSLT16.TED.tst2010.de-en.de.xml"] = xml("de", "Q&A", "&amp;quot;")
    files["IWSLT16.TED.tst2010.de-en.en.xml"] = xml("en", "Q&amp;A", "&amp;quot;")
    test = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")[0][2]
    assert test.german == test.english == ["Q&A", "&quot;"]


def test_an_empty_side_of_a_test_segment_is_kept(tmp_path: Path) -> None:
    files = release()
    files["IWSLT16.TED.tst2010.de-en.en.xml"] = xml("en", "", "b")
    test = read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")[0][2]
    assert test.english == ["", "b"] and len(test.german) == 2 and not test.dropped


@pytest.mark.parametrize(("english", "complaint"), [
    (xml("en", "a"), "segment 2 is doc 7 seg 2, but in .*en.xml it is the end of the file"),
    (xml("en", "a", "b", "c"), "segment 3 is the end of the file, but in .* it is doc 7 seg 3"),
    (xml("en", "a", "b", docid="8"), "segment 1 is doc 7 seg 1, but in .* it is doc 8 seg 1"),
    (xml("en", "a", "b").replace('id="2"', 'id="3"'), "segment 2 is doc 7 seg 2, but .* 7 seg 3"),
])
def test_segments_that_differ_between_the_sides_are_told_with_file_and_id(
        tmp_path: Path, english: str, complaint: str) -> None:
    files = release()
    files["IWSLT16.TED.tst2010.de-en.en.xml"] = english
    with pytest.raises(UserError, match=f"IWSLT16.TED.tst2010.de-en.de.xml: {complaint}"):
        read_iwslt(as_tgz(files, tmp_path / "a"), "iwslt2016", "official")


@pytest.mark.parametrize(("content", "complaint"), [
    (b"<mteval></mteval>", "there is no <seg"),
    (b"plain", "there is no <seg"),
    (b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><doc docid="1"><seg id="1">&b;'
     b"</seg></doc>", "DOCTYPE or ENTITY"),
    (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><doc docid="1"><seg id="1">a</seg></doc>',
     "DOCTYPE or ENTITY"),
    (b'<doc docid="1">\n<seg id="1">\xff</seg></doc>', "line 2: byte 0xff is not UTF-8"),
])
def test_a_file_that_cannot_be_used_is_told(content: bytes, complaint: str) -> None:
    with pytest.raises(UserError, match=f"file: .*{complaint}"):
        segments(content, "file")
