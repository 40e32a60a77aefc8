"""Sequences of ids end to end: in memory, or in files that are mapped into it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[i]:self.offsets[i + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def lengths_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.offsets[rows + 1] - self.offsets[rows]

    def part(self, start: int, end: int) -> "Ragged":
        own = self.offsets[start:end + 1]
        return Ragged(self.ids[own[0]:own[-1]], own - own[0])

    def select(self, keep: NDArray[np.bool_]) -> "Ragged":
        lengths = self.lengths
        return Ragged(self.ids[np.repeat(keep, lengths)], offsets(lengths[keep]))

    def expand(self, rows: "Ragged") -> "Ragged":
        """`rows`, with each of their ids i replaced by sequence i of this one."""
        repeats = self.lengths[rows.ids]
        ends = offsets(repeats)
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], repeats)
        ids = self.ids[np.repeat(self.offsets[rows.ids], repeats) + within]
        return Ragged(ids, ends[rows.offsets])


class Pairs(NamedTuple):
    source: Ragged
    target: Ragged

    def __len__(self) -> int:
        return len(self.source)


def offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def map_ragged(stem: Path) -> Ragged:
    """What a RaggedWriter has written, paged in by the system as it is used."""
    # As plain arrays: a slice of NumPy's memmap class takes many times as long.
    return Ragged(*(np.asarray(np.load(f"{stem}.{part}.npy", mmap_mode="r"))
                    for part in ("ids", "offsets")))


class RaggedWriter:
    """Appends sequences to the files `<stem>.ids.npy` and `<stem>.offsets.npy`."""

    def __init__(self, stem: Path) -> None:
        self._ids = _GrowingFile(Path(f"{stem}.ids.npy"), np.int32)
        self._offsets = _GrowingFile(Path(f"{stem}.offsets.npy"), np.int64)
        self._offsets.append(np.zeros(1, np.int64))

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()
        self._offsets.close()

    def __len__(self) -> int:
        return self._offsets.size - 1

    def append(self, sequences: Ragged) -> None:
        self._offsets.append(sequences.offsets[1:] + self._ids.size)
        self._ids.append(sequences.ids)


class _GrowingFile:
    """A one-dimensional .npy file whose length is not known before its end."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.size = 0
        self._dtype = np.dtype(dtype)
        self._file = open(path, "wb")  # noqa: SIM115
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(values.astype(self._dtype, copy=False).tobytes())
        self.size += len(values)

    def close(self) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()

    def _write_header(self) -> None:
        # NumPy pads headers so that their length is the same for every size.
        np.lib.format.write_array_header_1_0(self._file, {
            "descr": self._dtype.str, "fortran_order": False, "shape": (self.size,)})
