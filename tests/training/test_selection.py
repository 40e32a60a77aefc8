"""Which weights are kept: the best, the mean of the last, and never broken ones."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.decoding.scores import Score
from translate.decoding.translator import Attention
from translate.errors import UserError
from translate.storage import read_tensors
from translate.training.monitor import Monitor
from translate.training.trainer import Trainer
from translate.training.validation import Validation

Start = Callable[..., Trainer]
RUN = Path("checkpoints/tiny")


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Monitor, "validation", lambda *_: None)


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every validation, in order, score what the test says."""

    def play(bleu: Sequence[float] = (), loss: Sequence[float] = ()) -> None:
        script = iter([(b, 1.0) for b in bleu] or [(1.0, x) for x in loss])
        nothing = Attention([], [], *(torch.zeros(1, 1, 1, 1) for _ in range(3)))
        monkeypatch.setattr(Trainer, "_score", lambda _: next(
            Validation(loss, 1.0, Score(bleu, ""), [], nothing) for bleu, loss in script))

    return play


def best_update() -> int:
    return json.loads((RUN / "best/state.json").read_text())["update"]


def weights(path: str) -> dict[str, Tensor]:
    return read_tensors(RUN / path)


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def settings(**changes: Any) -> dict[str, Any]:
    return {"epochs": 50, "validate_every": 2, "average": 1} | changes


def test_training_stops_after_as_many_validations_without_a_better_one_as_patience_says(
        start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[10, 30, 29, 31, 31, 30, 99])  # to equal the best is not to be better
    trainer = start(settings(patience=2))
    trainer.run()
    assert [v["bleu"] for v in trainer.progress.validations] == [10, 30, 29, 31, 31, 30]
    assert trainer.progress.update == 11


def test_without_patience_training_goes_on_to_its_limit(
        start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[9, 8, 7, 6, 5])
    trainer = start(settings(max_updates=9))
    trainer.run()
    assert [v["update"] for v in trainer.progress.validations] == [2, 4, 6, 8, 9]


def test_the_best_weights_are_those_of_the_highest_bleu(
        start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[10, 30, 20, 29])
    start(settings(max_updates=8)).run()
    assert best_update() == 4
    scores(bleu=[10, 30])
    other = start(settings(max_updates=4), fresh=True)
    kept = read_tensors(Path("checkpoints/tiny.old1/best/model.safetensors"))
    other.run()
    assert same(weights("last/model.safetensors"), kept)


def test_the_best_weights_can_be_those_of_the_lowest_loss(
        start: Start, scores: Callable[..., None]) -> None:
    scores(loss=[3.0, 2.0, 2.5, 1.5, 1.6, 1.7])
    trainer = start(settings(early_stopping="loss", patience=2))
    trainer.run()
    assert (best_update(), trainer.progress.update) == (8, 11)


def test_a_better_mean_of_the_last_checkpoints_becomes_the_best(
        start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[50, 10, 20, 30, 51])
    trainer = start(settings(max_updates=8, average=3))
    trainer.run()
    recent = sorted(path.name for path in (RUN / "recent").iterdir())
    assert recent == [f"{update:08d}.safetensors" for update in (4, 6, 8)]
    tensors = [weights(f"recent/{name}") for name in recent]
    mean = {name: torch.stack([t[name].double() for t in tensors]).mean(0) for name in tensors[0]}
    best = weights("best/model.safetensors")
    assert best.keys() == mean.keys()
    assert all(torch.allclose(best[name].double(), mean[name], atol=1e-7) for name in mean)
    assert same(weights("last/model.safetensors"), tensors[-1])  # where training would go on
    assert same({n: p.detach() for n, p in trainer.model.named_parameters()}, tensors[-1])


def test_a_mean_that_is_no_better_is_left(start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[10, 50, 20, 50])
    start(settings(max_updates=6, average=3)).run()
    assert best_update() == 4
    assert same(weights("best/model.safetensors"), weights("recent/00000004.safetensors"))


def test_one_checkpoint_has_no_mean_to_try(start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[10, 20])
    start(settings(max_updates=4, average=1)).run()  # a third validation would fail
    assert len(list((RUN / "recent").iterdir())) == 1


def test_a_run_trained_further_has_to_beat_the_mean_that_was_kept(
        start: Start, scores: Callable[..., None]) -> None:
    scores(bleu=[10, 20, 40])
    start(settings(max_updates=4, average=2)).run()
    kept = weights("best/model.safetensors")
    scores(bleu=[30, 35])
    start(settings(max_updates=6, average=2)).run()
    assert same(weights("best/model.safetensors"), kept)


@pytest.fixture
def break_weights(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Makes the weights NaN once an update is done."""
    update = Trainer.update

    def after(number: int) -> None:
        def broken(trainer: Trainer, *arguments: Any) -> Tensor:
            norm = update(trainer, *arguments)
            if trainer.progress.update == number:
                torch.nn.init.constant_(trainer.model.target_embedding.weight, torch.nan)
            return norm

        monkeypatch.setattr(Trainer, "update", broken)

    yield after


def test_weights_that_are_broken_are_not_kept(
        start: Start, break_weights: Callable[[int], None]) -> None:
    break_weights(8)
    with pytest.raises(UserError, match="the validation loss became nan in update 8; the last "
                                        "state and the best weights before it are whole"):
        start(settings(validate_every=4, accumulate=2, average=2)).run()
    last = weights("last/model.safetensors")
    assert all(tensor.isfinite().all() for tensor in last.values())
    assert json.loads((RUN / "last/state.json").read_text())["progress"]["update"] == 6
    assert all(tensor.isfinite().all() for tensor in weights("best/model.safetensors").values())
