"""What decoding step by step keeps, so that no token is read twice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.data.batching import stack
from translate.model.attention import KeyValues


class LayerCache(NamedTuple):
    """What a decoder layer needs in a step."""

    memory: KeyValues
    target: KeyValues  # of all tokens so far, with room for the newest
    newest: Float[Tensor, "two batch heads tokens d_k"]  # the end of `target`

    def with_newest(self, own: KeyValues) -> KeyValues:
        """Those of all tokens so far, with these for the newest."""
        torch.stack(own, out=self.newest)
        return self.target


@dataclass
class Cache:
    """Keys and values of every decoder layer: of the memory, and of the target tokens so far.

    The buffer of the target holds more than is filled, so that a step copies nothing but its own.
    """

    memory: Float[Tensor, "layers two batch heads source d_k"]
    target: Float[Tensor, "layers two batch heads room d_k"]
    fed: list[int] = field(default_factory=list)  # target tokens of each step
    begin: int = 0  # of what is filled in the buffer

    @classmethod
    def empty(cls, memory: Iterable[KeyValues]) -> "Cache":
        """With the keys and values of the memory in each layer."""
        of_layers = torch.stack([torch.stack(keys_values) for keys_values in memory])
        return cls(of_layers, of_layers[..., :0, :])

    def filled(self) -> Float[Tensor, "layers two batch heads past d_k"]:
        return self.target.narrow(4, self.begin, sum(self.fed))

    def extend(self, tokens: int) -> Iterator[LayerCache]:
        """Room in each layer for so many new tokens."""
        past = self.filled()
        before, after = past.size(4), past.size(4) + tokens
        if self.begin + after > self.target.size(4):
            self.target = past.new_empty(*past.shape[:4], 2 * after + 16, past.size(5))
            self.target[..., :before, :] = past
            self.begin = 0
        self.fed.append(tokens)
        target = self.filled()
        for memory, so_far, newest in zip(
                self.memory, target, target[..., before:, :], strict=True):
            yield LayerCache(KeyValues(*memory), KeyValues(*so_far), newest)

    def select(self, rows: Int[Tensor, " rows"], moved: Int[Tensor, " moved"]) -> None:
        """Keep these rows of the batch; `moved` are those of the new ones that were others before.

        The rest is not copied.
        """
        for x in (self.memory, self.filled()):
            x[:, :, moved] = x[:, :, rows[moved]]
        self.memory, self.target = (x[:, :, :len(rows)] for x in (self.memory, self.target))

    def forget(self, steps: int) -> None:
        """Leave out the first steps."""
        self.begin += sum(self.fed[:steps])
        del self.fed[:steps]

    def join(self, other: "Cache", source: int) -> None:
        """Put the rows of `other` below these, the newest steps of both in the same place.

        What one has and the other has not is zero there: no query may attend to it. Of the memory,
        `source` places are kept.
        """
        self.memory = stack(self.memory[..., :source, :], other.memory[..., :source, :], 4, rows=2)
        self.target = stack(self.filled(), other.filled(), 4, behind=False, rows=2)
        self.begin = 0
        self.fed = max(self.fed, other.fed, key=len)
