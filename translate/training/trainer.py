"""The training loop: updates, validation, early stopping, and states to go on from."""

import math
import signal
import sys
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from translate.allocator import keep_freed_memory
from translate.config import Config
from translate.data.batching import Batch, TokenBatchSampler
from translate.data.encoding import EncodedCorpus
from translate.data.lines import write_lines
from translate.data.vocabulary import PAD
from translate.errors import UserError
from translate.runs import Run, build_model, pick_device
from translate.training.checkpoint import (
    Interval,
    Progress,
    average_recent,
    load_last,
    random_states,
    save_best,
    save_last,
    save_recent,
)
from translate.training.figures import Figures, diverged
from translate.training.interruption import Stopped, StopRequest
from translate.training.loading import Counts, Rows, load
from translate.training.loss import LabelSmoothingLoss
from translate.training.monitor import Monitor, duration
from translate.training.processes import Processes
from translate.training.update import Updater
from translate.training.validation import (
    ParallelText,
    Validation,
    check_positions,
    perplexity,
    validate,
)

_TIMED = 20  # updates before the end is predicted


class Trainer:
    """One run, from its first update or its last state to its end.

    Of several processes the first validates and writes; the others follow its progress.
    """

    def __init__(
        self, config: Config, corpus: EncodedCorpus, text: ParallelText, run: Run,
        processes: Processes | None = None,
    ) -> None:
        self.config = config
        self.device = pick_device(config.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self._run = run
        self._corpus = corpus
        self._text = text
        self._processes = processes or Processes()
        check_positions(config, corpus)
        if config.training.accumulate % self._processes.number:
            raise UserError(f"training.accumulate={config.training.accumulate} batches an update "
                            f"cannot be shared out evenly among {self._processes.number} "
                            "processes; set it to a multiple of that")
        torch.manual_seed(config.seed)
        source_size, target_size = len(corpus.source.vocabulary), len(corpus.target.vocabulary)
        self.model = build_model(config, source_size, target_size).to(self.device)
        self._criterion = LabelSmoothingLoss(target_size, PAD, config.training.label_smoothing)
        self._updater = Updater(config, self.model, self._criterion, self.device, self._processes)
        self.optimizer = self._updater.optimizer
        if not self._processes.first:  # each draws its own dropout
            torch.manual_seed(config.seed + self._processes.index)
        self._sampler = TokenBatchSampler(corpus.train, config.training.batch_tokens, config.seed)
        with self._processes.first_goes_ahead():
            self.progress = load_last(run, self.model, self.optimizer, self._updater.scaler,
                                      self._processes.index) or Progress()
        self._updates_per_epoch = len(self._plan(self.progress.epoch))
        self.monitor = Monitor(run, config, self.progress.update, self._processes.first)
        self._stop = StopRequest()
        self._said_end = False
        self._figures = Figures(config.training.max_skipped)
        self._saved = time.monotonic()

    def run(self) -> None:
        """Train to the end.

        Raises:
            Stopped: by SIGINT or SIGTERM; the next run begins where this one ended.
        """
        self.monitor.say(self._introduction())
        with self._stop.heeded():
            try:
                # A limit may have been lowered to where the state was saved, between validations.
                finished = self.progress.finished(self.config.training)
                if self.progress.due or (finished and not self.progress.validated):
                    self._validate()
                while not self.progress.finished(self.config.training):
                    self._epoch()
                self._try_average()
                if self._stop.received:
                    raise Stopped(self._stop.received, self.progress.update)
            finally:
                self.monitor.end_epoch()

    def update(self, batches: Sequence[Batch], counts: Counts | None = None) -> Tensor:
        """One step of the optimiser on the mean loss over all tokens of the batches.

        With several processes the batches are those of this one, and the counts are of all.
        Returns the norm of the gradient before clipping.
        """
        progress = self.progress
        counts = counts or Counts.of(batches)
        progress.update += 1
        before = self._updater.splits
        measured = self._updater(progress.update, batches, counts.tokens)
        if self._updater.splits > before == 0:
            self.monitor.say(f"update {progress.update:,} did not fit into the device's memory: "
                             "its batches were halved, with the same gradient, and so will be "
                             "others like it")
        self._figures.add(progress, batches, counts, measured)
        return measured.norm

    def _epoch(self) -> None:
        """What is left of the epoch under way."""
        progress, training = self.progress, self.config.training
        first, plan = progress.position, self._plan(progress.epoch)
        self.monitor.start_epoch(progress.epoch, len(plan), first)
        self.model.train()
        self._figures.start()
        started = time.monotonic()
        updates = load(self._corpus.train, plan[first:], self._processes,
                       ahead=self.device.type == "cuda")
        for done, (batches, counts) in enumerate(updates, start=first + 1):
            self.update(batches, counts)
            progress.position = done
            self.monitor.tick()
            if done - first == _TIMED and not self._said_end:
                self._said_end = True
                pace = (time.monotonic() - started) / _TIMED
                left = (self._total_updates() - progress.update) * pace
                self.monitor.expect(pace, left, self.device)
            if done == len(plan):
                progress.epoch, progress.position = progress.epoch + 1, 0
            progress.due = done == len(plan) or progress.update == training.max_updates or bool(
                training.validate_every and progress.update % training.validate_every == 0)
            if progress.update % training.log_every == 0 or progress.due:
                self._log()
            stop, late = self._processes.any(
                self._stop.received > 0,
                time.monotonic() - self._saved >= 60 * training.save_minutes)
            if stop:
                self._save_and_stop()
            if progress.due:
                self._validate()
                progress = self.progress
            elif late:
                self._save()
            if progress.finished(training):
                break
        self.monitor.end_epoch()

    def _log(self) -> None:
        """A point of the curves, from what was trained since the last one."""
        self._figures.read(self.progress)
        progress, interval = self.progress, self.progress.interval
        progress.interval = Interval()
        progress.seconds += interval.seconds
        progress.loss_sum += interval.smoothed
        progress.loss_tokens += interval.tokens
        tokens = max(interval.tokens, 1)  # 0 where every update was left out
        self.monitor.training(progress.update, {
            "loss": interval.smoothed / tokens,
            "perplexity": perplexity(interval.nll / tokens),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": interval.norm,
            "tokens_per_second": (interval.tokens + interval.source_tokens) / interval.seconds,
            "padding_share": 1 - (interval.tokens + interval.source_tokens) / interval.places,
            "skipped_updates": progress.skipped,
        }, progress.remaining(self._total_updates()))

    def _save(self) -> None:
        """The state to go on from; all processes take part."""
        self._figures.read(self.progress)
        self.monitor.flush()  # or the curves of a run that is killed would have a gap
        states = self._processes.gather(random_states())
        if self._processes.first:
            save_last(self._run, self.model, self.optimizer, self._updater.scaler, self.progress,
                      states)
        self._saved = time.monotonic()

    def _save_and_stop(self) -> None:
        self._save()
        raise Stopped(self._stop.received or signal.SIGTERM, self.progress.update)

    def _validate(self) -> None:
        """Score the model, keep it if it is the best, and save the state."""
        started = time.monotonic()
        result = self._score_unless_stopped() if self._processes.first else None
        if result:
            self.progress.seconds += time.monotonic() - started
            self._judge(result)
        stopped, self.progress = self._processes.from_first((result is None, self.progress))
        if stopped:
            self._save_and_stop()
        self._figures.start()
        self._save()
        self.model.train()

    def _judge(self, result: Validation) -> None:
        progress = self.progress
        if not math.isfinite(result.loss):  # the last update broke the weights
            raise diverged(f"the validation loss became {result.loss} in update "
                           f"{progress.update:,}")
        is_best = self._keep_if_best(result)
        save_recent(self._run, self.model, progress.update, self.config.training.average)
        (self._run.folder / "validation").mkdir(exist_ok=True)
        write_lines(self._run.folder / "validation" / f"{progress.update:08d}.en",
                    result.hypotheses)
        training_loss = progress.loss_sum / max(progress.loss_tokens, 1)
        progress.loss_sum, progress.loss_tokens, progress.due = 0.0, 0, False
        progress.validations.append({
            "update": progress.update, "seconds": progress.seconds, "loss": result.loss,
            "bleu": result.bleu.value, "training_loss": training_loss})
        self.monitor.validation(progress.update, result, self._text)
        epochs = progress.epoch + progress.position / self._updates_per_epoch
        self.monitor.say(
            f"epoch {epochs:.3g}, update {progress.update:,}: training loss {training_loss:.3f}, "
            f"validation loss {result.loss:.3f}, perplexity {result.perplexity:.2f}, "
            f"BLEU {result.bleu.value:.2f}{' (best)' if is_best else ''}; "
            f"{duration(progress.seconds)} so far, "
            f"{duration(progress.remaining(self._total_updates()))} left")

    def _score(self) -> Validation:
        return validate(self.model, self._criterion, self.config, self._corpus, self._text,
                        self._updater.dtype)

    def _keep_if_best(self, result: Validation) -> bool:
        progress = self.progress
        metric = result.metric(self.config.training.early_stopping)
        if progress.best is not None and metric <= progress.best:
            progress.stale += 1
            return False
        progress.best, progress.best_update, progress.stale = metric, progress.update, 0
        save_best(self._run, self.model, progress)
        return True

    def _score_unless_stopped(self) -> Validation | None:
        try:
            with self._stop.at_once():
                return self._score()
        except KeyboardInterrupt:
            return None

    def _try_average(self) -> None:
        """The mean of the last checkpoints becomes the best one if it validates better."""
        is_best = self._processes.from_first(self._processes.first and self._average_is_best())
        if is_best:  # what a run that is trained further has to beat
            self._save()

    def _average_is_best(self) -> bool:
        average, count = average_recent(self._run, self.progress.update)
        if count < 2:
            return False
        trained = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.model.load_state_dict(average, strict=False)
        result = self._score_unless_stopped()
        is_best = result is not None and self._keep_if_best(result)
        self.model.load_state_dict(trained, strict=False)
        if result:
            verdict = "the best" if is_best else "no better than the best"
            self.monitor.say(f"mean of the last {count} checkpoints: validation loss "
                             f"{result.loss:.3f}, BLEU {result.bleu.value:.2f}; {verdict}")
        return is_best

    def _plan(self, epoch: int) -> list[list[Rows]]:
        """The rows of every batch of every update of an epoch."""
        batches, size = self._sampler.batches(epoch), self.config.training.accumulate
        return [batches[i:i + size] for i in range(0, len(batches), size)]

    def _introduction(self) -> str:
        config, corpus, progress = self.config, self._corpus, self.progress
        how = f" ({torch.get_num_threads()} threads)" if self.device.type == "cpu" else ""
        if self._processes.number > 1:
            how += f", {self._processes.number} processes"
        dropped = ", ".join(f"{n:,} {why}" for why, n in corpus.dropped.items() if n) or "none"
        sizes = f"{len(corpus.source.vocabulary):,}"
        if not (config.text.subwords and config.text.subwords.joint):
            sizes += f" German and {len(corpus.target.vocabulary):,} English"
        parameters = sum(p.numel() for p in self.model.parameters())
        start = (f"going on after update {progress.update:,}" if progress.update
                 else f"{self._updates_per_epoch:,} updates an epoch")
        return (f"training {self._run.folder} on {self.device}{how}, {self._updater.dtype}: "
                f"{parameters:,} parameters\n"
                f"corpus {config.data.corpus}: {len(corpus.train):,} pairs (dropped: {dropped}), "
                f"vocabulary {sizes}, {start}, at most {self._total_updates():,} in all")

    def _total_updates(self) -> int:
        training = self.config.training
        return min(training.epochs * self._updates_per_epoch, training.max_updates or sys.maxsize)
