"""The same run twice, and a run that was cut off: the same weights, bit for bit."""

import itertools
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.errors import UserError
from translate.runs import Run, load_weights
from translate.storage import read_tensors, write_tensors
from translate.training.checkpoint import load_last
from translate.training.interruption import Stopped
from translate.training.monitor import Monitor
from translate.training.schedule import noam
from translate.training.trainer import Trainer

Start = Callable[..., Trainer]


class Crash(BaseException):
    """An end that nothing is told of."""


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


def last(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of the state to go on from; what is best depends on where a run has ended before."""
    return {name: tensor for name, tensor in tensors.items() if name.startswith("last/")}


def assert_equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, call: int,
              after: bool = False) -> None:
    """A crash in the n-th call of a method, before or after it has done its work."""
    original, calls = getattr(owner, method), 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise Crash
        result = original(*arguments)
        if calls == call:
            raise Crash
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
        with pytest.raises(Crash):
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
            with pytest.raises(Crash):
                start(SETTINGS, name="cut").run()
    cut = start(SETTINGS, name="cut")
    assert (cut.progress.update, cut.progress.epoch, cut.progress.position) == (8, 1, 2)
    cut.run()
    for progress in (whole.progress, cut.progress):
        assert progress.seconds > 0
        for validation in progress.validations:
            assert validation.pop("seconds") > 0
        progress.seconds = progress.interval.seconds = 0
    assert cut.progress == whole.progress
    assert [v["update"] for v in cut.progress.validations] == [4, 6, 8, 12]


def test_the_learning_rate_goes_on_where_it_was(
        start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: dict[int, float] = {}
    update = Trainer.update

    def recorded(trainer: Trainer, *arguments: Any) -> Tensor:
        norm = update(trainer, *arguments)
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
    assert_equal(last(state(complete(start, "tiny"))), last(uninterrupted))


def test_nothing_in_a_run_folder_can_run_code(start: Start) -> None:
    run = complete(start, "safe")
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files if "tfevents" not in path.name} == {
        ".safetensors", ".json", ".yaml", ".en"}
    for path in files:
        assert not path.read_bytes().startswith(  # zip or pickle
            (b"PK", *(bytes([0x80, protocol]) for protocol in range(1, 6))))
    assert not [path for path in run.folder.rglob("*") if "partial" in path.name]


def test_weights_of_another_configuration_are_refused_by_the_name_of_the_tensor(
        start: Start) -> None:
    run = complete(start, "one")
    path = run.last / "model.safetensors"
    for model, name in (({"d_ff": 48}, r"decoder\.0\.feed_forward\.\S+ should be \(48"),
                        ({"decoder_layers": 2}, r"decoder\.1\.\S+ should be .* and is nothing"),
                        ({"norm": "pre"}, r"decoder_norm\.\S+ should be \(16,\) and is nothing")):
        other = start(SETTINGS, model, name="-".join(map(str, ["with", *model])))
        before = [p.detach().clone() for p in other.model.parameters()]
        with pytest.raises(UserError, match=f"(?s)belong to another configuration: {name}"):
            load_weights(other.model, read_tensors(path), path)
        assert all(map(torch.equal, before, other.model.parameters()))


@pytest.mark.parametrize(("owner", "method", "call"), [
    (Trainer, "update", 6), (Trainer, "_score", 2), (Trainer, "_log", 1), (Trainer, "_score", 5),
], ids=["in an update", "in a validation", "just before a validation", "in that of the average"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_run_stopped_by_a_signal_saves_its_state_and_ends_like_one_that_was_not(
        start: Start, uninterrupted: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch,
        owner: Any, method: str, call: int, number: signal.Signals) -> None:
    original, calls = getattr(owner, method), itertools.count(1)

    def with_signal(*arguments: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), number)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, with_signal)
        with pytest.raises(Stopped) as stop:
            complete(start, "cut")
    assert stop.value.exit_code == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    resumed = start(SETTINGS, name="cut")
    expected = {("update", 6): 6, ("_score", 2): 6, ("_log", 1): 4, ("_score", 5): 12}
    assert resumed.progress.update == stop.value.update == expected[method, call]
    resumed.run()
    assert_equal(state(Run(Path("checkpoints/cut"))), uninterrupted)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "empty": lambda path: path.write_bytes(b""),
    "flipped": lambda path: path.write_bytes(
        path.read_bytes()[:-9] + bytes([path.read_bytes()[-9] ^ 4]) + path.read_bytes()[-8:]),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors",
                                  "random.safetensors", "state.json"])
def test_a_damaged_last_state_is_named_and_the_run_goes_on_from_the_one_before_it(
        start: Start, uninterrupted: dict[str, Tensor], capsys: pytest.CaptureFixture[str],
        damage: str, file: str) -> None:
    start(SETTINGS | {"max_updates": 8}).run()
    run = Run(Path("checkpoints/tiny"))
    DAMAGES[damage](run.last / file)
    trainer = start(SETTINGS)
    warning = capsys.readouterr().err.splitlines()[-1]
    assert warning.startswith(f"warning: {run.last / file}: ")
    assert warning.endswith(f"training goes on from {run.previous}")
    assert trainer.progress.update == 6
    trainer.run()
    shutil.rmtree(run.folder / "last.damaged")
    assert_equal(last(state(run)), last(uninterrupted))


def test_without_a_whole_state_nothing_is_trained_and_nothing_deleted(start: Start) -> None:
    start(SETTINGS).run()
    run = Run(Path("checkpoints/tiny"))
    for folder in (run.last, run.previous):
        (folder / "optimizer.safetensors").write_bytes(b"not tensors")
    before = {path: path.read_bytes() for path in run.folder.rglob("*.safetensors")}
    with pytest.raises(UserError, match=rf"{run.previous}/optimizer\.safetensors: cannot read"):
        start(SETTINGS | {"epochs": 3})
    shutil.rmtree(run.previous)
    with pytest.raises(UserError, match=rf"{run.last}/optimizer\.safetensors: cannot read.*\n"
                                        "There is no earlier state.*--fresh.*best"):
        start(SETTINGS | {"epochs": 3})
    assert all(path.read_bytes() == data for path, data in before.items()
               if run.previous not in path.parents)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk, no file can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_with_the_path_and_the_run_goes_on_once_there_is_space(
        start: Start, uninterrupted: dict[str, Tensor]) -> None:
    start(SETTINGS | {"max_updates": 6}).run()
    trainer = start(SETTINGS)
    with files_of_at_most(20_000), pytest.raises(
            UserError, match=r"checkpoints/tiny/(best|recent|last\.partial)/\S+: "
                             "cannot write it: .*too large"):
        trainer.run()
    assert not list(Path("checkpoints").rglob("*.partial"))
    resumed = start(SETTINGS)
    assert resumed.progress.update == 6
    resumed.run()
    assert_equal(last(state(Run(Path("checkpoints/tiny")))), last(uninterrupted))


def test_a_disk_that_is_full_when_the_state_is_saved_leaves_the_state_before_it(
        start: Start, uninterrupted: dict[str, Tensor]) -> None:
    trainer = start(SETTINGS | {"save_minutes": 0, "max_updates": 3})
    trainer.run()
    resumed = start(SETTINGS | {"save_minutes": 0})
    # Enough for the weights, and not for Adam's moments.
    with files_of_at_most(30_000), pytest.raises(
            UserError, match=r"last\.partial/optimizer\.safetensors: cannot write it: .*\n"
                             "The state before it is whole"):
        resumed.run()
    assert start(SETTINGS).progress.update == 3


def test_all_generators_go_on_where_they_were(start: Start) -> None:
    trainer = start(SETTINGS | {"max_updates": 1})
    trainer.run()
    trainer._save()
    drawn = [random.random(), np.random.rand(), float(torch.rand(()))]
    random.seed(99)
    np.random.seed(99)
    torch.manual_seed(99)
    load_last(trainer._run, trainer.model, trainer.optimizer, trainer._updater.scaler)
    assert [random.random(), np.random.rand(), float(torch.rand(()))] == drawn


def test_a_state_with_other_parameters_is_refused_before_anything_is_changed(start: Start) -> None:
    run = complete(start, "moments")
    for folder in (run.last, run.previous):
        write_tensors({"step.output.weight": torch.zeros(())}, folder / "optimizer.safetensors")
    with pytest.raises(UserError, match="not a state to go on from"):
        start(SETTINGS, name="moments")
