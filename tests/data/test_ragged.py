"""Sequences end to end: what is appended is read back, mapped and not loaded."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from translate.data.ragged import Ragged, RaggedWriter, map_ragged, offsets


def ragged(*rows: list[int]) -> Ragged:
    return Ragged(np.array([i for row in rows for i in row], np.int32),
                  offsets(np.array([len(row) for row in rows], np.int64)))


def as_lists(sequences: Ragged) -> list[list[int]]:
    return [sequences[i].tolist() for i in range(len(sequences))]


ROWS = [[5, 6], [], [7], [8, 9, 10], []]


@pytest.mark.parametrize("cuts", [[], [5], [1, 3], [0, 0, 2, 5], range(6)], ids=str)
def test_appended_parts_come_back_as_one(tmp_path: Path, cuts: list[int]) -> None:
    with RaggedWriter(tmp_path / "a.b") as writer:
        for start, end in zip([0, *cuts], [*cuts, len(ROWS)], strict=True):
            writer.append(ragged(*ROWS[start:end]))
        assert len(writer) == len(ROWS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b.ids.npy", "a.b.offsets.npy"]
    sequences = map_ragged(tmp_path / "a.b")
    assert as_lists(sequences) == ROWS
    assert (sequences.ids.dtype, sequences.offsets.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("rows", [[], [[]], [[], []]], ids=str)
def test_nothing_is_written_and_read_too(tmp_path: Path, rows: list[list[int]]) -> None:
    with RaggedWriter(tmp_path / "x") as writer:
        writer.append(ragged(*rows))
    assert as_lists(map_ragged(tmp_path / "x")) == rows


def test_ids_and_offsets_stay_in_their_files(tmp_path: Path) -> None:
    with RaggedWriter(tmp_path / "x") as writer:
        writer.append(ragged(*ROWS))
    for array in (map_ragged(tmp_path / "x").ids, map_ragged(tmp_path / "x").offsets):
        assert isinstance(array.base, mmap.mmap | np.memmap)
        assert not array.flags.writeable


def test_the_files_are_numpys_own(tmp_path: Path) -> None:
    with RaggedWriter(tmp_path / "x") as writer:
        for _ in range(1000):  # more digits in the header than it had at first
            writer.append(ragged(*ROWS))
    np.save(tmp_path / "y.npy", np.tile(np.array([5, 6, 7, 8, 9, 10], np.int32), 1000))
    assert (tmp_path / "x.ids.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()


def test_rows_can_be_chosen_and_measured() -> None:
    sequences = ragged(*ROWS)
    assert sequences.lengths.tolist() == [2, 0, 1, 3, 0]
    assert sequences.lengths_of(np.array([3, 0, 3, 1])).tolist() == [3, 2, 3, 0]
    assert as_lists(sequences.part(1, 4)) == ROWS[1:4]
    assert as_lists(sequences.part(3, 99)) == ROWS[3:]
    keep = np.array([True, True, False, True, False])
    assert as_lists(sequences.select(keep)) == [[5, 6], [], [8, 9, 10]]


def test_every_id_becomes_the_sequence_that_it_is_the_number_of() -> None:
    expanded = ragged(*ROWS).expand(ragged([0, 3], [], [1, 4], [2, 2, 0]))
    assert as_lists(expanded) == [[5, 6, 8, 9, 10], [], [], [7, 7, 5, 6]]
