"""Reading, cleaning and writing lines, and finding where two sides come apart."""

import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest

from translate.data import lines
from translate.data.lines import check_aligned, clean, clean_split, read_lines, write_lines
from translate.errors import UserError

SEPARATORS = ["\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c", "\u001d", "\u001e"]


@pytest.mark.parametrize("separator", SEPARATORS, ids=lambda s: f"U+{ord(s):04X}")
def test_only_a_newline_ends_a_line_and_other_separators_become_spaces(
        tmp_path: Path, separator: str) -> None:
    (tmp_path / "text").write_text(f"eins{separator}zwei\ndrei\n", encoding="utf-8")
    lines = read_lines(tmp_path / "text")
    assert len(lines) == 2
    assert clean(lines[0]) == "eins zwei"


@pytest.mark.parametrize(("content", "lines"), [
    ("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n", ["a", ""]),
    ("\na", ["", "a"]), ("a\r\nb\r\n", ["a\r", "b\r"]),
])
def test_a_final_newline_makes_no_extra_line(
        tmp_path: Path, content: str, lines: list[str]) -> None:
    (tmp_path / "text").write_bytes(content.encode())
    assert read_lines(tmp_path / "text") == lines


def test_a_carriage_return_is_white_space() -> None:
    assert clean("eins\r") == "eins"
    assert clean("eins\rzwei") == "eins zwei"


@pytest.mark.parametrize(("raw", "cleaned"), [
    ("  a \t b\u00a0\u202f\u3000c  ", "a b c"),
    ("", ""),
    (" \u00a0\u2028 ", ""),
    ("Donau\u00addampf\u200bschiff\ufeff", "Donaudampfschiff"),
    ("u\u0308ber", "über"),
    ("u\u200b\u0308ber", "über"),  # composed only once the invisible space is gone
    ("&quot;Q&amp;A&quot;", '"Q&A"'),
    ("&amp;quot;", "&quot;"),
    ("&amp;amp;amp;", "&amp;amp;"),
    ("a&nbsp;b&#160;c&#x2028;d&#10;e", "a b c d e"),
    ("Donau&shy;dampf&#x200B;schiff", "Donaudampfschiff"),
    ("&lt;b&gt; &#8222;ja&#8220;", "<b> „ja“"),
    ("R&D, Q&Amp und &nothing &unknown; & ; &#; &", "R&D, Q&Amp und &nothing &unknown; & ; &#; &"),
])
def test_cleaning(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


def test_cleaning_what_is_clean_changes_nothing() -> None:
    text = "„Käse“, sagte sie – 3 € für 100 g … 👩‍🔬"
    assert clean(text) == text


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_bad_byte_is_told_with_file_and_line(tmp_path: Path, suffix: str) -> None:
    data = "eins\nzw\u2028ei\ndr".encode() + b"\xfci\nvier\n"
    path = tmp_path / f"text{suffix}"
    path.write_bytes(gzip.compress(data) if suffix else data)
    with pytest.raises(UserError, match=r"text.*: line 3: byte 0xfc is not UTF-8"):
        read_lines(path)


def test_a_missing_file_a_folder_and_a_damaged_gzip_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: cannot read it: No such file"):
        read_lines(tmp_path / "absent")
    with pytest.raises(UserError, match="cannot read it: Is a directory"):
        read_lines(tmp_path)
    whole = gzip.compress(b"eins\nzwei\n" * 1000)
    for number, data in enumerate([whole[:-20], b"no gzip", whole[:20] + b"\0" * 9 + whole[29:]]):
        path = tmp_path / f"{number}.gz"
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"\d\.gz: damaged gzip file"):
            read_lines(path)


def test_files_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    program = ("import sys; from pathlib import Path; from translate.data.lines import *;"
               "write_lines(Path(sys.argv[1]), ['Gr\\u00fc\\u00dfe \\u20ac']); "
               "assert read_lines(Path(sys.argv[1])) == ['Gr\\u00fc\\u00dfe \\u20ac']")
    subprocess.run([sys.executable, "-X", "utf8=0", "-c", program, tmp_path / "text"], check=True,
                   env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"},
                   cwd=Path(__file__).parents[2])
    assert (tmp_path / "text").read_bytes() == "Grüße €\n".encode()


def test_what_is_written_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    lines = ["eins", "", "zw\u2028ei\r", " drei "]
    write_lines(tmp_path / "text", lines)
    assert read_lines(tmp_path / "text") == lines
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_a_failed_write_leaves_the_former_file(tmp_path: Path) -> None:
    def failing():
        yield "new"
        raise RuntimeError("crash")

    write_lines(tmp_path / "text", ["old"])
    with pytest.raises(RuntimeError):
        write_lines(tmp_path / "text", failing())
    assert read_lines(tmp_path / "text") == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_only_training_loses_pairs_that_are_empty_on_a_side() -> None:
    german, english = ["a", " \u00ad", "c", ""], ["A", "B", "\u00a0", ""]
    train = clean_split("train", "x", german, english)
    assert (train.german, train.english, train.dropped) == (["a"], ["A"], {"empty on a side": 3})
    test = clean_split("test", "x", german, english)
    assert (test.german, test.english) == (["a", "", "c", ""], ["A", "B", "", ""])
    assert not test.dropped


def sides(pairs: int) -> tuple[list[str], list[str]]:
    """Made-up pairs whose lengths correspond as German and English ones do."""
    numbers = random.Random(0)
    lengths = [numbers.randint(5, 95) for _ in range(pairs)]
    return ["ä" * round(n * numbers.uniform(0.9, 1.4)) for n in lengths], ["e" * n for n in lengths]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("place", [0, 1, 57, 500, 998])
@pytest.mark.parametrize("change", ["missing", "extra", "three extra"])
def test_unequal_line_counts_are_told_with_the_place_where_the_sides_come_apart(
        side: int, place: int, change: str) -> None:
    both = sides(1000)
    if change == "missing":
        del both[side][place]
    else:
        both[side][place:place] = ["x" * 40] * (1 if change == "extra" else 3)
    with pytest.raises(UserError) as raised:
        check_aligned(*both, "a.de, a.en")
    message = str(raised.value)
    assert f"a.de, a.en: {len(both[0])} German lines but {len(both[1])} English lines" in message
    assert abs(int(message.rpartition(" ")[2]) - (place + 1)) <= 2


def test_a_file_that_merely_ends_early_comes_apart_at_its_end() -> None:
    german, english = sides(1000)
    with pytest.raises(UserError, match=r"1000 German lines but 700 English lines.* line 701$"):
        check_aligned(german, english[:700], "x")
    with pytest.raises(UserError, match=r"1000 German lines but 0 English lines.* line 1$"):
        check_aligned(german, [], "x")


@pytest.mark.parametrize("name", ["a.de", "a.de.gz"])
def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(
        tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1000)
    for length, taken in ((1000, True), (1001, False)):
        text = b"kurz\n" + b"x" * length
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        if taken:
            assert read_lines(tmp_path / name) == ["kurz", "x" * length]
        else:
            with pytest.raises(UserError, match=rf"{name}: line 2 is longer than 1,000 bytes"):
                read_lines(tmp_path / name)
