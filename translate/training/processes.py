"""The processes that train one model together, one a device, as `torchrun` starts them.

Started without it, there is one, and nothing here costs anything.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from translate.errors import UserError

T = TypeVar("T")

# As long as the others may wait while the first one prepares a corpus or validates.
_PATIENCE = timedelta(hours=6)


@dataclass(frozen=True)
class Processes:
    """This process among `number` of them; the first, 0, is the one that writes."""

    index: int = 0
    number: int = 1

    @property
    def first(self) -> bool:
        return self.index == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Of the tensors of all processes, in place; the device does not wait for it."""
        if self.number > 1:
            dist.all_reduce(tensor)
        return tensor

    def any(self, *flags: bool) -> list[bool]:
        """Which of the flags are up in some process; all get the same answer."""
        if self.number == 1:
            return list(flags)
        up = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(up, dist.ReduceOp.MAX)
        return up.bool().tolist()

    def gather(self, value: T) -> list[T]:
        """The values of all, in the first process; an empty list in the others."""
        if self.number == 1:
            return [value]
        values: list[Any] = [None] * self.number
        dist.gather_object(value, values if self.first else None)
        return values if self.first else []

    def from_first(self, value: T) -> T:
        """What the first process has; the others wait for it."""
        if self.number == 1:
            return value
        values: list[Any] = [value]
        dist.broadcast_object_list(values)
        return values[0]

    @contextmanager
    def first_goes_ahead(self) -> Iterator[None]:
        """The first process does what is within, then the others do it."""
        if self.number > 1 and not self.first:
            dist.barrier()
        yield
        if self.number > 1 and self.first:
            dist.barrier()


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """The processes of this job, from the variables that `torchrun` sets.

    Small messages and a CPU's gradients go over gloo, a GPU's gradients over NCCL.
    """
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(device)
    number = int(os.environ.get("WORLD_SIZE", "1"))
    if number == 1:
        yield Processes()
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=_PATIENCE)
    try:
        yield Processes(dist.get_rank(), number)
    except RuntimeError as error:
        if not _is_lost_connection(error):
            raise
        raise UserError("another process of this job has ended before its time (its message is "
                        "above or in its log); the same command goes on from the last state that "
                        "was saved") from None
    finally:
        dist.destroy_process_group()


def _is_lost_connection(error: Exception) -> bool:
    return any(sign in str(error) for sign in (
        "Connection closed by peer", "Connection reset", "Broken pipe", "timed out",  # gloo's
        "remote process exited", "communicator was aborted"))  # NCCL's
