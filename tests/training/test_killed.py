"""Runs that are killed (SIGKILL) at any moment, and started again until they are complete."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from translate.config import Config
from translate.storage import read_tensors

# A state is written after every update, so that many of the kills come while one is.
TRAINING = {"accumulate": 2, "validate_every": 4, "epochs": 4, "average": 2, "log_every": 3,
            "save_minutes": 0}
UPDATES = 24


class Runs:
    """Starts a run; gives its process and, later, how it ended."""

    def __init__(self, folder: Path, config: Config) -> None:
        (folder / "config.json").write_text(config.model_dump_json(), encoding="utf-8")
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("forked_runs.py"), folder, "config.json"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def start(self, name: str, max_updates: int = UPDATES, dies_at: int | None = None) -> int:
        assert self._process.stdin
        order = {"name": name, "max_updates": max_updates, "dies_at": dies_at}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._number()

    def end(self) -> int:
        return self._number()

    def _number(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def runs(configure: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory
         ) -> Iterator[Runs]:
    runs = Runs(tmp_path_factory.mktemp("killed"), configure(TRAINING))
    runs.start("whole")
    assert runs.end() == 0
    yield runs
    runs.close()


def assert_same_end(runs: Runs, name: str, reference: str = "whole") -> None:
    """Weights, moments, random states and curves are those of a run that nobody killed."""
    whole, other = (runs.folder / "checkpoints" / n for n in (reference, name))
    files = [f"{state}/{part}.safetensors" for state, part in (
        ("last", "model"), ("last", "optimizer"), ("last", "random"), ("best", "model"))]
    for file in files:
        one, two = read_tensors(whole / file), read_tensors(other / file)
        assert one.keys() == two.keys()
        assert [n for n in one if not torch.equal(one[n], two[n])] == [], file
    states = [json.loads((run / "last/state.json").read_text("utf-8"))["progress"]
              for run in (whole, other)]
    for state in states:
        for timed in (state, state["interval"], *state["validations"]):
            del timed["seconds"]
    assert states[0] == states[1]
    for name in ("loss", "learning_rate", "gradient_norm"):
        points = [[(point.step, point.value) for point in EventAccumulator(
            str(run / "tensorboard"), {"scalars": 0}).Reload().Scalars(f"train/{name}")]
                  for run in (whole, other)]
        assert points[0] == points[1]
    end = states[0]["update"]
    assert [step for step, _ in points[0]] == sorted(
        {end, *range(3, end, 3), *range(4, end, 4), *range(6, end, 6)})


def test_a_run_killed_at_twenty_random_moments_ends_like_one_that_was_not(runs: Runs) -> None:
    choose = random.Random(1)
    killed = 0
    started = time.monotonic()
    while killed < 20:
        process = runs.start("random")
        time.sleep(choose.uniform(0.02, 0.25))
        subprocess.run(["kill", "-KILL", str(process)], check=False, stderr=subprocess.DEVNULL)
        ended = runs.end()
        killed += ended == -signal.SIGKILL
        if ended == 0:  # complete before its time: from the start again
            assert_same_end(runs, "random")
            subprocess.run(["rm", "-r", runs.folder / "checkpoints/random"], check=True)
        assert ended in (0, -signal.SIGKILL)
        assert time.monotonic() - started < 300
    runs.start("random")
    assert runs.end() == 0
    assert_same_end(runs, "random")


def test_a_run_killed_before_any_change_of_a_name_ends_like_one_that_was_not(runs: Runs) -> None:
    runs.start("short", max_updates=5)
    assert runs.end() == 0
    for call in range(1, 1000):
        runs.start("renames", max_updates=5, dies_at=call)
        ended = runs.end()
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    assert call > 16  # the changes of a save, and of a validation with its save
    assert_same_end(runs, "renames", "short")
