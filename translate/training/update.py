"""One update of the weights: the gradient of the mean loss over all tokens of its batches."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from translate.config import Config
from translate.data.batching import Batch, masked
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.training.loss import LabelSmoothingLoss, Loss, batch_loss
from translate.training.precision import autocast, pick_dtype
from translate.training.processes import Processes
from translate.training.schedule import noam


class Measured(NamedTuple):
    """What an update leaves on the device, to be read when there is time to wait for it."""

    loss: Float[Tensor, "2"]  # smoothed and nll, sums over the tokens of all processes
    norm: Float[Tensor, ""]  # of the gradient, before clipping
    finite: Bool[Tensor, ""]  # if not, the weights were left as they were


class Updater:
    """Adam with the Noam schedule on the gradient of a model, in one process or several."""

    def __init__(
        self, config: Config, model: Transformer, criterion: LabelSmoothingLoss,
        device: torch.device, processes: Processes,
    ) -> None:
        self.model = model
        self.device = device
        self.dtype = pick_dtype(config.training.precision, device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.0,
                                          betas=config.training.adam_betas,
                                          eps=config.training.adam_epsilon, fused=True)
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype is torch.float16)
        self.splits = 0  # times that an update was done in smaller batches, for want of memory
        self._config = config
        self._processes = processes
        if config.training.gradient_checkpointing:
            recompute_layers(model)
        self._loss: nn.Module = BatchLoss(model, criterion)
        if config.training.compile:
            self._loss.compile(dynamic=True)
        if processes.number > 1:
            self._loss = DistributedDataParallel(self._loss)

    def __call__(self, number: int, batches: Sequence[Batch], tokens: int) -> Measured:
        """Update `number`, 1 being the first, on the batches of this process.

        `tokens` counts the target tokens of all processes. A loss or gradient that is not finite
        leaves weights and moments as they are. Nothing here waits for the device.
        """
        while True:
            try:
                loss = self._backward(batches, tokens)
                break
            except torch.OutOfMemoryError:
                if self._processes.number > 1 or all(len(batch.src) == 1 for batch in batches):
                    raise UserError(
                        "the device has not enough memory for a batch of "
                        f"{max(batch.src.numel() + batch.tgt_in.numel() for batch in batches):,} "
                        "tokens: lower training.batch_tokens (and raise training.accumulate), or "
                        "set training.gradient_checkpointing=true") from None
            # Here, where the exception no longer holds what was computed.
            self.splits += 1
            torch.cuda.empty_cache()
            batches = [half for batch in batches for half in halves(batch)]
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(),
                                        self._config.training.clip_norm or math.inf)
        finite = norm.isfinite() & loss.isfinite().all()
        rate = noam(number, self._config.model.d_model, self._config.training.warmup,
                    self._config.training.factor)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # What GradScaler.step would set from the gradient alone: the kernel of the fused Adam
        # then does nothing, and the device decides it without being waited for.
        self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        self.scaler.update()
        return Measured(loss, norm, finite)

    def _backward(self, batches: Sequence[Batch], tokens: int) -> Tensor:
        """Leaves the gradient, of all processes together; returns the sums of the losses."""
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(2, device=self.device)
        for n, batch in enumerate(batches, start=1):
            with self._alone(n < len(batches)):
                with autocast(self.device, self.dtype):
                    loss = self._loss(batch.to(self.device))
                # DDP takes the mean over the processes, where a sum is meant.
                mean = loss.smoothed / tokens * self._processes.number
                self.scaler.scale(mean).backward()
            total += torch.stack([loss.smoothed.detach(), loss.nll])
        return self._processes.sum(total)

    def _alone(self, more: bool) -> AbstractContextManager[object]:
        """While more batches are to come, a process keeps its gradients to itself."""
        if more and isinstance(self._loss, DistributedDataParallel):
            return self._loss.no_sync()
        return nullcontext()


class BatchLoss(nn.Module):
    """`batch_loss` as one module, which is what DDP and the compiler work on."""

    def __init__(self, model: Transformer, criterion: LabelSmoothingLoss) -> None:
        super().__init__()
        self.model = model
        self.criterion = criterion

    def forward(self, batch: Batch) -> Loss:
        return batch_loss(self.model, self.criterion, batch)


def recompute_layers(model: Transformer) -> None:
    """Keep no more of a layer than its input, and compute the rest again when its gradient is due
    (Chen et al. 2016)."""
    for layer in (*model.encoder, *model.decoder):
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


def halves(batch: Batch) -> list[Batch]:
    """The same pairs in two batches; one of a single pair as it is."""
    middle = len(batch.src) // 2
    if middle == 0:
        return [batch]
    return [masked(batch.src[rows], batch.tgt_in[rows], batch.tgt_out[rows])
            for rows in (slice(middle), slice(middle, None))]
