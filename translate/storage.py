"""Tensors and JSON on disk: atomic, checked when they are read, and unable to run code."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from translate.errors import UserError

VERSION = 1  # of the files written here


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """A safetensors file; its metadata hold the version and a checksum of all that is in it."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"version": str(VERSION), "sha256": _tensors_checksum(on_cpu)}
    _atomically(path, lambda partial: save_file(on_cpu, partial, metadata))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """
    Raises:
        UserError: the file is missing, damaged, or of a later version.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot read these tensors: {error}") from None
    # A file that another program wrote has neither.
    _check_version(metadata.get("version", "0"), path)
    if metadata.get("sha256", expected := _tensors_checksum(tensors)) != expected:
        raise _damaged(path)
    return tensors


def write_json(value: Any, path: Path) -> None:
    """For people too."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    _atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_state(state: dict[str, Any], path: Path) -> None:
    """JSON with a version and a checksum."""
    write_json({"version": VERSION, "sha256": _json_checksum(state), **state}, path)


def read_state(path: Path) -> dict[str, Any]:
    """
    Raises:
        UserError: the file is missing, damaged, or of another version.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        version, checksum = state.pop("version", 0), state.pop("sha256", None)
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise _damaged(path) from None
    _check_version(version, path)
    if checksum != _json_checksum(state):
        raise _damaged(path)
    return dict(state)


def _atomically(path: Path, write: Callable[[Path], object]) -> None:
    """A crash, even of the machine, leaves the previous file or the whole new one."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        write(partial)
        flush_to_disk(partial)
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            partial.unlink()
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot write it: {reason}") from None


def flush_to_disk(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """Of names, types, shapes and values."""
    checksum = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        checksum.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return checksum.hexdigest()


def _json_checksum(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _check_version(version: Any, path: Path) -> None:
    if str(version) not in ("0", str(VERSION)):
        raise UserError(f"{path}: its version is {version}, and this program knows {VERSION}: "
                        "another version of the program has written it")


def _damaged(path: Path) -> UserError:
    return UserError(f"{path}: it is damaged: its content does not fit its checksum")
