"""The state of training on disk: enough to go on as if nothing had happened."""

import os
import random
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from translate.config import TrainingConfig
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.runs import Run, load_weights
from translate.storage import (
    flush_to_disk,
    read_state,
    read_tensors,
    write_json,
    write_state,
    write_tensors,
)


@dataclass
class Interval:
    """What was trained since the last point of the curves; sums over tokens and updates."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: int = 0  # of the target: those that the loss counts
    source_tokens: int = 0
    places: int = 0  # of both sides, padding included
    norm: float = 0.0  # of the last gradient
    seconds: float = 0.0


@dataclass
class Progress:
    """How far training is, and what it has reached."""

    update: int = 0
    epoch: int = 0  # complete ones
    position: int = 0  # updates done in the epoch under way
    due: bool = False  # a validation is to be done before the next update
    best: float | None = None  # of the early-stopping metric, higher is better
    best_update: int = 0
    stale: int = 0  # validations since the best one
    skipped: int = 0  # updates left out because something was not finite
    skipped_in_a_row: int = 0
    loss_sum: float = 0.0  # of training, since the last validation
    loss_tokens: int = 0
    seconds: float = 0.0  # of training, validations included
    validations: list[dict[str, float]] = field(default_factory=list)
    interval: Interval = field(default_factory=Interval)

    def finished(self, training: TrainingConfig) -> bool:
        return (self.epoch >= training.epochs
                or (training.max_updates is not None and self.update >= training.max_updates)
                or (training.patience is not None and self.stale >= training.patience))

    @property
    def validated(self) -> bool:
        """Whether the last update was."""
        return any(validation["update"] == self.update for validation in self.validations)

    def remaining(self, updates: int) -> float:
        """Seconds to the last of so many updates, at the pace so far."""
        return max(updates - self.update, 0) * self.seconds / max(self.update, 1)


RandomStates = dict[str, Any]  # by generator; torch's are tensors, the others JSON


def save_best(run: Run, model: Transformer, progress: Progress) -> None:
    run.best.mkdir(exist_ok=True)
    write_tensors(dict(model.named_parameters()), run.best / "model.safetensors")
    write_json({"update": progress.best_update, "score": progress.best}, run.best / "state.json")


def save_last(
    run: Run,
    model: Transformer,
    optimizer: torch.optim.Adam,
    scaler: torch.amp.GradScaler,
    progress: Progress,
    processes: list[RandomStates],
) -> None:
    """Write `last/` beside the one that is there, which becomes `last.previous/`.

    At every moment one of the two is complete. `processes` holds the random states of each.
    """
    partial = run.folder / "last.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write_tensors(dict(model.named_parameters()), partial / "model.safetensors")
        write_tensors(_optimizer_tensors(model, optimizer), partial / "optimizer.safetensors")
        write_tensors({f"{n}.{name}": state for n, states in enumerate(processes)
                       for name, state in states["torch"].items()}, partial / "random.safetensors")
        write_state({"progress": asdict(progress), "scaler": scaler.state_dict(),
                     "random": [{name: state for name, state in states.items() if name != "torch"}
                                for states in processes]}, partial / "state.json")
        flush_to_disk(partial)
        if run.last.exists():  # else `previous` is the only state, left by a crash at this place
            shutil.rmtree(run.previous, ignore_errors=True)
            os.replace(run.last, run.previous)
        os.replace(partial, run.last)
        flush_to_disk(run.folder)
    except (OSError, UserError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = error if isinstance(error, UserError) else f"{error.filename}: {error.strerror}"
        raise UserError(f"{reason}\nThe state before it is whole: once this is mended, the same "
                        "command goes on from there") from None


def load_last(
    run: Run,
    model: Transformer,
    optimizer: torch.optim.Adam,
    scaler: torch.amp.GradScaler,
    process: int = 0,
) -> Progress | None:
    """Continue from `last/`, if there is one; from `last.previous/` if it is gone or damaged.

    Raises:
        UserError: no state is whole, or it belongs to another configuration.
    """
    there = [folder for folder in (run.last, run.previous) if folder.exists()]
    if not there:
        return None
    try:
        state = _read(there[0])
    except UserError as damage:
        if len(there) == 1:
            raise UserError(f"{damage}\nThere is no earlier state to go on from: start over with "
                            f"--fresh (the best weights so far are in {run.best})") from None
        state = _read(run.previous)
        if process == 0:
            damaged = run.folder / "last.damaged"  # out of the way of the next state
            shutil.rmtree(damaged, ignore_errors=True)
            os.replace(run.last, damaged)
            print(f"warning: {damage}; it is moved to {damaged.name}, and training goes on from "
                  f"{run.previous}", file=sys.stderr)
    load_weights(model, state.weights, state.folder / "model.safetensors")
    try:
        _restore_optimizer(model, optimizer, state.moments)
        if process < len(state.values["random"]):  # else a process that was not there before
            _restore_random_states(
                state.values["random"][process],
                {name.partition(".")[2]: tensor for name, tensor in state.generators.items()
                 if name.startswith(f"{process}.")})
        scaler.load_state_dict(state.values["scaler"])
        progress = state.values["progress"]
        return Progress(**{**progress, "interval": Interval(**progress["interval"])})
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise UserError(f"{state.folder}: this is not a state to go on from ({error}); start over "
                        "with --fresh") from None


class _State(NamedTuple):
    """All of a state, checked, before any of it is put into place."""

    folder: Path
    values: dict[str, Any]
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    generators: dict[str, Tensor]


def _read(folder: Path) -> _State:
    return _State(folder, read_state(folder / "state.json"),
                  *(read_tensors(folder / f"{part}.safetensors")
                    for part in ("model", "optimizer", "random")))


def save_recent(run: Run, model: Transformer, update: int, keep: int) -> None:
    """Keep the weights of the last `keep` validations, for `average_recent`."""
    run.recent.mkdir(exist_ok=True)
    write_tensors(dict(model.named_parameters()), run.recent / f"{update:08d}.safetensors")
    for path in _recent(run, update)[:-keep]:
        path.unlink()


def average_recent(run: Run, update: int) -> tuple[dict[str, Tensor], int]:
    """The mean of the recent weights up to an update, and of how many it is."""
    paths = _recent(run, update)
    mean = {name: tensor.double() for name, tensor in read_tensors(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in read_tensors(path).items():
            mean[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in mean.items()}, len(paths)


def _recent(run: Run, update: int) -> list[Path]:
    return sorted(p for p in run.recent.glob("*.safetensors") if int(p.stem) <= update)


def _optimizer_tensors(model: Transformer, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's moments under the names of the parameters they belong to."""
    return {f"{kind}.{name}": torch.as_tensor(tensor).clone()
            for name, parameter in model.named_parameters()
            for kind, tensor in optimizer.state[parameter].items()}


