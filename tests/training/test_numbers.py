"""A loss or a gradient that is not finite: the update is left out, counted, and told of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from translate.data.batching import Batch, make_batch
from translate.data.encoding import EncodedCorpus
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.training import update
from translate.training.loss import LabelSmoothingLoss, Loss
from translate.training.monitor import Monitor
from translate.training.trainer import Trainer

Start = Callable[..., Trainer]
RUN = Path("checkpoints/tiny")


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Monitor, "validation", lambda *_: None)


def spoil(trainer: Trainer, *updates: int, value: float = torch.nan) -> None:
    """One number of the gradient is not finite in these updates."""
    def hook(gradient: Tensor) -> Tensor:
        if trainer.progress.update in updates:
            gradient = gradient.clone()
            gradient[3, 5] = value
        return gradient

    trainer.model.target_embedding.weight.register_hook(hook)


def settings(**changes: Any) -> dict[str, Any]:
    return {"max_updates": 8, "epochs": 9, "validate_every": 4, "log_every": 2, "average": 1,
            "max_skipped": 3} | changes


def state(trainer: Trainer) -> list[Tensor]:
    """Weights, moments and steps."""
    return [tensor.clone() for p in trainer.model.parameters()
            for tensor in (p.detach(), *map(torch.as_tensor, trainer.optimizer.state[p].values()))]


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_an_update_that_is_not_finite_changes_neither_weights_nor_moments(
        start: Start, encoded: EncodedCorpus, value: float) -> None:
    trainer = start()
    spoil(trainer, 2, value=value)
    batch = make_batch(encoded.train, np.arange(9))
    trainer.update([batch])
    before = state(trainer)
    assert not trainer.update([batch]).isfinite()
    assert all(map(torch.equal, state(trainer), before))
    trainer.update([batch])
    assert all(tensor.isfinite().all() for tensor in state(trainer))
    assert not any(map(torch.equal, state(trainer), before))


def test_a_loss_that_is_not_finite_leaves_the_update_out_too(
        start: Start, encoded: EncodedCorpus) -> None:
    trainer = start(model={"dropout": 0.0})
    batch = make_batch(encoded.train, np.arange(9))
    trainer.update([batch])
    before = state(trainer)
    with torch.no_grad():
        kept = trainer.model.encoder[0].feed_forward.w_1.bias[0].clone()
        trainer.model.encoder[0].feed_forward.w_1.bias[0] = torch.nan
    trainer.update([batch])
    with torch.no_grad():
        trainer.model.encoder[0].feed_forward.w_1.bias[0] = kept
    assert all(map(torch.equal, state(trainer), before))


def test_a_run_goes_on_after_single_updates_were_left_out_and_draws_their_number(
        start: Start) -> None:
    trainer = start(settings())
    spoil(trainer, 3, 4, 7)  # of which no three are in a row
    trainer.run()
    trainer.monitor.close()
    assert trainer.progress.skipped == 3 and trainer.progress.skipped_in_a_row == 0
    curves = EventAccumulator(str(RUN / "tensorboard")).Reload()
    assert [(p.step, p.value) for p in curves.Scalars("train/skipped_updates")] == [
        (2, 0), (4, 2), (6, 2), (8, 3)]
    losses = [point.value for point in curves.Scalars("train/loss")]
    assert all(0 < losses[n] < 4 for n in (0, 2, 3))


def test_too_many_in_a_row_stop_the_run_with_update_shape_and_usual_causes(
        start: Start) -> None:
    trainer = start(settings())
    spoil(trainer, *range(5, 9))
    with pytest.raises(UserError, match=r"3 updates in a row had a loss or gradient that is not "
                                        r"finite, the last of them update 7 \(\d+ pairs of \d+ "
                                        r"source and \d+ target tokens\); the last state and the "
                                        r"best weights before it are whole\.\n.*training\.factor"
                                        r".*training\.clip_norm.*training\.precision.*model\.norm"):
        trainer.run()
    assert json.loads((RUN / "last/state.json").read_text())["progress"]["update"] == 4


def test_those_in_a_row_are_counted_across_a_saved_state(start: Start) -> None:
    trainer = start(settings(max_updates=4))
    spoil(trainer, 3, 4)
    trainer.run()
    resumed = start(settings())
    assert resumed.progress.skipped_in_a_row == 2
    spoil(resumed, 5)
    with pytest.raises(UserError, match="the last of them update 5"):
        resumed.run()


def test_a_batch_too_large_for_the_memory_is_halved_until_it_fits_with_the_same_gradient(
        start: Start, encoded: EncodedCorpus, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    batches = [make_batch(encoded.train, rows) for rows in np.split(np.arange(20), [13])]
    whole, split = (start(model={"dropout": 0.0}, name=name) for name in ("whole", "split"))
    expected = whole.update(batches)
    original, sizes = update.batch_loss, []

    def on_a_small_device(model: Transformer, criterion: LabelSmoothingLoss, batch: Batch) -> Loss:
        loss = original(model, criterion, batch)
        if len(batch.src) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(len(batch.src))
        return loss

    monkeypatch.setattr(update, "batch_loss", on_a_small_device)
    assert float(split.update(batches)) == pytest.approx(float(expected), rel=1e-5)
    assert sizes[-8:] == [3, 3, 3, 4, 1, 2, 2, 2]
    for one, two in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        assert one.grad is not None and two.grad is not None
        assert torch.allclose(one.grad, two.grad, rtol=1e-4, atol=1e-7)
    split.update(batches)
    assert capsys.readouterr().err.count("did not fit into the device's memory") == 1


def test_a_single_pair_too_large_for_the_memory_says_what_to_lower(
        start: Start, encoded: EncodedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(update, "batch_loss", no_memory)
    with pytest.raises(UserError, match=r"not enough memory for a batch of \d+ tokens: lower "
                                        r"training\.batch_tokens"):
        start().update([make_batch(encoded.train, np.arange(5))])
