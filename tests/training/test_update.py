"""One update: what accumulation, clipping and precision do to the gradient and the weights."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.config import Config
from translate.data.batching import make_batch
from translate.data.encoding import EncodedCorpus
from translate.errors import UserError
from translate.training.schedule import noam
from translate.training.trainer import Trainer
from translate.training.validation import check_positions

Start = Callable[..., Trainer]


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    return {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}


def norm(tensors: dict[str, Tensor]) -> float:
    return float(torch.stack([tensor.norm() for tensor in tensors.values()]).norm())


def test_an_update_of_several_batches_is_one_of_a_large_batch(
        start: Start, encoded: EncodedCorpus) -> None:
    # A large epsilon, or Adam makes whole steps of rounding errors where the gradient is zero.
    settings: dict[str, Any] = {"adam_epsilon": 1e-3, "factor": 0.1, "warmup": 1}
    parts = [np.arange(0, 2), np.arange(2, 15), np.arange(15, 20)]  # of unlike numbers of tokens
    trainers, first = [], []
    for name, split in (("one", [np.concatenate(parts)]), ("several", parts)):
        trainer = start(settings, {"dropout": 0.0}, name=name)
        before = trainer.model.target_embedding.weight.detach().clone()
        batches = [make_batch(encoded.train, rows) for rows in split]
        trainer.update(batches)
        first.append({name: gradient.clone() for name, gradient in gradients(trainer).items()})
        trainer.update(batches)
        trainer.update(batches)
        assert trainer.progress.update == 3
        assert (trainer.model.target_embedding.weight - before).abs().max() > 0.02
        trainers.append(trainer)
    for name, gradient in first[0].items():
        assert torch.allclose(first[1][name], gradient, rtol=1e-4, atol=1e-7), name
    weights = dict(trainers[1].model.named_parameters())
    for name, parameter in trainers[0].model.named_parameters():
        assert torch.allclose(weights[name], parameter, atol=1e-4), name


def test_the_gradient_is_of_the_mean_over_all_tokens_of_the_update(
        start: Start, encoded: EncodedCorpus) -> None:
    trainer = start({"clip_norm": None}, {"dropout": 0.0})
    batch = make_batch(encoded.train, np.arange(8))
    trainer.update([batch])
    once = gradients(trainer)
    other = start({"clip_norm": None}, {"dropout": 0.0})
    other.update([batch, batch, batch])
    for name, gradient in gradients(other).items():
        assert torch.allclose(gradient, once[name], rtol=1e-4, atol=1e-7), name


def test_clipping_bounds_the_norm_of_the_gradient_and_reports_what_it_was(
        start: Start, encoded: EncodedCorpus) -> None:
    batch = make_batch(encoded.train, np.arange(8))
    free = start({"clip_norm": None}, name="free")
    clipped = start({"clip_norm": 0.01}, name="clipped")
    torch.manual_seed(1)
    before = free.update([batch])
    torch.manual_seed(1)
    reported = clipped.update([batch])
    assert float(before) == pytest.approx(norm(gradients(free)), rel=1e-5)
    assert float(reported) == float(before) > 0.1
    assert norm(gradients(clipped)) == pytest.approx(0.01, rel=1e-3)
    ratio = 0.01 / float(before)
    for name, gradient in gradients(clipped).items():  # the direction stays
        assert torch.allclose(gradient, gradients(free)[name] * ratio, rtol=1e-2, atol=1e-8), name


def test_a_gradient_below_the_bound_is_left_alone(start: Start, encoded: EncodedCorpus) -> None:
    trainer = start({"clip_norm": 1000.0})
    reported = trainer.update([make_batch(encoded.train, np.arange(8))])
    assert norm(gradients(trainer)) == pytest.approx(float(reported), rel=1e-5)


def test_every_update_has_the_learning_rate_of_its_number(
        start: Start, encoded: EncodedCorpus) -> None:
    trainer = start({"warmup": 3, "factor": 0.7})
    for step in range(1, 8):
        trainer.update([make_batch(encoded.train, np.arange(4))])
        assert trainer.optimizer.param_groups[0]["lr"] == noam(step, 16, 3, 0.7)


@pytest.mark.parametrize("model", [
    {}, {"norm": "pre", "tie_output": False}, {"positions": "learned"},
    {"positions": "relative", "activation": "gelu", "attention_dropout": 0.1,
     "activation_dropout": 0.1},
], ids=str)
def test_no_parameter_is_without_a_gradient(
        start: Start, encoded: EncodedCorpus, model: dict[str, Any]) -> None:
    trainer = start(model=model)
    trainer.update([make_batch(encoded.train, np.arange(30))])
    assert gradients(trainer).keys() == dict(trainer.model.named_parameters()).keys()
    assert [name for name, gradient in gradients(trainer).items()
            if not gradient.isfinite().all() or not gradient.any()] == []


def test_training_in_bf16_keeps_the_weights_in_fp32_and_learns_the_same_thing(
        start: Start, encoded: EncodedCorpus) -> None:
    batch = make_batch(encoded.train, np.arange(20))
    norms = []
    for precision in ("fp32", "bf16"):
        trainer = start({"precision": precision}, {"dropout": 0.0}, name=precision)
        norms.append(float(trainer.update([batch])))
        assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
        assert {g.dtype for g in gradients(trainer).values()} == {torch.float32}
    assert norms[1] != norms[0]  # so something was rounded
    assert norms[1] == pytest.approx(norms[0], rel=0.05)


def test_a_run_in_bf16_trains_and_validates(start: Start) -> None:
    trainer = start({"precision": "bf16", "max_updates": 2})
    trainer.run()
    assert np.isfinite(trainer.progress.validations[0]["loss"])


def test_fp16_on_a_cpu_is_refused_with_what_to_use(start: Start) -> None:
    with pytest.raises(UserError, match="precision=fp16 needs a CUDA device, not cpu; use fp32"):
        start({"precision": "fp16"})


def test_auto_on_a_cpu_is_fp32(start: Start, encoded: EncodedCorpus) -> None:
    same = []
    for precision in ("auto", "fp32"):
        trainer = start({"precision": precision}, name=precision)
        same.append(float(trainer.update([make_batch(encoded.train, np.arange(8))])))
    assert same[0] == same[1]


def test_a_learned_table_shorter_than_a_validation_sentence_is_refused(
        configure: Callable[..., Config], encoded: EncodedCorpus) -> None:
    config = configure(model={"positions": "learned", "max_positions": 21})
    longest = max(encoded.validation.source.lengths.max(), encoded.validation.target.lengths.max())
    short = config.model_copy(update={"model": config.model.model_copy(
        update={"max_positions": int(longest)})})
    check_positions(config, encoded)
    with pytest.raises(UserError, match="longest validation sentence"):
        check_positions(short, encoded)


def test_gradient_checkpointing_changes_neither_gradients_nor_what_dropout_draws(
        start: Start, encoded: EncodedCorpus) -> None:
    batch = make_batch(encoded.train, np.arange(20))
    found = []
    for again in (False, True):
        trainer = start({"gradient_checkpointing": again},
                        {"attention_dropout": 0.1, "encoder_layers": 2}, name=f"again-{again}")
        norm = trainer.update([batch])
        found.append({"norm": norm, **gradients(trainer)})
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_gradient_checkpointing_keeps_less_for_the_gradient(
        start: Start, encoded: EncodedCorpus) -> None:
    batch = make_batch(encoded.train, np.arange(20))
    kept = []
    for again in (False, True):
        trainer = start({"gradient_checkpointing": again}, {"encoder_layers": 4},
                        name=f"again-{again}")
        sizes: list[int] = []

        def note(tensor: Tensor, sizes: list[int] = sizes) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            trainer._updater._loss(batch)
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 2


def test_all_batches_of_a_run_compile_to_a_few_graphs_that_train_the_same_weights(
        configure: Callable[..., Config], tmp_path: Path) -> None:
    # In a process without the checks of shapes, which the compiler would compile too.
    config = configure(model={"dropout": 0.0})
    (tmp_path / "config.json").write_text(config.model_dump_json(), encoding="utf-8")
    script = Path(__file__).with_name("compiled_run.py")
    done = subprocess.run([sys.executable, script, tmp_path, "config.json"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["shapes"] > 4
    assert 1 <= found["graphs"] <= 4
    assert found["difference"] < 1e-5
