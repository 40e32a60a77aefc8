"""What decoding step by step keeps, so that no token is read twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Int, Shaped
from torch import Tensor

from translate.data.batching import stack
from translate.model.attention import KeyValues


@dataclass
class LayerCache:
    """Keys and values of one decoder layer: of the memory, and of the target tokens so far.

    The buffers of the target hold more than is filled, so that a step copies nothing but its own.
    """

    memory: KeyValues
    target: KeyValues
    fed: list[int] = field(default_factory=list)  # target tokens of each step
    begin: int = 0  # of what is filled in the buffers

    @classmethod
    def empty(cls, memory: KeyValues) -> "LayerCache":
        return cls(memory, KeyValues(*(x[:, :, :0] for x in memory)))

    @property
    def end(self) -> int:
        return self.begin + sum(self.fed)

    def filled(self) -> KeyValues:
        return KeyValues(*(x[:, :, self.begin:self.end] for x in self.target))

    def extend(self, new: KeyValues) -> KeyValues:
        """All keys and values so far, the new ones last."""
        start, tokens = self.end, new.k.size(2)
        if start + tokens > self.target.k.size(2):
            self._fill([self.filled()], tokens)
            start = self.end
        self.fed.append(tokens)
        for buffer, x in zip(self.target, new, strict=True):
            buffer[:, :, start:self.end] = x
        return self.filled()

    def select(
        self, rows: Shaped[Tensor, " rows"], moved: Int[Tensor, " moved"] | None = None
    ) -> None:
        """Keep these rows (indices or a mask) of the batch.

        If `moved` names those of the new rows that were others before, the rest is not copied.
        """
        def keep(x: Tensor, filled: slice) -> Tensor:
            if moved is None:
                return x[rows]
            x[moved, :, filled] = x[rows[moved], :, filled]
            return x[:len(rows)]

        self.memory = KeyValues(*(keep(x, slice(None)) for x in self.memory))
        self.target = KeyValues(*(keep(x, slice(self.begin, self.end)) for x in self.target))

    def forget(self, steps: int) -> None:
        """Leave out the first steps."""
        self.begin += sum(self.fed[:steps])
        del self.fed[:steps]

    def join(self, other: "LayerCache", source: int) -> None:
        """Put the rows of `other` below these, the newest steps of both in the same place.

        What one has and the other has not is zero there: no query may attend to it. Of the memory,
        `source` places are kept.
        """
        self.memory = KeyValues(*(stack(x[:, :, :source], y[:, :, :source], dim=2)
                                  for x, y in zip(self.memory, other.memory, strict=True)))
        self._fill([self.filled(), other.filled()])
        self.fed = max(self.fed, other.fed, key=len)

    def _fill(self, parts: Sequence[KeyValues], more: int = 0) -> None:
        """New buffers, with room for more, of the rows of each part, aligned at their ends."""
        size = max(part.k.size(2) for part in parts)
        _, heads, _, d_k = parts[0].k.shape
        shape = (sum(len(part.k) for part in parts), heads, 2 * (size + more) + 16, d_k)
        self.begin = 0
        self.target = KeyValues(*(x.new_empty(shape) for x in parts[0]))
        first = 0
        for part in parts:
            rows, empty = slice(first, first + len(part.k)), size - part.k.size(2)
            first = rows.stop
            for buffer, x in zip(self.target, part, strict=True):
                buffer[rows, :, :empty] = 0
                buffer[rows, :, empty:size] = x
