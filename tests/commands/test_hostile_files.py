"""Run folders, configs and archives that a stranger has made: nothing in them runs."""

import ast
import json
import os
import pickle
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from translate.config import load_config
from translate.errors import UserError

PACKAGE = Path(__file__).parents[2] / "translate"
RUN = Path("checkpoints/tiny")
COMMANDS = {
    "train": ["--config", "tiny.yaml"],
    "decode": ["--checkpoint", RUN, "Der Hund schläft."],
    "evaluate": ["--checkpoint", RUN],
    "diagnose": ["--checkpoint", RUN],
    "export": [RUN, "--to", "ctranslate2"],
}


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def put_pickles(folder: Path, sign: Path) -> None:
    """In the place of every file there."""
    for path in [folder] if folder.is_file() else filter(Path.is_file, folder.rglob("*")):
        if path.suffix == ".safetensors":
            torch.save({"weight": Malicious(sign)}, path)
        else:
            path.write_bytes(pickle.dumps(Malicious(sign)))


def test_what_the_tests_here_put_into_files_would_run_if_it_were_unpickled(tmp_path: Path) -> None:
    for name, load in (("a.json", pickle.load), ("a.safetensors", partial(
            torch.load, weights_only=False))):
        (tmp_path / name).touch()
        put_pickles(tmp_path / name, tmp_path / "ran")
        with open(tmp_path / name, "rb") as file:
            load(file)
        (tmp_path / "ran").rmdir()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("part", ["config.yaml", "text", "best", "."])
def test_nothing_in_a_run_folder_is_unpickled(
        copy: Path, shell: Any, command: str, part: str) -> None:
    (copy / RUN / "report.json").unlink()  # or there would be nothing to train
    put_pickles(copy / RUN / part, copy / "ran")
    result = shell.call(copy, command, *COMMANDS[command])
    assert not (copy / "ran").exists()
    assert result.code == 2 and "Traceback" not in result.err
    message = result.err[result.err.index("error: "):]
    assert len(message.splitlines()) <= 2 and str(RUN) in message


@pytest.mark.parametrize("part", ["last", "report.json", "recent"])
def test_nothing_in_the_state_of_a_run_is_unpickled(
        copy: Path, shell: Any, part: str) -> None:
    put_pickles(copy / RUN / part, copy / "ran")
    if part != "report.json":
        (copy / RUN / "report.json").unlink()
    result = shell.call(copy, "train", *COMMANDS["train"])
    assert not (copy / "ran").exists() and "Traceback" not in result.err
    assert str(RUN / part) in result.err
    assert result.code == (0 if part == "last" else 2)  # it goes on from the state before


def test_objects_of_python_in_a_config_are_refused(tmp_path: Path) -> None:
    for tag in ("!!python/object/apply:os.mkdir", "!!python/object/new:os.mkdir"):
        (tmp_path / "run.yaml").write_text(f"name: {tag} [{tmp_path}/ran]\n", encoding="utf-8")
        with pytest.raises(UserError, match="could not determine a constructor for the tag"):
            load_config(tmp_path / "run.yaml")
        with pytest.raises(UserError, match="could not determine a constructor for the tag"):
            load_config(PACKAGE.parent / "configs/sample.yaml", [f"seed={tag} [{tmp_path}/ran]"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_that_leads_out_of_a_run_folder_is_refused(
        copy: Path, shell: Any, refused: Any, command: str) -> None:
    outside = copy / "outside"
    outside.mkdir()
    shutil.rmtree(copy / RUN / "evaluation")
    (copy / RUN / "evaluation").symlink_to(outside)
    refused(shell.call(copy, command, *COMMANDS[command]),
            "tiny/evaluation leads out of the run folder; put what it points at in its place")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "..", ".x", "", "a\nb", "a" * 101])
def test_the_name_of_a_run_is_no_way_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "run.yaml").write_text(
        yaml.safe_dump({"name": name, "data": {"corpus": "sample"}}), encoding="utf-8")
    with pytest.raises(UserError, match=r"name=.*: string should"):
        load_config(tmp_path / "run.yaml")


def test_a_config_that_asks_for_a_huge_model_is_told_before_it_is_made(
        copy: Path, shell: Any, refused: Any) -> None:
    refused(shell.call(copy, "decode", "--set", "model.d_ff=1000000000", "Der Hund"),
            "best/model.safetensors: these weights belong to another configuration", "1000000000")


@pytest.mark.parametrize("tokens", [
    {}, 7, ["<unk>", "<pad>", "<sos>", "<eos>", 5], ["<unk>", "<pad>", "<sos>", "<eos>", "\ud800"],
    ["a", "b"]], ids=str)
def test_a_vocabulary_that_is_none_is_refused(
        copy: Path, shell: Any, refused: Any, tokens: Any) -> None:
    (copy / RUN / "text" / "target.json").write_text(json.dumps(tokens), encoding="utf-8")
    refused(shell.call(copy, "decode", "Der Hund"), "tiny/text/target.json: not a readable")


def test_no_module_uses_what_could_run_the_content_of_a_file() -> None:
    forbidden = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load",
                 "yaml.unsafe_load", "yaml.full_load", "torch.load", "np.fromfile"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "marshal", "shelve", "dill", "subprocess"}, path
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in forbidden, path
                assert not ast.unparse(node.func).endswith((".extractall", ".extract")), path
                assert not {k.arg for k in node.keywords} & {"shell", "allow_pickle"}, path
