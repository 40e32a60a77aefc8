"""What a person sees of a run: read back from the event files that TensorBoard reads."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from translate.data.encoding import EncodedCorpus
from translate.training.monitor import Monitor, duration
from translate.training.schedule import noam
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText

Start = Callable[..., Trainer]


class Crash(BaseException):
    """An end that nothing is told of."""

RUN = Path("checkpoints/tiny")
SETTINGS: dict[str, Any] = {"log_every": 2, "max_updates": 5, "accumulate": 2, "warmup": 3}


def read_events() -> EventAccumulator:
    """All that TensorBoard shows of the run; sizes 0 keep every point."""
    events = EventAccumulator(str(RUN / "tensorboard"), {"scalars": 0, "tensors": 0, "images": 0})
    return events.Reload()


def steps(events: EventAccumulator, tag: str) -> list[int]:
    return [point.step for point in events.Scalars(tag)]


def values(events: EventAccumulator, tag: str) -> list[float]:
    return [point.value for point in events.Scalars(tag)]


def text_of(events: EventAccumulator, tag: str) -> str:
    return events.Tensors(f"{tag}/text_summary")[-1].tensor_proto.string_val[0].decode("utf-8")


def test_a_run_leaves_its_curves_texts_and_picture(start: Start, text: ParallelText) -> None:
    trainer = start(SETTINGS)
    trainer.run()
    trainer.monitor.finished(trainer.progress.update, trainer.config, {"test/bleu": 12.5})
    trainer.monitor.close()
    events = read_events()

    for name in ("loss", "perplexity", "learning_rate", "gradient_norm", "tokens_per_second",
                 "padding_share"):
        assert steps(events, f"train/{name}") == [2, 4, 5]
        assert all(map(math.isfinite, values(events, f"train/{name}")))
    assert values(events, "train/learning_rate") == pytest.approx(
        [noam(step, 16, 3) for step in (2, 4, 5)])
    assert all(0 <= share < 0.5 for share in values(events, "train/padding_share"))
    assert all(norm > 0 for norm in values(events, "train/gradient_norm"))
    assert 1 < values(events, "train/perplexity")[0] < 100  # of 17 words, barely trained

    last = trainer.progress.validations[-1]
    for name in ("loss", "bleu"):
        assert steps(events, f"validation/{name}") == [5]
        assert values(events, f"validation/{name}") == pytest.approx([last[name]])
    assert text_of(events, "validation/bleu_signature").startswith("`nrefs:1|case:mixed|")
    table = text_of(events, "validation/translations").splitlines()
    hypotheses = (RUN / "validation/00000005.en").read_text(encoding="utf-8").split("\n")
    assert table[0] == "| source | reference | hypothesis |"
    assert table[2] == f"| {text.source[0]} | {text.reference[0]} | {hypotheses[0]} |"
    assert len(table) == 2 + len(text.source)
    picture = events.Images("validation/cross_attention")[-1]
    assert picture.encoded_image_string.startswith(b"\x89PNG") and picture.width > 100
    assert "batch_tokens: 56" in text_of(events, "config")

    assert values(events, "test/bleu") == [12.5]
    started = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"training.warmup" in started and b"model.d_model" in started
    experiment = events.summary_metadata["_hparams_/experiment"].plugin_data.content
    assert b"test/bleu" in experiment


def test_curves_go_on_after_an_interruption_with_every_point_once(
        start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SETTINGS | {"log_every": 1, "validate_every": 3, "max_updates": 8}
    monkeypatch.setattr(Monitor, "validation", lambda *_: None)
    update = Trainer.update

    def interrupted(trainer: Trainer, *arguments: Any) -> Any:
        if trainer.progress.update == 5:
            raise Crash
        return update(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        cut = start(settings)
        with pytest.raises(Crash):
            cut.run()
        cut.monitor.close()
    resumed = start(settings)
    resumed.run()
    resumed.monitor.close()
    events = read_events()
    assert steps(events, "train/learning_rate") == list(range(1, 9))
    assert values(events, "train/learning_rate") == pytest.approx(
        [noam(step, 16, 3) for step in range(1, 9)])


def test_a_bar_in_a_translation_does_not_break_the_table(
        start: Start, encoded: EncodedCorpus) -> None:
    trainer = start(SETTINGS)
    result = trainer._score()
    bars = ParallelText(["a|b"], ["c"])
    trainer.monitor.validation(1, result._replace(hypotheses=["||"]), bars)
    trainer.monitor.close()
    assert text_of(read_events(), "validation/translations").splitlines()[-1] == (
        r"| a\|b | c | \|\| |")


def test_without_a_terminal_progress_is_whole_lines_on_stderr(
        start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    start(SETTINGS).run()
    out, err = capfd.readouterr()
    assert out == ""
    assert "\r" not in err and "\x1b" not in err
    lines = err.splitlines()
    assert "checkpoints/tiny on cpu" in lines[0] and "5,920 parameters" in lines[0]
    assert "60 pairs" in lines[1] and "17 German and 17 English" in lines[1]
    assert "6 updates an epoch, at most 5 in all" in lines[1]
    assert any("update 5: training loss" in line and "BLEU" in line for line in lines)


def test_without_a_terminal_a_long_epoch_says_how_it_goes(
        start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("translate.training.monitor._QUIET", -1)
    start(SETTINGS).run()
    assert re.search(r"update 2: loss .*tokens/s, lr .* left", capsys.readouterr().err)


def test_a_run_too_long_for_a_cpu_is_told_so_after_some_updates(
        start: Start, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    update = Trainer.update

    def interrupted(trainer: Trainer, *arguments: Any) -> Any:
        if trainer.progress.update == 22:
            raise Crash
        return update(trainer, *arguments)

    monkeypatch.setattr(Trainer, "update", interrupted)
    with pytest.raises(Crash):
        start({"epochs": 10**9, "batch_tokens": 24}).run()
    said = capfd.readouterr().err.splitlines()[2:]
    assert [line.partition(" s an update: about ")[2][-26:] for line in said[:1]] == [
        " days left, validations aside"[-26:]]
    assert said[1:] == ["That is a configuration for a GPU. On a CPU use configs/multi30k.yaml (a "
                        "real corpus) or configs/sample.yaml (minutes)."]


@pytest.mark.parametrize(("seconds", "said"), [
    (0, "0 s"), (45.4, "45 s"), (89, "89 s"), (90, "2 min"), (720, "12 min"), (5399, "90 min"),
    (5400, "1.5 h"), (12_240, "3.4 h"), (172_800, "2.0 days"), (440_640, "5.1 days"),
])
def test_a_duration_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert duration(seconds) == said
