"""A run folder, `checkpoints/<name>/`: where its parts lie, and a trained model out of it."""

import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from translate.allocator import keep_freed_memory
from translate.config import Config, load_config, save_config
from translate.data.encoding import TextSide, load_text
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.storage import read_state, read_tensors

BASE = Path("checkpoints")


@dataclass(frozen=True)
class Run:
    """The parts of a run folder; nothing in it can run code when it is opened."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def text(self) -> Path:
        return self.folder / "text"

    @property
    def best(self) -> Path:
        return self.folder / "best"

    @property
    def last(self) -> Path:
        return self.folder / "last"

    @property
    def previous(self) -> Path:
        """The state before `last`, for when that is damaged."""
        return self.folder / "last.previous"

    @property
    def recent(self) -> Path:
        """Weights of the last validations, for averaging."""
        return self.folder / "recent"

    @property
    def report(self) -> Path:
        """Written when training is complete."""
        return self.folder / "report.json"

    def is_finished(self, config: Config) -> bool:
        """Whether it was trained as long as the config asks for."""
        if not self.report.exists():
            return False
        try:
            return bool(read_state(self.report).get("limits") == config.training.limits())
        except UserError as damage:
            raise UserError(f"{damage}\nRemove it, and the same command scores the run and writes "
                            "it again") from None


class Trained(NamedTuple):
    """A model and the text that goes in and comes out of it."""

    config: Config
    model: Transformer
    source: TextSide
    target: TextSide
    checkpoint: Path


# Settings that a run may change when it goes on: how long it trains, where, and how it decodes.
_MAY_CHANGE = ("device", "decoding", "data.root", "training.epochs", "training.max_updates",
               "training.patience", "training.save_minutes", "training.log_every",
               "training.compile", "training.gradient_checkpointing")


def open_run(config: Config, fresh: bool) -> Run:
    """The folder of this run, new or to be continued; `fresh` moves an old one aside.

    Raises:
        UserError: the folder holds a run with other settings.
    """
    run = Run(BASE / config.name)
    if fresh and run.folder.exists():
        n = next(n for n in itertools.count(1) if not aside(run, n).exists())
        run.folder.rename(aside(run, n))
        print(f"moved {run.folder} to {aside(run, n)}", file=sys.stderr)
    if run.best.exists():  # else nothing has been trained yet
        old, new = (_fixed_settings(c) for c in (load_config(run.config), config))
        changed = [f"{key}: {old.get(key)} -> {new.get(key)}"
                   for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
        if changed:
            raise UserError(f"{run.folder} holds a run with other settings ({'; '.join(changed)})."
                            "\nStart over with --fresh (the old run is moved aside), or name "
                            "another one with --set name=…")
    run.folder.mkdir(parents=True, exist_ok=True)
    _check_links(run)
    save_config(config, run.config)
    return run


def _check_links(run: Run) -> None:
    """What is written to a run that a stranger has made stays in its folder."""
    for path in run.folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(run.folder.resolve()):
            raise UserError(f"{path} leads out of the run folder; put what it points at in its "
                            "place")


def aside(run: Run, n: int) -> Path:
    return run.folder.with_name(f"{run.folder.name}.old{n}")


def _fixed_settings(config: Config) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.model_dump(mode="json").items():
        flat |= ({f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict)
                 else {key: value})
    return {key: value for key, value in flat.items()
            if key not in _MAY_CHANGE and key.split(".")[0] not in _MAY_CHANGE}


def newest_checkpoint(base: Path = BASE) -> Path:
    """The best checkpoint of the run that was written to last."""
    weights = sorted(base.glob("*/best/model.safetensors"), key=lambda path: path.stat().st_mtime)
    if not weights:
        raise UserError(f"{base}/ holds no trained model yet: `make train` makes one in minutes, "
                        "or name one with --checkpoint")
    return weights[-1].parent


def find_checkpoint(path: Path | None) -> Path:
    """A folder with weights: one named itself, the best of a run folder, or the newest run's."""
    if path is None:
        return newest_checkpoint()
    for folder in (path, Run(path).best):
        if (folder / "model.safetensors").exists():
            return folder
    raise UserError(f"{path}: no checkpoint here (neither model.safetensors nor "
                    "best/model.safetensors); name a run folder such as checkpoints/sample")


def load_trained(checkpoint: Path, overrides: Sequence[str] = ()) -> Trained:
    """The model of a checkpoint folder, in evaluation mode on the configured device."""
    run = Run(checkpoint.resolve().parent)
    config = load_config(run.config, overrides)
    _check_links(run)
    device = pick_device(config.device)
    source, target = load_text(run.text, config.text.lowercase)
    path = checkpoint / "model.safetensors"
    weights = read_tensors(path)
    sizes = len(source.vocabulary), len(target.vocabulary)
    with torch.device("meta"):  # a config can ask for more than fits into memory
        check_weights(build_model(config, *sizes), weights, path)
    model = build_model(config, *sizes)
    load_weights(model, weights, path)
    if device.type == "cpu":
        keep_freed_memory()
    return Trained(config, model.to(device).eval(), source, target, checkpoint)


def load_ensemble(checkpoints: Sequence[Path], overrides: Sequence[str] = ()) -> list[Trained]:
    """Models that are to translate together; the first one's config says how.

    Raises:
        UserError: two of them read or write other tokens.
    """
    first, *others = ensemble = [load_trained(path, overrides) for path in checkpoints]
    for other in others:
        if _text(other) != _text(first):
            raise UserError(f"{first.checkpoint} and {other.checkpoint} cannot translate together: "
                            "their vocabularies differ; an ensemble is trained on one corpus with "
                            "the same text settings and other seeds or sizes")
    return ensemble


def _text(trained: Trained) -> list[Any]:
    """What must be the same for models of an ensemble."""
    return [trained.config.text.lowercase, *((side.vocabulary.tokens, side.pipeline.subwords and
                                              side.pipeline.subwords.model)
                                             for side in (trained.source, trained.target))]


def build_model(config: Config, source_size: int, target_size: int) -> Transformer:
    try:
        return Transformer(source_size, target_size, **config.model.model_dump())
    except ValueError as error:
        raise UserError(f"the model does not fit the vocabularies: {error}") from None
    except RuntimeError as error:
        if "alloc" not in str(error) and "memory" not in str(error):
            raise
        raise UserError("a model of this size does not fit into memory: lower model.d_model, "
                        "model.d_ff or the number of layers") from None


def pick_device(name: str) -> torch.device:
    """`auto` is a GPU if there is one; of several processes on a machine each has its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device == torch.device("cuda"):
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device={name}: PyTorch sees {torch.cuda.device_count()} CUDA devices "
                        "here; use device=auto or device=cpu")
    return device


def load_weights(model: Transformer, loaded: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights read from a file into the model, each checked by name and shape."""
    check_weights(model, loaded, path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(loaded[name])


def check_weights(model: Transformer, loaded: Mapping[str, Tensor], path: Path) -> None:
    """
    Raises:
        UserError: naming the first tensor that the model has in another shape, or not at all.
    """
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() | loaded.keys()):
        shapes = [tuple(tensors[name].shape) if name in tensors else "nothing"
                  for tensors in (parameters, loaded)]
        if shapes[0] != shapes[1]:
            raise UserError(f"{path}: these weights belong to another configuration: {name} should "
                            f"be {shapes[0]} and is {shapes[1]}")
