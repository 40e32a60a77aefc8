"""`python -m translate.train`: a run from its beginning to its scores."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import yaml

from translate.data.lines import read_lines

RUN = Path("checkpoints", "tiny")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def test_training_ends_with_the_test_scores_and_the_next_commands(trained: Any) -> None:
    out, err = trained.resumed.out, trained.resumed.err
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith("test ")]
    assert rows == [["test", "set"], ["test", "greedy"], ["test", "beam"]]
    assert out.index("BLEU lowercased") < out.index("python -m translate.decode")
    assert "make tensorboard" in out
    assert f"epoch {trained.epochs}" in err and "validation loss" in err and "(best)" in err


def test_a_run_stopped_by_ctrl_c_says_so_and_goes_on_from_there(trained: Any) -> None:
    assert trained.interrupted.code == 130
    assert (f"stopped by SIGINT after update {trained.update:,}; the state is saved, and the same "
            "command goes on from there") in trained.interrupted.err
    assert "Traceback" not in trained.interrupted.err
    assert f"going on after update {trained.update:,}" in trained.resumed.err
    report = json.loads((trained.folder / RUN / "report.json").read_text(encoding="utf-8"))
    updates = [validation["update"] for validation in report["validations"]]
    assert updates == sorted(set(updates))
    assert report["updates"] == updates[-1] and report["epochs"] == trained.epochs


def test_sigterm_ends_a_run_as_ctrl_c_does_with_the_code_that_schedulers_know(
        corpus: Path, shell: Any) -> None:
    process, update = begin(corpus, shell)
    process.send_signal(signal.SIGTERM)
    result = shell.finish(process)
    assert result.code == 143
    assert "stopped by SIGTERM after update" in result.err and "Traceback" not in result.err
    saved = json.loads((corpus / RUN / "last/state.json").read_text("utf-8"))["progress"]["update"]
    assert f"after update {saved:,};" in result.err and saved >= update


def test_a_second_ctrl_c_stops_at_once(corpus: Path, shell: Any) -> None:
    process, _ = begin(corpus, shell, "--set", "training.batch_tokens=4000", "--set",
                       "training.accumulate=1000")  # seconds an update
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    result = shell.finish(process)
    assert result.code in (130, -signal.SIGINT)
    assert "Traceback" not in result.err


def begin(folder: Path, shell: Any, *arguments: str) -> tuple[Any, int]:
    """A run that saves its state after every update, once it has saved one."""
    process = shell.start(folder, "train", "--config", "tiny.yaml", "--set",
                          "training.epochs=1000", "--set", "training.save_minutes=0", *arguments)
    state = folder / RUN / "last/state.json"
    while not state.exists() and process.poll() is None:
        time.sleep(0.02)
    return process, json.loads(state.read_text("utf-8"))["progress"]["update"]


def test_a_run_that_is_being_trained_is_not_trained_by_another_process(
        corpus: Path, shell: Any, refused: Any) -> None:
    process, _ = begin(corpus, shell)
    for more in ((), ("--fresh",)):
        refused(shell.call(corpus, "train", "--config", "tiny.yaml", *more),
                f"checkpoints/tiny is being trained by process {process.pid} on ", "wait for it")
    process.kill()  # which leaves the file of the lock behind
    shell.finish(process)
    result = shell.call(corpus, "train", "--config", "tiny.yaml", "--set",
                        "training.max_updates=1")
    assert result.code == 0, result.err


def test_a_run_folder_holds_what_the_design_says_and_no_code(trained: Any) -> None:
    run = trained.folder / RUN
    assert {"config.yaml", "text", "last", "best", "tensorboard", "validation",
            "report.json"} <= {path.name for path in run.iterdir()}
    assert list((run / "tensorboard").glob("events*"))
    assert {path.suffix for path in run.rglob("*") if path.is_file()
            and path.parent.name != "tensorboard"} == {".yaml", ".json", ".safetensors", ".en"}
    hypotheses = sorted((run / "validation").iterdir())
    assert len(hypotheses) == trained.epochs
    assert {len(read_lines(path)) for path in hypotheses} == {
        len(read_lines(trained.folder / "validation.en"))}


def test_a_finished_run_says_so_and_is_left_alone(trained: Any, shell: Any) -> None:
    before = contents(trained.folder)
    result = shell.call(trained.folder, "train", "--config", "tiny.yaml")
    assert result.code == 0
    assert "is finished after" in result.out and "nothing to train" in result.out
    assert "BLEU lowercased" in result.out
    assert contents(trained.folder) == before


def test_a_finished_run_is_trained_further_when_asked(copy: Path, shell: Any) -> None:
    before = json.loads((copy / RUN / "report.json").read_text(encoding="utf-8"))
    more = before["updates"] + 2
    result = shell.call(copy, "train", "--config", "tiny.yaml", "--set", "training.epochs=5000",
                        "--set", f"training.max_updates={more}")
    assert result.code == 0, result.err
    after = json.loads((copy / RUN / "report.json").read_text(encoding="utf-8"))
    assert after["updates"] == more
    assert after["validations"][:-1] == before["validations"]


def test_fresh_moves_the_old_run_aside_and_starts_over(copy: Path, shell: Any) -> None:
    before = contents(copy / RUN)
    result = shell.call(copy, "train", "--config", "tiny.yaml", "--fresh",
                        "--set", "training.max_updates=2", "--set", "model.d_ff=48")
    assert result.code == 0, result.err
    assert "moved checkpoints/tiny to checkpoints/tiny.old1" in result.err
    assert contents(copy / "checkpoints" / "tiny.old1") == before
    assert json.loads((copy / RUN / "report.json").read_text(encoding="utf-8"))["updates"] == 2
    assert yaml.safe_load((copy / RUN / "config.yaml").read_text("utf-8"))["model"]["d_ff"] == 48


def test_other_settings_in_the_same_folder_are_refused(
    trained: Any, shell: Any, refused: Any
) -> None:
    before = contents(trained.folder)
    result = shell.call(trained.folder, "train", "--config", "tiny.yaml", "--set", "model.d_ff=48",
                        "--set", "training.warmup=41")
    refused(result, "model.d_ff: 64 -> 48", "training.warmup: 40 -> 41", "--fresh")
    assert contents(trained.folder) == before


def test_a_run_keeps_its_vocabulary_when_the_corpus_changes(copy: Path, shell: Any) -> None:
    before = contents(copy / RUN / "text")
    for language, word in (("de", "Eule"), ("en", "owl")):
        path = copy / f"train.{language}"
        path.write_text(path.read_text("utf-8") + f"{word}.\n", encoding="utf-8")
    result = shell.call(copy, "train", "--config", "tiny.yaml", "--set", "training.epochs=5000")
    assert result.code == 2
    assert "trained with other vocabularies" in result.err and "--fresh" in result.err
    assert contents(copy / RUN / "text") == before
