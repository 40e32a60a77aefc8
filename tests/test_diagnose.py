"""`python -m translate.diagnose`, as a user runs it, and what it must notice."""

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from translate.config import Config, load_config, save_config
from translate.data.batching import Batch, causal_mask, padding_mask
from translate.data.corpora import prepare
from translate.data.encoding import encode
from translate.diagnose import (
    attention_table,
    forward_and_backward,
    gradient_table,
    load,
    parameter_table,
)
from translate.diagnose_pictures import draw_positions, draw_schedule
from translate.errors import UserError
from translate.model.transformer import Transformer
from translate.runs import build_model, write_tensors

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


def diagnose(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "translate.diagnose", *arguments], cwd=folder,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
                          encoding="utf-8", timeout=300)


def a_batch() -> Batch:
    src = torch.tensor([[4, 5, 6, 3], [7, 3, 1, 1]])
    tgt_in, tgt_out = torch.tensor([[2, 4, 5], [2, 6, 1]]), torch.tensor([[4, 5, 3], [6, 3, 1]])
    return Batch(src, tgt_in, tgt_out, padding_mask(src), padding_mask(tgt_in) & causal_mask(3),
                 (tgt_out != 1).flatten().nonzero()[:, 0], 6)


def a_config() -> Config:
    return Config.model_validate({"name": "x", "data": {"corpus": "sample"}, "model": SIZES})


def test_a_healthy_model_is_described_and_drawn(tmp_path: Path) -> None:
    result = diagnose(tmp_path, "--config", str(tiny_run(tmp_path)), "--out", "pictures")
    assert result.returncode == 0, result.stderr
    assert "encoder.*.self_attention.w_q.weight" in result.stdout
    assert "is target_embedding.weight" in result.stdout
    assert re.search(r"decoder 0 +1\.000000 … 1\.000000 +0 +0 ", result.stdout)
    assert not re.search(r"\(padding: 0 of", result.stdout)  # or the check would be empty
    for name in ("positions", "schedule"):
        assert (tmp_path / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


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


def test_a_broken_checkpoint_fails_and_says_why(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path)
    result = diagnose(tmp_path, "--checkpoint", "checkpoints/tiny/last")
    assert result.returncode == 1
    assert result.stdout.startswith("checkpoint: checkpoints/tiny/last")
    assert "FAILED: the loss is nan" in result.stderr
    assert re.search(r"FAILED: the gradient of encoder\.0\S+ is not finite", result.stderr)
    assert "FAILED: attention leaks in cross 0" in result.stderr
    assert "Traceback" not in result.stderr


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


def test_attention_on_padding_or_on_the_future_is_noticed() -> None:
    model, batch = Transformer(10, 10, **SIZES).eval(), a_batch()
    _, weights = forward_and_backward(a_config(), model, batch)
    assert attention_table(weights, batch)[1] == []
    blind = dataclasses.replace(batch, src_mask=torch.ones_like(batch.src_mask),
                                tgt_mask=torch.ones_like(batch.tgt_mask))
    _, weights = forward_and_backward(a_config(), model, blind)
    _, problems = attention_table(weights, batch)
    assert len(problems) == 4  # two encoder layers, one decoder layer, one cross-attention
    assert not [p for p in problems if "decoder" not in p and not p.endswith("0 on the future")]
    assert not [p for p in problems if ": 0 of it" in p]


def test_tables_add_up() -> None:
    model = Transformer(10, 10, **SIZES, tie_source=True)
    numbers = re.findall(r"([\d,]+)$", parameter_table(model), re.MULTILINE)
    *parts, total = (int(number.replace(",", "")) for number in numbers)
    assert sum(parts) == total == sum(p.numel() for p in model.parameters())
    forward_and_backward(a_config(), model, a_batch())
    last = gradient_table(model).splitlines()[-1].split()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert last[0] == "all" and float(last[-1]) == pytest.approx(norm.item(), rel=0.01)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
def test_all_kinds_of_positions_are_drawn(positions: str) -> None:
    figure = draw_positions(Transformer(10, 10, **SIZES, positions=positions), 20)
    images = [axes for axes in figure.axes if axes.images]
    assert len(images) == (2 if positions == "relative" else 1)
    assert positions in images[0].get_title().lower()


def test_the_schedule_is_drawn_past_its_peak_and_to_the_end_of_training() -> None:
    for updates, shown in ((100, 12_000), (50_000, 50_000)):
        curve = draw_schedule(a_config(), updates).axes[0].lines[0]
        assert curve.get_xdata()[-1] == shown
        assert curve.get_xdata()[curve.get_ydata().argmax()] == 4000
