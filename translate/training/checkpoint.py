"""The state of training on disk: enough to go on as if nothing had happened."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.runs import Run, load_weights, read_tensors, write_json, write_tensors


@dataclass
class Progress:
    """How far training is, and what it has reached."""

    update: int = 0
    epoch: int = 0  # complete ones
    position: int = 0  # updates done in the epoch under way
    best: float | None = None  # of the early-stopping metric, higher is better
    best_update: int = 0
    stale: int = 0  # validations since the best one
    loss_sum: float = 0.0  # of training, since the last validation
    loss_tokens: int = 0
    seconds: float = 0.0  # of training, validations included
    validations: list[dict[str, float]] = field(default_factory=list)


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
) -> None:
    """Write `last/` beside the one that is there, then take its place."""
    partial = run.folder / "last.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    write_tensors(dict(model.named_parameters()), partial / "model.safetensors")
    write_tensors(_optimizer_tensors(model, optimizer), partial / "optimizer.safetensors")
    write_tensors(_random_states(), partial / "random.safetensors")
    write_json({"progress": asdict(progress), "scaler": scaler.state_dict()},
               partial / "state.json")
    previous = run.folder / "last.previous"
    if run.last.exists():  # else `previous` is the only state, left by a crash at this place
        shutil.rmtree(previous, ignore_errors=True)
        os.replace(run.last, previous)
    os.replace(partial, run.last)
    shutil.rmtree(previous, ignore_errors=True)


def load_last(
    run: Run, model: Transformer, optimizer: torch.optim.Adam, scaler: torch.amp.GradScaler
) -> Progress | None:
    """Continue from `last/`, if there is one: weights, optimiser, random states, position."""
    folder = run.last
    if not folder.exists():  # a crash between the two renames of save_last
        folder = run.folder / "last.previous"
    if not folder.exists():
        return None
    load_weights(model, folder / "model.safetensors")
    try:
        _restore_optimizer(model, optimizer, read_tensors(folder / "optimizer.safetensors"))
        _restore_random_states(read_tensors(folder / "random.safetensors"))
        state: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        scaler.load_state_dict(state["scaler"])
        return Progress(**state["progress"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise UserError(f"{folder / 'state.json'} and the tensors beside it are not a state to go "
                        f"on from ({error}); start over with --fresh") from None


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


def _random_states() -> dict[str, Tensor]:
    """What dropout draws from; the order of the data comes from seed and epoch alone."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda{n}": s for n, s in enumerate(torch.cuda.get_rng_state_all())}
    return states


def _restore_random_states(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    for n in range(torch.cuda.device_count()):
        if f"cuda{n}" in states:
            torch.cuda.set_rng_state(states[f"cuda{n}"], n)
