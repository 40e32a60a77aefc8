"""Slipped lines are found by their lengths alone, and realigned without losing a word."""

import math
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from translate.data import alignment
from translate.data.alignment import Bead, align, checked
from translate.data.lines import Split

Lines = list[str]


def sides(pairs: int, seed: int = 0) -> tuple[Lines, Lines]:
    """Lines of words of their own, as long as German and English sentences are."""
    rng = random.Random(seed)
    german, english = [], []
    for n in range(pairs):
        length = max(3.0, rng.lognormvariate(4.2, 0.7))
        for side, letter, size in ((german, "d", length),
                                   (english, "e", 0.9 * length + rng.gauss(0, 1.1 * length**0.5))):
            words = [f"{letter}{n}"]
            while len(" ".join(words)) < size:
                words.append(f"{letter}{n}" + "x" * rng.randrange(6))
            side.append(" ".join(words))
    return german, english


def cut(side: Lines, first: int, last: int, parts: int = 2) -> Lines:
    """Line `first` in so many parts, and as many lines joined so that `last` is the last one off;
    both counted from 1."""
    words = side[first - 1].split()
    ends = [round(len(words) * part / parts) for part in range(parts + 1)]
    pieces = [" ".join(words[a:b]) for a, b in pairwise(ends)]
    joined = " ".join(side[last - parts:last])
    return [*side[:first - 1], *pieces, *side[first:last - parts], joined, *side[last:]]


def split(german: Lines, english: Lines) -> Split:
    assert len(german) == len(english)
    return Split("test", "test.de, test.en", german, english)


def words(lines: Lines) -> list[str]:
    return " ".join(lines).split()


# --- What is told -------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(10))
def test_a_good_set_is_left_as_it_is(seed: int) -> None:
    good = split(*sides(600, seed))
    assert checked(good, repair=False) == checked(good, repair=True) == good


@pytest.mark.parametrize("seed", range(5))
def test_free_translations_and_empty_lines_are_no_shift(seed: int) -> None:
    german, english = sides(600, seed)
    rng = random.Random(seed)
    for n in rng.sample(range(600), 60):
        german[n] = rng.choice(["", german[n] * 2, rng.choice(german)])
    free = split(german, english)
    assert checked(free, repair=False) == checked(free, repair=True) == free


@pytest.mark.filterwarnings("error")  # nothing is divided by 0
@pytest.mark.parametrize("lines", [[], [""], ["eins"], ["", "", ""], ["eins", ""], ["x"] * 40])
def test_sets_with_little_in_them_are_left_as_they_are(lines: Lines) -> None:
    few = split(lines, lines[::-1])
    assert checked(few, repair=True) == few


@pytest.mark.parametrize("by", [1, 2, 3])
@pytest.mark.parametrize(("first", "last"), [(300, 371), (17, 41), (1, 30), (560, 600), (1, 600)])
def test_a_run_of_shifted_lines_is_told_with_its_ends_and_direction(
        first: int, last: int, by: int) -> None:
    german, english = sides(600)
    for slipped, sign in ((split(cut(german, first, last, by + 1), english), "-"),
                          (split(german, cut(english, first, last, by + 1)), "+")):
        found = checked(slipped, repair=False)
        assert found.notes == [
            f"test.de, test.en: lines {first}-{last} ({last - first + 1} pairs) look shifted: "
            f"German line n belongs to English line n{sign}{by}; scores on them mean nothing "
            "until --repair (data.repair=true) realigns them"]
        assert (found.name, found.german, found.english, found.dropped) == (
            "test", slipped.german, slipped.english, {})


def test_each_run_is_told_for_itself() -> None:
    german, english = sides(600)
    slipped = split(cut(cut(german, 100, 150), 400, 430), cut(english, 200, 220))
    assert [note.split(": ")[1] for note in checked(slipped, repair=False).notes] == [
        f"lines {lines} pairs) look shifted" for lines in ("100-150 (51", "200-220 (21",
                                                           "400-430 (31")]
    repaired = checked(slipped, repair=True)
    assert len(repaired.notes) == repaired.dropped["joined to a neighbour"] == 3


# --- What is repaired ---------------------------------------------------------------------------

def test_a_repaired_set_has_its_pairs_back_and_says_so() -> None:
    german, english = sides(600)
    found = checked(split(cut(german, 300, 371), english), repair=True)
    assert found.name == "test-repaired"
    assert found.german == [*german[:369], " ".join(german[369:371]), *german[371:]]
    assert found.english == [*english[:369], " ".join(english[369:371]), *english[371:]]
    assert found.dropped == {"joined to a neighbour": 1}
    assert found.notes == ["test.de, test.en: realigned lines 300-371, 72 pairs to 71 (German = "
                           "English): 300+301 = 300, 302-370 = 301-369, 371 = 370+371"]


def test_former_notes_and_counts_of_a_set_are_kept() -> None:
    german, english = sides(100)
    before = Split("test", "test", cut(german, 30, 60), english, {"why": 2}, ["a note"])
    told, repaired = (checked(before, repair) for repair in (False, True))
    assert told.notes[0] == repaired.notes[0] == "a note"
    assert repaired.dropped == {"why": 2, "joined to a neighbour": 1}


@pytest.mark.parametrize("seed", range(4))
def test_a_line_whose_partner_is_missing_is_joined_and_no_word_is_lost(seed: int) -> None:
    german, english = sides(600, seed)
    slipped = [*german[:199], *german[200:260], "a line of nowhere", *german[260:]]
    found = checked(split(slipped, english), repair=True)
    assert words(found.german) == words(slipped) and words(found.english) == words(english)
    pairs = set(zip(german, english, strict=True))
    right = [pair in pairs for pair in zip(found.german, found.english, strict=True)]
    assert right.count(False) <= 10 and len(right) in range(595, 600)


def test_an_empty_line_adds_no_blank_to_what_it_is_joined_to() -> None:
    german, english = sides(200)
    found = checked(split([*german[:99], "", *german[99:149], *german[150:]], english), repair=True)
    assert found.name == "test-repaired"
    assert all(line == line.strip() for line in found.german)


# --- The model ----------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(20))
def test_no_other_way_to_cut_the_sides_is_likelier(
        seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "SLIP", 0.5)  # so that many ways are worth considering
    rng = random.Random(seed)
    german, english = (["x" * rng.randrange(60) for _ in range(7)] for _ in range(2))
    x, y = ([len(line) + 1 for line in side] for side in (german, english))
    c = sum(y) / sum(x)
    errors = sorted(abs(b - c * a) / math.sqrt(a) for a, b in zip(x, y, strict=True))
    s = max(1.0, 1.4826 * errors[3])

    def cost(beads: list[Bead]) -> float:
        total = 0.0
        for bead in beads:
            a, b = sum(x[i] for i in bead.german), sum(y[j] for j in bead.english)
            fit = math.exp(-(((b - c * a) / s) ** 2) / a / 2)
            total += 0.5 * (len(bead.german) != len(bead.english)) - math.log(0.99 * fit + 0.01)
        return total

    def ways(i: int = 0, j: int = 0) -> Iterator[list[Bead]]:
        if (i, j) == (7, 7):
            yield []
        for a, b in alignment.MOVES:
            if max(i + a, j + b) <= 7 and abs(i + a - j - b) <= 3:
                yield from ([Bead(range(i, i + a), range(j, j + b)), *rest]
                            for rest in ways(i + a, j + b))

    assert cost(align(german, english)) == pytest.approx(min(map(cost, ways())))
