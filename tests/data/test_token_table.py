"""Text files to tokens: in chunks, in processes, and never far ahead of what is asked for."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from translate.data import token_table
from translate.data.text import Tokenizer
from translate.data.token_table import Splitting, TokenTable, tokenise

GERMAN = ["Der Hund sieht die Katze.", "Ein Hund bellt, z.B. laut!", "", "Ja.", "Straßenbahn"]
LINES = [f"{line} {n % 7}" for n in range(9) for line in GERMAN]


def sentences(table: TokenTable) -> list[list[str]]:
    return [[table.tokens[i] for i in rows[n]] for rows in table.chunks() for n in range(len(rows))]


def tables(tmp_path: Path, splitting: Splitting) -> Iterator[TokenTable]:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return (tokenise(tmp_path / "text", splitting, tmp_path / f"{n}") for n in count())


@pytest.mark.parametrize(("words", "lowercase"), [(True, False), (False, True)])
def test_a_table_gives_back_what_the_tokenizer_gives(
        words: bool, lowercase: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    whole = tables(tmp_path, Splitting("de", lowercase, words))
    expected = [Tokenizer("de", lowercase).split(line) for line in LINES]
    for chunk in (len(LINES), 10):
        monkeypatch.setattr(token_table, "CHUNK", chunk)
        table = next(whole)
        assert sentences(table) == expected
        assert {len(rows) for rows in table.chunks()} <= {chunk, len(LINES) % chunk}
        tokens = [token for tokens in expected for token in tokens]
        assert table.tokens == list(dict.fromkeys(tokens))
        assert table.counts() == Counter(tokens)


def test_tokenising_in_processes_gives_the_same_table(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_table, "CHUNK", 10)
    made = tables(tmp_path, Splitting("de", lowercase=True, words=False))
    results = []
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cores: set(range(n)),
                            raising=False)
        table = next(made)
        results.append((table.tokens, sentences(table)))
    assert results[0] == results[1]


def test_its_processes_end_when_it_is_killed() -> None:
    program = """
from itertools import repeat
from translate.data.token_table import Splitting, _in_processes

if __name__ == "__main__":
    for _ in _in_processes(repeat(["Ein Satz."]), Splitting("de", False, False), 2):
        print("under way", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == "under way\n"
    process.kill()
    process.communicate(timeout=60)  # until nobody is left who could write


def test_an_empty_text_is_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    table = tokenise(tmp_path / "text", Splitting("de", False, False), tmp_path / "table")
    assert (table.tokens, table.counts(), sentences(table)) == ([], {}, [])


@pytest.mark.parametrize("cores", [1, 2])
def test_no_more_of_the_text_is_read_than_there_is_work_for(
        cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_table, "CHUNK", 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(token_table, "ProcessPoolExecutor",  # threads start sooner
                        lambda processes, *_: ThreadPoolExecutor(processes))
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for _ in range(1000):
            read += 1
            yield "Ja."

    for n, (_, rows) in enumerate(token_table._tables(lines(), Splitting("de", False, False))):
        assert len(rows) == 10
        assert read - 10 * n <= 10 * (2 * cores + 4)
    assert read == 1000
