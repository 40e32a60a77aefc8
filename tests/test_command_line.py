"""What all commands share: help, mistakes, UTF-8; then `prepare`, and the list of the Makefile."""

import errno
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from translate import command_line
from translate.config import Config
from translate.errors import UserError

ROOT = Path(__file__).parents[1]
OPTIONS = {
    "prepare": ["--config", "--set"],
    "train": ["--config", "--set", "--fresh"],
    "evaluate": ["--checkpoint", "--test-set", "--src", "--ref", "--set"],
    "decode": ["--file", "--checkpoint", "--beam", "--greedy", "--sample", "--temperature",
               "--top-k", "--top-p", "--seed", "--n-best", "--replace-unk", "--score",
               "--attention", "--attention-of", "--workers", "--engine", "--set"],
    "export": ["--to", "--quantization", "--output", "--set"],
    "diagnose": ["--config", "--checkpoint", "--steps", "--out", "--set"],
}


def python(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess":
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, timeout=300)


def code_of(main: Any) -> int:
    with pytest.raises(SystemExit) as end:
        command_line.run(main)
    return int(end.value.code or 0)


@pytest.mark.parametrize("command", OPTIONS)
def test_help_says_what_a_command_does_and_explains_every_option(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [command, "--help"])
    assert code_of(importlib.import_module(f"translate.{command}").main) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: python -m translate.{command} ")
    description = text.split("\n\n", 1)[1].split("options:\n")[0]
    assert len(description.split()) >= 20
    assert max(map(len, text.splitlines())) <= 100
    for option in OPTIONS[command]:
        explained = re.search(rf"^  {option}\b(.*\n(?: {{10,}}.*\n?)*)", text, re.MULTILINE)
        assert explained and len(explained[1].split()) >= 4, option


