"""One tiny run for all tests of the commands, interrupted and resumed; and a shell to run them."""

import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from translate import command_line

NOUNS = {"Der Hund": "The dog", "Die Katze": "The cat", "Der Bär": "The bear",
         "Das Mädchen": "The girl", "Der Löwe": "The lion"}
VERBS = {"schläft": "sleeps", "läuft": "runs", "sitzt im Café": "sits in the café"}
TIMES = {"heute": "today", "morgen": "tomorrow", "später": "later", "nie": "never"}
PAIRS = [(f"{noun} {verb} {when}.", f"{NOUNS[noun]} {VERBS[verb]} {TIMES[when]}.")
         for noun in NOUNS for verb in VERBS for when in TIMES]


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Shell:
    """Commands in processes of their own, or in this one, which saves a start of some seconds."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch = patch
        self._capture = capture

    @staticmethod
    def start(folder: Path, command: str, *arguments: str, **streams: Any) -> "subprocess.Popen":
        """A process, in the poorest locale."""
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("LC_", "LANG", "PYTHON"))}
        return subprocess.Popen(
            [sys.executable, "-m", f"translate.{command}", *arguments], cwd=folder,
            env={**environment, "LC_ALL": "POSIX", "OMP_NUM_THREADS": "1"},
            # A shell that runs the tests in the background has them, and this, ignore Ctrl-C.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})

    @staticmethod
    def finish(process: "subprocess.Popen", stdin: bytes | None = None) -> Result:
        out, err = process.communicate(stdin, timeout=600)
        return Result(process.returncode, (out or b"").decode(), (err or b"").decode())

    def call(self, folder: Path, command: str, *arguments: object, stdin: bytes = b"") -> Result:
        """Run it in this process."""
        self._patch.chdir(folder)
        self._patch.setattr(sys, "argv", [command, *map(str, arguments)])
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            command_line.run(importlib.import_module(f"translate.{command}").main)
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *self._capture.readouterr())


class Trained(NamedTuple):
    folder: Path  # where the commands are run
    update: int  # of the last validation before the interruption
    epochs: int  # in all
    interrupted: Result
    resumed: Result


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.fixture
def refused() -> Any:
    """Asserts what is true of every mistake of a user, and that the message has some parts."""
    def check(result: Result, *parts: str) -> None:
        assert (result.code, result.out) == (2, "")
        assert "Traceback" not in result.err
        message = result.err[result.err.index("error: "):]  # argparse puts its usage before
        assert len(message.splitlines()) <= 2
        for part in parts:
            assert part in message

    return check


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run that was interrupted after its first validation, and then went on to its end."""
    folder = tmp_path_factory.mktemp("work")
    write_corpus(folder)
    write_config(folder, epochs=200)  # an end, should the test run be killed
    last = folder / "checkpoints" / "tiny" / "last"
    process = Shell.start(folder, "train", "--config", "tiny.yaml")
    while not last.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    interrupted = Shell.finish(process)
    assert last.exists(), interrupted.err
    progress = json.loads((last / "state.json").read_text(encoding="utf-8"))["progress"]
    epochs = progress["epoch"] + 2
    write_config(folder, epochs)
    resumed = Shell.finish(Shell.start(folder, "train", "--config", "tiny.yaml"))
    assert resumed.code == 0, resumed.err
    return Trained(folder, progress["update"], epochs, interrupted, resumed)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with the corpus and the config, and nothing trained."""
    write_corpus(tmp_path)
    write_config(tmp_path, epochs=2)
    return tmp_path


@pytest.fixture
def copy(trained: Trained, tmp_path: Path) -> Path:
    """A copy of that folder, to do with as a test likes."""
    return shutil.copytree(trained.folder, tmp_path / "copy")


def write_corpus(folder: Path) -> None:
    """Sixty pairs; eight times over, so that an epoch is enough to learn something."""
    for split, pairs in (("train", PAIRS * 8), ("validation", PAIRS[::7]), ("test", PAIRS[::4])):
        for language, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_config(folder: Path, epochs: int) -> None:
    """Of a lowercased run of seconds."""
    config = {
        "name": "tiny", "device": "cpu",
        "data": {"corpus": "files", "max_length": 30,
                 **{split: [f"{split}.de", f"{split}.en"]
                    for split in ("train", "validation", "test")}},
        "text": {"lowercase": True, "min_freq": 1},
        "model": {"d_model": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 64,
                  "dropout": 0.0},
        "training": {"epochs": epochs, "batch_tokens": 120, "warmup": 40, "factor": 0.5,
                     "average": 2},
        "decoding": {"beam": 3},
    }
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
