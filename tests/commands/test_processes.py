"""`torchrun … -m translate.train`: one run trained by several processes, here on CPUs over gloo."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from translate.storage import read_tensors

SETTINGS = ("--config", "tiny.yaml", "--set", "training.accumulate=2", "--set",
            "training.log_every=1")


def torchrun(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m",
         "translate.train", *SETTINGS, *arguments],
        cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)


def curve(folder: Path, name: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0}).Reload()
    return [(point.step, point.value) for point in events.Scalars(name)]


def test_two_processes_take_the_updates_that_one_takes_and_one_can_go_on_from_theirs(
        corpus: Path, shell: Any) -> None:
    two = torchrun(corpus, "--set", "name=two", "--set", "training.max_updates=5")
    one = shell.call(corpus, "train", *SETTINGS, "--set", "name=one", "--set",
                     "training.max_updates=9")
    assert one.code == 0, one.err
    out, err = two.communicate(timeout=300)
    assert two.returncode == 0, err.decode()
    assert err.count(b"2 processes") == 1 and out.count(b"trained in") == 1  # the first one's alone
    further = shell.call(corpus, "train", *SETTINGS, "--set", "name=two", "--set",
                         "training.max_updates=9")
    assert further.code == 0, further.err
    assert "going on after update 5" in further.err

    runs = [corpus / "checkpoints" / name for name in ("one", "two")]
    for name in ("train/loss", "train/gradient_norm", "train/padding_share"):
        expected, found = (curve(run, name) for run in runs)
        assert [step for step, _ in found] == list(range(1, 10))
        assert [value for _, value in found] == pytest.approx(
            [value for _, value in expected], rel=1e-4)
    weights = [read_tensors(run / "last" / "model.safetensors") for run in runs]
    for name, tensor in weights[0].items():
        assert torch.allclose(weights[1][name], tensor, rtol=1e-3, atol=1e-4), name


def test_a_process_that_dies_ends_the_job_with_a_message_and_the_run_can_go_on(
        corpus: Path, shell: Any) -> None:
    last = corpus / "checkpoints" / "dead" / "last"
    job = torchrun(corpus, "--set", "name=dead", "--set", "training.save_minutes=0", "--set",
                   "training.epochs=1000")
    while not last.exists() and job.poll() is None:
        time.sleep(0.05)
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    second = max(int(child) for child in children)
    os.kill(second, signal.SIGKILL)
    _, err = job.communicate(timeout=120)
    assert job.returncode != 0
    said = err.decode()
    assert ("another process of this job has ended before its time" in said
            or "stopped by SIGTERM after update" in said)
    assert str(second) in said  # torchrun's own account of it
    further = shell.call(corpus, "train", *SETTINGS, "--set", "name=dead", "--set",
                         "training.epochs=1000", "--set", "training.max_updates=1")
    assert further.code == 0, further.err
    assert "going on after update" in further.err