@pytest.mark.parametrize(("arguments", "parts"), [
    (["--config", "nowhere.yaml"], ["nowhere.yaml", "cannot read this config"]),
    (["--config", "run.yaml", "--set", "training.warmpu=3"],
     ["run.yaml", "training.warmpu", "did you mean warmup?"]),
    (["--config", "run.yaml", "--set", "training.epochs=many"], ["training.epochs", "'many'"]),
    (["--config", "run.yaml", "--set", "epochs"], ["--set epochs", "key=value"]),
    (["--config", "run.yaml", "--set", "model.heads=3"], ["heads=3", "d_model=512"]),
    (["--config", "run.yaml", "--set", "data.train=[nowhere.de, nowhere.en]"], ["nowhere.de"]),
    (["--config", "broken.yaml"], ["broken.yaml", "not valid YAML"]),
])
@pytest.mark.parametrize("command", ["prepare", "train"])
def test_a_mistake_is_told_in_a_line_or_two_with_code_2(
    command: str, arguments: list[str], parts: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    write_files_corpus(tmp_path)
    (tmp_path / "broken.yaml").write_text("name: [", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [command, *arguments])
    assert code_of(importlib.import_module(f"translate.{command}").main) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and len(err.splitlines()) <= 2
    assert "Traceback" not in err
    for part in parts:
        assert part in err


def test_set_changes_any_setting_of_the_config(tmp_path: Path) -> None:
    write_files_corpus(tmp_path)
    arguments = command_line.parser("train", "")
    command_line.add_config_options(arguments)
    config = command_line.config_from(arguments.parse_args([
        "--config", str(tmp_path / "run.yaml"), "--set", "training.warmup=2000",
        "--set", "training.warmup=2500", "--set", "name=other",
        "--set", "text.subwords={type: unigram, size: 500}"]))
    assert isinstance(config, Config)
    assert (config.training.warmup, config.name) == (2500, "other")
    assert config.text.subwords and config.text.subwords.type == "unigram"


def test_a_process_ends_with_code_2_and_no_traceback(tmp_path: Path) -> None:
    result = python(tmp_path, "-m", "translate.prepare", "--config", "nowhere.yaml")
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode().startswith("error: nowhere.yaml: ")
    assert result.stderr.count(b"\n") == 1


def test_an_interruption_is_code_130_and_a_mistake_code_2(
    capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def mistaken() -> None:
        raise UserError("the file is upside down")

    assert code_of(interrupted) == 130
    assert code_of(mistaken) == 2
    assert capsys.readouterr().err == "\ninterrupted\nerror: the file is upside down\n"


@pytest.mark.parametrize(("number", "says"), [
    (errno.ENOSPC, "No space left on device"), (errno.EACCES, "Permission denied"),
    (errno.EROFS, "Read-only file system"), (errno.EIO, "Input/output error"),
    (errno.EISDIR, "Is a directory"), (errno.ENOTDIR, "Not a directory"),
    (errno.ENAMETOOLONG, "File name too long"), (errno.EDQUOT, "Disk quota exceeded"),
])
def test_what_the_system_refuses_is_told_with_the_path_and_code_2(
        number: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> None:
        raise OSError(number, os.strerror(number), "a/b")

    assert code_of(refused) == 2
    assert capsys.readouterr().err == f"error: a/b: {says}\n"


def test_a_file_whose_name_is_not_utf_8_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> None:
        raise UserError(f"{os.fsdecode(b'a' + bytes([0xff]))}: gone")

    assert code_of(refused) == 2
    assert capsys.readouterr().err == "error: a\\udcff: gone\n"


def test_output_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import sys; from translate.command_line import run; "
        "run(lambda: print('„Café“ 🐻') or print('ä', file=sys.stderr))", encoding="utf-8")
    for environment in ({"PYTHONIOENCODING": "latin-1"},
                        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"}):
        result = python(tmp_path, "program.py", **environment)
        assert (result.stdout.decode(), result.stderr.decode()) == ("„Café“ 🐻\n", "ä\n")


def test_a_closed_pipe_ends_a_command_silently(tmp_path: Path) -> None:
    program = ("from translate.command_line import run\n"
               "run(lambda: [print('x' * 999) for _ in range(9999)])")
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"x" * 999 + b"\n"
    process.stdout.close()
    assert process.stderr and process.stderr.read() == b""
    assert process.wait(timeout=300) == 141
    process.stderr.close()


def write_files_corpus(folder: Path) -> None:
    files = {}
    for split, number in (("train", 6), ("validation", 2), ("test", 3)):
        for language, line in (("de", "Der Bär schläft."), ("en", "The bear sleeps.")):
            (folder / f"{split}.{language}").write_text(f"{line}\n" * number, encoding="utf-8")
        files[split] = [f"{split}.de", f"{split}.en"]
    config = {"name": "run", "data": {"corpus": "files", **files}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def test_prepare_makes_a_corpus_once_and_shows_its_table(tmp_path: Path) -> None:
    write_files_corpus(tmp_path)
    first, second = (python(tmp_path, "-m", "translate.prepare", "--config", "run.yaml")
                     for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr.decode()
    table = first.stdout.decode()
    for split, number in (("train", 6), ("validation", 2), ("test", 3)):
        assert re.search(rf"^{split} +{split}\.de, {split}\.en +{number} +-$", table, re.MULTILINE)
    (folder,) = (tmp_path / "data").iterdir()
    assert (folder / "train.de").read_text("utf-8") == "Der Bär schläft.\n" * 6
    ready, rest = second.stdout.decode().split("\n", 1)
    assert ready.endswith("prepared already") and rest == table


def test_decode_does_not_load_what_only_training_needs(tmp_path: Path) -> None:
    program = ("import sys, translate.decode\n"
               "print([name for name in ('torchtext', 'tensorboard', 'matplotlib', 'sacrebleu')"
               " if name in sys.modules])")
    assert python(tmp_path, "-c", program).stdout == b"[]\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_help_is_the_default_and_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets
    listed = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True,
                            encoding="utf-8", timeout=60)
    assert listed.returncode == 0 and listed.stderr == ""
    lines = dict(line.split(maxsplit=1) for line in listed.stdout.splitlines())
    assert list(lines) == targets[1].split()
    wanted = "train multi30k iwslt evaluate translate tensorboard test lint clean help"
    assert set(lines) >= set(wanted.split())
    assert all(len(text.split()) >= 3 for text in lines.values())
