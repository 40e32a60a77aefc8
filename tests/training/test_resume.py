"""The same run twice, and a run that was cut off: the same weights, bit for bit."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.data.batching import Batch
from translate.errors import UserError
from translate.runs import Run, load_weights, read_tensors, write_tensors
from translate.training.monitor import Monitor
from translate.training.schedule import noam
from translate.training.trainer import Trainer

Start = Callable[..., Trainer]

# Six updates an epoch, of which the fourth and the eighth are validated in the middle of one.
SETTINGS: dict[str, Any] = {"accumulate": 2, "validate_every": 4, "epochs": 2, "average": 2}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of the time of such a run and leave nothing that it depends on."""
    monkeypatch.setattr(Monitor, "validation", lambda *_: None)


def state(run: Run) -> dict[str, Tensor]:
    """Everything that is random or learned in a run folder, by file and name."""
    return {f"{path.relative_to(run.folder)} {name}": tensor
            for path in sorted(run.folder.rglob("*.safetensors"))
            for name, tensor in read_tensors(path).items()}


def assert_equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, call: int,
              after: bool = False) -> None:
    """Ctrl-C in the n-th call of a method, before or after it has done its work."""
    original, calls = getattr(owner, method), 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise KeyboardInterrupt
        result = original(*arguments)
        if calls == call:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, method, interrupted)


def complete(start: Start, name: str, **top: Any) -> Run:
    start(SETTINGS, name=name, **top).run()
    return Run(Path("checkpoints") / name)


@pytest.fixture
def uninterrupted(start: Start, once: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
    if not once:
        once["whole"] = state(complete(start, "whole"))
    return once["whole"]


@pytest.fixture(scope="module")
def once() -> dict[str, dict[str, Tensor]]:
    return {}


def test_an_epoch_here_ends_with_an_update_of_fewer_batches(start: Start) -> None:
    assert [len(batches) for batches in start(SETTINGS)._plan(0)] == [2, 2, 2, 2, 2, 1]


def test_the_same_config_and_seed_give_the_same_weights_and_another_seed_does_not(
        start: Start, uninterrupted: dict[str, Tensor]) -> None:
    again, other = (state(complete(start, f"seed-{seed}", seed=seed)) for seed in (1, 2))
    assert_equal(again, uninterrupted)
    weights = "last/model.safetensors target_embedding.weight"
    assert not torch.equal(other[weights], uninterrupted[weights])


@pytest.mark.parametrize(("owner", "method", "call", "after"), [
    (Trainer, "update", 2, False),  # before anything was saved
    (Trainer, "update", 6, True),  # in the middle of an epoch, after a validation in it
    (Trainer, "_validate", 2, True),  # between two epochs
    (Trainer, "_score", 2, False),  # in a validation
    (Trainer, "_keep_if_best", 2, True),  # best written, last not
    (Trainer, "_score", 5, True),  # while the average of checkpoints is tried
], ids=lambda value: str(value))
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(
        start: Start, uninterrupted: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch,
        owner: Any, method: str, call: int, after: bool) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch, owner, method, call, after)
        with pytest.raises(KeyboardInterrupt):
            complete(start, "cut")
    torch.manual_seed(12345)  # another process, and whatever it drew before
    torch.rand(99)
    assert_equal(state(complete(start, "cut")), uninterrupted)


