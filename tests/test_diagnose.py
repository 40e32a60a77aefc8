"""`python -m translate.diagnose`, as a user runs it."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from translate import command_line
from translate.config import load_config, save_config
from translate.data.corpora import prepare
from translate.data.encoding import encode
from translate.diagnose import load, main
from translate.errors import UserError
from translate.runs import build_model
from translate.storage import write_tensors
from translate.training.trainer import Trainer

SIZES = {"d_model": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 1, "d_ff": 32}


def tiny_run(folder: Path) -> Path:
    """A config over aligned files, forty pairs of uneven length."""
    for split in ("train", "validation", "test"):
        for language, words in (("de", ["der", "Hund", "läuft"]), ("en", ["the", "dog", "runs"])):
            lines = [" ".join((words * 9)[:2 + n % (7 if language == "de" else 5)]) + "."
                     for n in range(40)]
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = {split: [str(folder / f"{split}.de"), str(folder / f"{split}.en")]
             for split in ("train", "validation", "test")}
    config = {"name": "tiny", "device": "cpu", "model": SIZES,
              "data": {"corpus": "files", "max_length": 20, **files},
              "training": {"batch_tokens": 200, "warmup": 30}}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


Diagnose = Callable[..., tuple[int, str]]


@pytest.fixture
def diagnose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
             capsys: pytest.CaptureFixture[str]) -> Diagnose:
    """The command, in the test's folder and this process: its exit code and what it prints."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["diagnose", *arguments])
        code: Any = 0
        try:
            command_line.run(main)
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return call


def test_a_new_model_is_described_trained_a_little_tested_and_drawn(
    tmp_path: Path, diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, trained = Trainer.update, []
    monkeypatch.setattr(Trainer, "update", lambda self, batches: (
        trained.append(self.model.training), update(self, batches)))
    code, out = diagnose("--config", str(tiny_run(tmp_path)), "--out", "pictures", "--steps", "30")
    assert code == 0, out
    assert trained == [True] * 30  # with dropout
    titles = re.findall(r"^(.+)\n=+$", out, re.MULTILINE)
    assert titles == ["Parameters", "Loss and gradients", "Attention, at initialisation",
                      "Scale of the states through depth", "Pictures", "Verdict"]
    padding = re.search(r"tokens and (\d+) \+ (\d+) of padding", out)
    assert padding and padding[1] != "0" != padding[2]  # or the shares on it would say nothing
    assert "encoder.*.self_attention.w_q.weight" in out
    assert "is target_embedding.weight" in out
    before, after = (float(re.search(rf"^{label}: ([\d.]+) nats a token", out, re.M)[1])
                     for label in ("at initialisation", "after 30 updates"))
    assert after < 0.8 * before
    assert re.search(r"^decoder 0 .*\d → \d", out, re.MULTILINE)
    assert re.search(r"^decoder 0 +1\.000000 … 1\.000000 +0 +0 ", out, re.MULTILINE)
    verdicts = out.split("=\n")[-1].splitlines()
    assert len(verdicts) == 15 and all(line.startswith("ok  ") for line in verdicts)
    for name in ("gradients", "activations", "positions", "schedule"):
        assert (tmp_path / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "checkpoints").exists()  # it is not a run


def test_a_mistake_in_the_source_that_shows_only_after_updates_fails(tmp_path: Path) -> None:
    """A mean over time, behind a gate that is closed at initialisation and then learned."""
    shutil.copytree(Path(__file__).parents[1] / "translate", tmp_path / "translate")
    path = tmp_path / "translate" / "model" / "layers.py"
    source = path.read_text(encoding="utf-8")
    for old, new in (
            ("from torch import Tensor, nn\n", "import torch\nfrom torch import Tensor, nn\n"),
            ("        self.w_2 = Linear(d_ff, d_model)\n",
             "        self.w_2 = Linear(d_ff, d_model)\n"
             "        self.gate = nn.Parameter(torch.zeros(1))\n"),
            ("return self.w_2(", "return self.gate * x.mean(dim=1, keepdim=True) + self.w_2(")):
        assert source.count(old) == 1
        source = source.replace(old, new)
    path.write_text(source, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "translate.diagnose", "--config", str(tiny_run(tmp_path)),
         "--steps", "2"],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
        encoding="utf-8", timeout=300)
    assert (result.returncode, result.stderr) == (1, "")
    assert ("FAILED   no logit depends on a later target token\n"
            "         - from decoder 0 on, position 0 sees position 1 (in training and evaluation)"
            ) in result.stdout
    assert "FAILED   no logit depends on padding\n         - from encoder 0 on," in result.stdout


def tiny_checkpoint(folder: Path) -> Path:
    """An untrained run of `tiny_run` with one weight that is not a number."""
    config = load_config(tiny_run(folder))
    encoded = encode(config, prepare(config.data, folder / "data"))
    model = build_model(config, len(encoded.source.vocabulary), len(encoded.target.vocabulary))
    with torch.no_grad():
        model.encoder[1].feed_forward.w_2.bias[0] = torch.nan
    run = folder / "checkpoints" / "tiny"
    (run / "last").mkdir(parents=True)
    save_config(config, run / "config.yaml")
    shutil.copytree(encoded.text_folder, run / "text")
    write_tensors(dict(model.named_parameters()), run / "last" / "model.safetensors")
    return run


def test_a_broken_checkpoint_fails_and_says_why(tmp_path: Path, diagnose: Diagnose) -> None:
    tiny_checkpoint(tmp_path)
    code, out = diagnose("--checkpoint", "checkpoints/tiny/last")
    assert code == 1
    assert "\ncheckpoints/tiny/last: nan nats a token\n" in out
    assert "\nFAILED   the loss and all gradients are finite\n         - the loss is nan\n" in (
        out)
    assert "\nFAILED   no attention falls on padding or on the future\n         - cross 0" in (
        out)
    assert re.search(r"^         - and \d+ more$", out, re.MULTILINE)


def test_a_checkpoint_of_another_vocabulary_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_checkpoint(tmp_path)
    path = run / "text" / "source.json"
    path.write_text(path.read_text(encoding="utf-8").replace("Hund", "Katze"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    options = argparse.Namespace(checkpoint=run / "last", overrides=[])
    with pytest.raises(UserError, match=r"files has changed since .* was trained on it"):
        load(options)
