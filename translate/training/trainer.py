"""The training loop: updates, validation, early stopping, checkpoints."""

import math
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translate.allocator import keep_freed_memory
from translate.config import Config
from translate.data.batching import Batch, TokenBatchSampler, make_batch
from translate.data.encoding import EncodedCorpus
from translate.data.lines import write_lines
from translate.data.vocabulary import PAD
from translate.errors import UserError
from translate.runs import Run, build_model, pick_device
from translate.training.checkpoint import (
    Progress,
    average_recent,
    load_last,
    save_best,
    save_last,
    save_recent,
)
from translate.training.loss import LabelSmoothingLoss, Loss, batch_loss
from translate.training.monitor import Meter, Monitor, duration
from translate.training.precision import autocast, pick_dtype
from translate.training.schedule import noam
from translate.training.validation import ParallelText, Validation, perplexity, validate

_TIMED = 20  # updates before the end is predicted
_LONG = 6 * 3600  # seconds of training on a CPU after which another config is recommended


class Trainer:
    """One run, from its first update or its last checkpoint to its end."""

    def __init__(
        self, config: Config, corpus: EncodedCorpus, text: ParallelText, run: Run
    ) -> None:
        self.config = config
        self.device = pick_device(config.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self._run = run
        self._corpus = corpus
        self._text = text
        check_positions(config, corpus)
        torch.manual_seed(config.seed)
        source_size, target_size = len(corpus.source.vocabulary), len(corpus.target.vocabulary)
        self.model = build_model(config, source_size, target_size).to(self.device)
        self._criterion = LabelSmoothingLoss(target_size, PAD, config.training.label_smoothing)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0,
                                          betas=config.training.adam_betas,
                                          eps=config.training.adam_epsilon, fused=True)
        self._dtype = pick_dtype(config.training.precision, self.device)
        self._scaler = torch.amp.GradScaler(self.device.type,
                                            enabled=self._dtype is torch.float16)
        self._sampler = TokenBatchSampler(corpus.train, config.training.batch_tokens, config.seed)
        self.progress = load_last(run, self.model, self.optimizer, self._scaler) or Progress()
        self._updates_per_epoch = len(self._plan(self.progress.epoch))
        self.monitor = Monitor(run, config, self.progress.update)
        self._meter = Meter()
        self._said_end = False
        self._losses: list[Loss] = []  # of the batches since the last point, on the device

    def run(self) -> None:
        """Train to the end. What an interruption leaves is the state of the last validation."""
        self.monitor.say(self._introduction())
        try:
            while not self._finished():
                self._epoch()
        finally:
            self.monitor.end_epoch()
        self._try_average()

    def update(self, batches: Sequence[Batch]) -> Tensor:
        """One step of the optimiser on the mean loss over all tokens of the batches.

        Returns the norm of the gradient before clipping.
        """
        training = self.config.training
        self.progress.update += 1
        rate = noam(self.progress.update, self.config.model.d_model, training.warmup,
                    training.factor)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        tokens = sum(batch.tokens for batch in batches)
        for batch in batches:
            with autocast(self.device, self._dtype):
                loss = batch_loss(self.model, self._criterion, batch.to(self.device))
            self._scaler.scale(loss.smoothed / tokens).backward()
            self._losses.append(Loss(loss.smoothed.detach(), loss.nll))
            self._meter.add(batch)
        self._scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(),
                                              training.clip_norm or math.inf)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return norm

    def _epoch(self) -> None:
        """What is left of the epoch under way."""
        progress, training = self.progress, self.config.training
        plan = self._plan(progress.epoch)
        self.monitor.start_epoch(progress.epoch, len(plan), progress.position)
        self.model.train()
        self._meter.reset()
        first, started = progress.position, time.monotonic()
        for done, rows in enumerate(plan[progress.position:], start=progress.position + 1):
            norm = self.update([make_batch(self._corpus.train, r) for r in rows])
            progress.position = done
            self.monitor.tick()
            if done - first == _TIMED and not self._said_end:
                self._say_expected_end((time.monotonic() - started) / _TIMED)
            if done == len(plan):
                progress.epoch, progress.position = progress.epoch + 1, 0
            due = done == len(plan) or progress.update == training.max_updates or (
                training.validate_every and progress.update % training.validate_every == 0)
            if progress.update % training.log_every == 0 or due:
                self._log(norm)
            if due:
                self._validate()
                if self._finished():
                    break
        self.monitor.end_epoch()

    def _log(self, norm: Tensor) -> None:
        """A point of the curves, from what was computed since the last one."""
        progress, meter = self.progress, self._meter
        self._stop_if_not_finite()
        seconds = meter.seconds
        progress.seconds += seconds
        smoothed, nll = (sum(float(loss[n]) for loss in self._losses) for n in range(2))
        progress.loss_sum += smoothed
        progress.loss_tokens += meter.tokens
        self.monitor.training(progress.update, {
            "loss": smoothed / meter.tokens,
            "perplexity": perplexity(nll / meter.tokens),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": float(norm),
            "tokens_per_second": (meter.tokens + meter.source_tokens) / seconds,
            "padding_share": 1 - (meter.tokens + meter.source_tokens) / meter.places,
        }, self._remaining())
        self._losses.clear()
        meter.reset()

    def _stop_if_not_finite(self) -> None:
        sums = torch.stack([loss.smoothed for loss in self._losses]).tolist()
        size = self.config.training.accumulate  # only the last update of an epoch can have fewer
        first = self.progress.update + 1 - math.ceil(len(sums) / size)
        for n, value in enumerate(sums):
            if not math.isfinite(value):
                raise self._diverged(value, first + n // size)

    def _diverged(self, loss: float, update: int) -> UserError:
        return UserError(
            f"the loss became {loss} in update {update}; the last good checkpoint is in "
            f"{self._run.folder}.\nUsual causes: a learning rate too high (training.factor, "
            "training.warmup), no clipping (training.clip_norm), overflow in fp16 "
            "(training.precision), post-norm in a deep model (model.norm)")

    def _validate(self) -> None:
        """Score the model, keep it if it is the best, and save the state to go on from."""
        progress, training = self.progress, self.config.training
        meter = Meter()
        result = self._score()
        if not math.isfinite(result.loss):  # the last update broke the weights
            raise self._diverged(result.loss, progress.update)
        is_best = self._keep_if_best(result)
        save_recent(self._run, self.model, progress.update, training.average)
        (self._run.folder / "validation").mkdir(exist_ok=True)
        write_lines(self._run.folder / "validation" / f"{progress.update:08d}.en",
                    result.hypotheses)
        progress.seconds += meter.seconds
        training_loss = progress.loss_sum / progress.loss_tokens
        progress.loss_sum, progress.loss_tokens = 0.0, 0
        progress.validations.append({
            "update": progress.update, "seconds": progress.seconds, "loss": result.loss,
            "bleu": result.bleu.value, "training_loss": training_loss})
        save_last(self._run, self.model, self.optimizer, self._scaler, progress)
        self.monitor.validation(progress.update, result, self._text)
        epochs = progress.epoch + progress.position / self._updates_per_epoch
        self.monitor.say(
            f"epoch {epochs:.3g}, update {progress.update:,}: training loss {training_loss:.3f}, "
            f"validation loss {result.loss:.3f}, perplexity {result.perplexity:.2f}, "
            f"BLEU {result.bleu.value:.2f}{' (best)' if is_best else ''}; "
            f"{duration(progress.seconds)} so far, {duration(self._remaining())} left")
        self.model.train()
        self._meter.reset()

    def _score(self) -> Validation:
        return validate(self.model, self._criterion, self.config, self._corpus, self._text,
                        self._dtype)

    def _keep_if_best(self, result: Validation) -> bool:
        progress = self.progress
        metric = result.metric(self.config.training.early_stopping)
        if progress.best is not None and metric <= progress.best:
            progress.stale += 1
            return False
        progress.best, progress.best_update, progress.stale = metric, progress.update, 0
        save_best(self._run, self.model, progress)
        return True

    def _try_average(self) -> None:
        """The mean of the last checkpoints becomes the best one if it validates better."""
        average, count = average_recent(self._run, self.progress.update)
        if count < 2:
            return
        trained = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.model.load_state_dict(average, strict=False)
        result = self._score()
        is_best = self._keep_if_best(result)
        self.model.load_state_dict(trained, strict=False)
        if is_best:  # what a run that is trained further has to beat
            save_last(self._run, self.model, self.optimizer, self._scaler, self.progress)
        verdict = "the best" if is_best else "no better than the best"
        self.monitor.say(f"mean of the last {count} checkpoints: validation loss "
                         f"{result.loss:.3f}, BLEU {result.bleu.value:.2f}; {verdict}")

    def _finished(self) -> bool:
        progress, training = self.progress, self.config.training
        return (progress.epoch >= training.epochs
                or (training.max_updates is not None and progress.update >= training.max_updates)
                or (training.patience is not None and progress.stale >= training.patience))

    def _plan(self, epoch: int) -> list[list[NDArray[np.int64]]]:
        """The rows of every batch of every update of an epoch."""
        batches, size = self._sampler.batches(epoch), self.config.training.accumulate
        return [batches[i:i + size] for i in range(0, len(batches), size)]

    def _introduction(self) -> str:
        config, corpus, progress = self.config, self._corpus, self.progress
        threads = f" ({torch.get_num_threads()} threads)" if self.device.type == "cpu" else ""
        dropped = ", ".join(f"{n:,} {why}" for why, n in corpus.dropped.items() if n) or "none"
        sizes = f"{len(corpus.source.vocabulary):,}"
        if not (config.text.subwords and config.text.subwords.joint):
            sizes += f" German and {len(corpus.target.vocabulary):,} English"
        parameters = sum(p.numel() for p in self.model.parameters())
        start = (f"going on after update {progress.update:,}" if progress.update
                 else f"{self._updates_per_epoch:,} updates an epoch")
        return (f"training {self._run.folder} on {self.device}{threads}, {self._dtype}: "
                f"{parameters:,} parameters\n"
                f"corpus {config.data.corpus}: {len(corpus.train):,} pairs (dropped: {dropped}), "
                f"vocabulary {sizes}, {start}, at most {self._total_updates():,} in all")

    def _say_expected_end(self, pace: float) -> None:
        """Once, after the first updates; `pace` is in seconds an update."""
        self._said_end = True
        remaining = (self._total_updates() - self.progress.update) * pace
        self.monitor.say(f"{pace:.2f} s an update: about {duration(remaining)} left, "
                         "validations aside")
        if self.device.type == "cpu" and remaining > _LONG:
            self.monitor.say("That is a configuration for a GPU. On a CPU use configs/multi30k.yaml"
                             " (a real corpus) or configs/sample.yaml (minutes).")

    def _total_updates(self) -> int:
        training = self.config.training
        return min(training.epochs * self._updates_per_epoch, training.max_updates or sys.maxsize)

    def _remaining(self) -> float:
        """Seconds to the last update, at the pace so far."""
        progress = self.progress
        updates = max(self._total_updates() - progress.update, 0)
        return updates * progress.seconds / max(progress.update, 1)


def check_positions(config: Config, corpus: EncodedCorpus) -> None:
    """Validation pairs are never dropped, so a learned table must be long enough for them."""
    longest = int(max(side.lengths.max() for side in
                      (corpus.validation.source, corpus.validation.target))) + 1
    if config.model.positions == "learned" and longest > config.model.max_positions:
        raise UserError(f"model.max_positions={config.model.max_positions} is less than the "
                        f"longest validation sentence with <eos>, {longest} tokens; raise it")
