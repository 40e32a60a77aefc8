"""What a person sees of training: TensorBoard, a progress bar, and lines where there is no bar."""

import sys
import time
from itertools import islice
from typing import Any

import torch
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams
from tqdm import tqdm

from translate.config import Config
from translate.decoding.attention_plot import plot_attention
from translate.runs import Run
from translate.training.validation import ParallelText, Validation

_QUIET = 60  # seconds without a line after which one is due where there is no bar
_LONG = 6 * 3600  # seconds of training on a CPU after which another config is recommended
_SAMPLES = 8  # validation sentences shown with their translations


def duration(seconds: float) -> str:
    """Seconds as people say them: 45 s, 12 min, 3.4 h, 5.1 days."""
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.{1 if unit == 'h' else 0}f} {unit}"
    return f"{seconds / 86_400:.1f} days"


class Monitor:
    """Curves under `tensorboard/` of the run, and progress on stderr.

    Of several processes one `writes`; the others say and draw nothing.
    """

    def __init__(self, run: Run, config: Config, update: int, writes: bool = True) -> None:
        self._writes = writes
        self._bar: tqdm[Any] | None = None
        self._said = time.monotonic()
        if not writes:
            return
        # Points after `update`, from a run that was cut off, would otherwise show twice.
        self._writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=update + 1)
        if update == 0:
            self._writer.add_text("config", f"```yaml\n{run.config.read_text('utf-8')}\n```", 0)

    def start_epoch(self, epoch: int, updates: int, done: int) -> None:
        self._bar = tqdm(total=updates, initial=done, desc=f"epoch {epoch + 1}", unit="update",
                         disable=not (self._writes and sys.stderr.isatty()), leave=False,
                         dynamic_ncols=True)

    def tick(self) -> None:
        if self._bar is not None:
            self._bar.update()

    def say(self, message: str) -> None:
        """A line on stderr that leaves the bar whole."""
        if not self._writes:
            return
        self._said = time.monotonic()
        tqdm.write(message, file=sys.stderr)
        sys.stderr.flush()

    def expect(self, pace: float, remaining: float, device: torch.device) -> None:
        """When the end is to be expected, from the pace in seconds an update."""
        self.say(f"{pace:.2f} s an update: about {duration(remaining)} left, validations aside")
        if device.type == "cpu" and remaining > _LONG:
            self.say("That is a configuration for a GPU. On a CPU use configs/multi30k.yaml (a "
                     "real corpus) or configs/sample.yaml (minutes).")

    def end_epoch(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def training(self, update: int, values: dict[str, float], remaining: float) -> None:
        """One point of the training curves."""
        if not self._writes:
            return
        for name, value in values.items():
            self._writer.add_scalar(f"train/{name}", value, update)
        line = (f"loss {values['loss']:.3f}, {values['tokens_per_second']:,.0f} tokens/s, "
                f"lr {values['learning_rate']:.1e}, {duration(remaining)} left")
        if self._bar is not None and not self._bar.disable:
            self._bar.set_postfix_str(line, refresh=False)
        elif time.monotonic() - self._said > _QUIET:
            self.say(f"update {update:,}: {line}")

    def validation(self, update: int, result: Validation, text: ParallelText) -> None:
        """Scores, sample translations, and what the first of them attends to."""
        self._writer.add_scalar("validation/loss", result.loss, update)
        self._writer.add_scalar("validation/perplexity", result.perplexity, update)
        self._writer.add_scalar("validation/bleu", result.bleu.value, update)
        self._writer.add_text("validation/bleu_signature", f"`{result.bleu.signature}`", update)
        rows = ["| source | reference | hypothesis |", "|---|---|---|"]
        for columns in islice(zip(*text, result.hypotheses, strict=True), _SAMPLES):
            rows.append("| " + " | ".join(t.replace("|", r"\|") for t in columns) + " |")
        self._writer.add_text("validation/translations", "\n".join(rows), update)
        self._writer.add_figure("validation/cross_attention",
                                plot_attention(result.attention, heads=False), update)

    def finished(self, update: int, config: Config, scores: dict[str, float]) -> None:
        """The settings as hyperparameters beside the final scores."""
        settings = {f"{part}.{key}": value if isinstance(value, int | float | str) else str(value)
                    for part in ("text", "model", "training")
                    for key, value in config.model_dump(mode="json")[part].items()}
        for summary in hparams(settings, scores):
            self._writer._get_file_writer().add_summary(summary)  # in this run, not a new one
        for name, value in scores.items():
            self._writer.add_scalar(name, value, update)

    def flush(self) -> None:
        """What was drawn so far survives whatever happens to this process."""
        if self._writes:
            self._writer.flush()

    def close(self) -> None:
        self.end_epoch()
        if self._writes:
            self._writer.close()