def test_a_run_interrupted_twice_reports_what_an_uninterrupted_one_reports(
        start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = start(SETTINGS, name="whole")
    whole.run()
    for _ in range(2):
        with monkeypatch.context() as patch:
            interrupt(patch, Trainer, "update", 6)
            with pytest.raises(KeyboardInterrupt):
                start(SETTINGS, name="cut").run()
    cut = start(SETTINGS, name="cut")
    assert (cut.progress.update, cut.progress.epoch, cut.progress.position) == (8, 1, 2)
    cut.run()
    for progress in (whole.progress, cut.progress):
        assert progress.seconds > 0
        for validation in progress.validations:
            assert validation.pop("seconds") > 0
        progress.seconds = 0
    assert cut.progress == whole.progress
    assert [v["update"] for v in cut.progress.validations] == [4, 6, 8, 12]


def test_the_learning_rate_goes_on_where_it_was(
        start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: dict[int, float] = {}
    update = Trainer.update

    def recorded(trainer: Trainer, batches: Sequence[Batch]) -> Tensor:
        norm = update(trainer, batches)
        rates[trainer.progress.update] = trainer.optimizer.param_groups[0]["lr"]
        return norm

    monkeypatch.setattr(Trainer, "update", recorded)
    start(SETTINGS | {"max_updates": 5, "warmup": 6}).run()
    resumed = start(SETTINGS | {"warmup": 6})
    assert resumed.progress.update == 5
    resumed.run()
    assert rates == {step: noam(step, 16, 6) for step in range(1, 13)}


def test_a_run_trained_further_is_one_that_was_trained_as_long_at_once(
        start: Start, uninterrupted: dict[str, Tensor]) -> None:
    start(SETTINGS | {"epochs": 1}).run()
    further = state(complete(start, "tiny"))
    assert_equal(*({name: tensor for name, tensor in tensors.items() if name.startswith("last/")}
                   for tensors in (further, uninterrupted)))


def test_nothing_in_a_run_folder_can_run_code(start: Start) -> None:
    run = complete(start, "safe")
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files if "tfevents" not in path.name} == {
        ".safetensors", ".json", ".yaml", ".en"}
    for path in files:
        assert not path.read_bytes().startswith((b"PK", b"\x80"))  # zip or pickle
    assert not [path for path in run.folder.rglob("*") if "partial" in path.name
                or "previous" in path.name]


def test_a_crash_between_the_two_renames_of_a_save_loses_nothing(
        start: Start, uninterrupted: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def crash(source: Path, target: Path) -> None:
        if Path(target).name == "last" and Path(target).with_name("last.previous").exists():
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            complete(start, "cut")
        assert not Path("checkpoints/cut/last").exists()
        assert start(SETTINGS, name="cut").progress.update == 4
        with pytest.raises(KeyboardInterrupt):  # and again at the same place
            complete(start, "cut")
        assert start(SETTINGS, name="cut").progress.update == 4
    assert_equal(state(complete(start, "cut")), uninterrupted)


def test_weights_of_another_configuration_are_refused_by_the_name_of_the_tensor(
        start: Start) -> None:
    run = complete(start, "one")
    for model, name in (({"d_ff": 48}, r"decoder\.0\.feed_forward\.\S+ should be \(48"),
                        ({"decoder_layers": 2}, r"decoder\.1\.\S+ should be .* and is nothing"),
                        ({"norm": "pre"}, r"decoder_norm\.\S+ should be \(16,\) and is nothing")):
        other = start(SETTINGS, model, name="-".join(map(str, ["with", *model])))
        before = [p.detach().clone() for p in other.model.parameters()]
        with pytest.raises(UserError, match=f"(?s)belong to another configuration: {name}"):
            load_weights(other.model, run.last / "model.safetensors")
        assert all(map(torch.equal, before, other.model.parameters()))


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_file_of_the_last_state_is_named(start: Start, file: str) -> None:
    run = complete(start, "one")
    (run.last / file).write_bytes((run.last / file).read_bytes()[:50])
    with pytest.raises(UserError, match=file.replace(".", r"\.")):
        start(SETTINGS, name="one")


def test_an_optimiser_without_its_moments_is_refused(start: Start) -> None:
    run = complete(start, "moments")
    write_tensors({"step.output.weight": torch.zeros(())}, run.last / "optimizer.safetensors")
    with pytest.raises(UserError, match="not a state to go on from"):
        start(SETTINGS, name="moments")
