"""What decoding step by step keeps, so that no token is read twice."""

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
            self._move_to_larger(start - self.begin + tokens)
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
        self.target = KeyValues(*(stack(x, y, dim=2, behind=False)
                                  for x, y in zip(self.filled(), other.filled(), strict=True)))
        self.begin = 0
        self.fed = max(self.fed, other.fed, key=len)

    def _move_to_larger(self, tokens: int) -> None:
        """Buffers with room for twice these tokens."""
        filled, self.begin = self.filled(), 0
        self.target = KeyValues(*(x.new_empty(*x.shape[:2], 2 * tokens + 16, x.size(3))
                                  for x in filled))
        for buffer, x in zip(self.target, filled, strict=True):
            buffer[:, :, :x.size(2)] = x