def _restore_optimizer(
    model: Transformer, optimizer: torch.optim.Adam, tensors: dict[str, Tensor]
) -> None:
    names = [name for name, _ in model.named_parameters()]
    state = {n: {kind: tensors[f"{kind}.{name}"] for kind in ("step", "exp_avg", "exp_avg_sq")}
             for n, name in enumerate(names)}
    optimizer.load_state_dict({"state": state,
                               "param_groups": optimizer.state_dict()["param_groups"]})


def random_states() -> RandomStates:
    """Of this process and its device.

    Dropout draws from torch's; the order of the data comes from seed and epoch alone; Python's and
    NumPy's are for what a user adds.
    """
    of_torch = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        of_torch["cuda"] = torch.cuda.get_rng_state()
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {"python": random.getstate(), "numpy": [kind, np.asarray(keys).tolist(), *rest],
            "torch": of_torch}


def _restore_random_states(states: dict[str, Any], of_torch: dict[str, Tensor]) -> None:
    version, keys, gauss = states["python"]
    random.setstate((version, tuple(keys), gauss))
    np.random.set_state(tuple(states["numpy"]))
    torch.set_rng_state(of_torch["cpu"])
    if "cuda" in of_torch and torch.cuda.is_available():
        torch.cuda.set_rng_state(of_torch["cuda"])
