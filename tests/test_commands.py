"""The commands on one tiny run, as a user runs them: interrupted, resumed, scored, put to use."""

import importlib
import io
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import sacrebleu
import yaml

from translate import command_line
from translate.data.lines import read_lines

RUN = Path("checkpoints", "tiny")
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


class Trained(NamedTuple):
    folder: Path  # where the commands are run
    update: int  # of the last validation before the interruption
    interrupted: Result
    resumed: Result


Command = Callable[..., Result]


def write_corpus(folder: Path) -> None:
    for split, pairs in (("train", PAIRS * 8), ("validation", PAIRS[::7]), ("test", PAIRS[::4])):
        for language, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "name": "tiny", "device": "cpu",
        "data": {"corpus": "files", "max_length": 30,
                 **{split: [f"{split}.de", f"{split}.en"]
                    for split in ("train", "validation", "test")}},
        "text": {"lowercase": True, "min_freq": 1},
        "model": {"d_model": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 64,
                  "dropout": 0.0},
        "training": {"epochs": 3, "batch_tokens": 120, "warmup": 40, "factor": 0.5, "average": 2},
        "decoding": {"beam": 3},
    }
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def start(folder: Path, command: str, *arguments: str, **streams: object) -> subprocess.Popen[bytes]:
    """A process of its own, in the poorest locale."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("LC_", "LANG", "PYTHON"))}
    return subprocess.Popen([sys.executable, "-m", f"translate.{command}", *arguments], cwd=folder,
                            env={**environment, "LC_ALL": "POSIX", "OMP_NUM_THREADS": "1"},
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})


def finish(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Result:
    out, err = process.communicate(stdin, timeout=600)
    return Result(process.returncode, out.decode("utf-8"), err.decode("utf-8"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run that was interrupted after its first validation, and then went on to its end."""
    folder = tmp_path_factory.mktemp("work")
    write_corpus(folder)
    process = start(folder, "train", "--config", "tiny.yaml", "--set", "training.epochs=5000")
    while not (folder / RUN / "last").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    interrupted = finish(process)
    state = json.loads((folder / RUN / "last" / "state.json").read_text(encoding="utf-8"))
    resumed = finish(start(folder, "train", "--config", "tiny.yaml"))
    assert resumed.code == 0, resumed.err
    return Trained(folder, state["progress"]["update"], interrupted, resumed)


@pytest.fixture
def copy(trained: Trained, tmp_path: Path) -> Path:
    return shutil.copytree(trained.folder, tmp_path / "copy")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process, which saves the start of another one."""
    def call(folder: Path, command: str, *arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [command, *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            command_line.run(importlib.import_module(f"translate.{command}").main)
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *capsys.readouterr())

    return call


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def assert_refused(result: Result, *parts: str) -> None:
    """A user's mistake: code 2, nothing on stdout, and a line or two that say what is wrong."""
    assert result.code == 2
    assert result.out == ""
    message = result.err[result.err.index("error: "):]
    assert 1 <= len(message.splitlines()) <= 2
    assert "Traceback" not in result.err
    for part in parts:
        assert part in message


# --- train ----------------------------------------------------------------------------------------

def test_training_ends_with_the_test_scores_and_the_next_commands(trained: Trained) -> None:
    out, err = trained.resumed.out, trained.resumed.err
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("test ")][1:] == [
        ["test", "beam"], ["test", "greedy"]] or "greedy" in out
    assert out.index("BLEU lowercased") < out.index("python -m translate.decode")
    assert "make tensorboard" in out
    assert "epoch 3" in err and "validation loss" in err and "(best)" in err


def test_an_interrupted_run_says_so_and_goes_on_from_its_last_validation(trained: Trained) -> None:
    assert trained.interrupted.code == 130
    assert "the same command goes on from the last validation" in trained.interrupted.err
    assert "Traceback" not in trained.interrupted.err
    assert f"going on after update {trained.update}" in trained.resumed.err
    report = json.loads((trained.folder / RUN / "report.json").read_text(encoding="utf-8"))
    updates = [validation["update"] for validation in report["validations"]]
    assert updates == sorted(set(updates)) and trained.update in updates[:-1]
    assert report["updates"] == updates[-1] and report["epochs"] == 3


def test_a_run_folder_holds_what_the_design_says_and_no_code(trained: Trained) -> None:
    run = trained.folder / RUN
    assert {"config.yaml", "text", "last", "best", "tensorboard", "validation",
            "report.json"} <= {path.name for path in run.iterdir()}
    assert list((run / "tensorboard").glob("events*"))
    assert {path.suffix for path in run.rglob("*") if path.is_file()
            and path.parent.name != "tensorboard"} == {".yaml", ".json", ".safetensors", ".en"}
    hypotheses = sorted((run / "validation").iterdir())
    assert len(hypotheses) == 3
    assert {len(read_lines(path)) for path in hypotheses} == {len(PAIRS[::7])}


def test_a_finished_run_says_so_and_is_left_alone(trained: Trained, run: Command) -> None:
    before = contents(trained.folder)
    result = run(trained.folder, "train", "--config", "tiny.yaml")
    assert result.code == 0
    assert "is finished after" in result.out and "nothing to train" in result.out
    assert "BLEU lowercased" in result.out
    assert contents(trained.folder) == before


def test_a_finished_run_is_trained_further_when_asked(copy: Path, run: Command) -> None:
    before = json.loads((copy / RUN / "report.json").read_text(encoding="utf-8"))
    more = before["updates"] + 2
    result = run(copy, "train", "--config", "tiny.yaml", "--set", "training.epochs=9",
                 "--set", f"training.max_updates={more}")
    assert result.code == 0, result.err
    after = json.loads((copy / RUN / "report.json").read_text(encoding="utf-8"))
    assert after["updates"] == more
    assert after["validations"][:3] == before["validations"]


def test_fresh_moves_the_old_run_aside_and_starts_over(copy: Path, run: Command) -> None:
    before = contents(copy / RUN)
    result = run(copy, "train", "--config", "tiny.yaml", "--fresh",
                 "--set", "training.max_updates=2", "--set", "model.d_ff=48")
    assert result.code == 0, result.err
    assert "moved checkpoints/tiny to checkpoints/tiny.old1" in result.err
    assert contents(copy / "checkpoints" / "tiny.old1") == before
    assert json.loads((copy / RUN / "report.json").read_text(encoding="utf-8"))["updates"] == 2
    assert yaml.safe_load((copy / RUN / "config.yaml").read_text("utf-8"))["model"]["d_ff"] == 48


def test_other_settings_in_the_same_folder_are_refused(trained: Trained, run: Command) -> None:
    before = contents(trained.folder)
    result = run(trained.folder, "train", "--config", "tiny.yaml", "--set", "model.d_ff=48",
                 "--set", "training.warmup=41")
    assert_refused(result, "model.d_ff: 64 -> 48", "training.warmup: 40 -> 41", "--fresh")
    assert contents(trained.folder) == before


def test_a_run_keeps_its_vocabulary_when_the_corpus_changes(copy: Path, run: Command) -> None:
    before = contents(copy / RUN / "text")
    for language, word in (("de", "Eule"), ("en", "owl")):
        path = copy / f"train.{language}"
        path.write_text(path.read_text("utf-8") + f"{word}.\n", encoding="utf-8")
    result = run(copy, "train", "--config", "tiny.yaml", "--set", "training.epochs=9")
    assert result.code == 2
    assert "trained with other vocabularies" in result.err and "--fresh" in result.err
    assert contents(copy / RUN / "text") == before


# --- evaluate -------------------------------------------------------------------------------------

def test_evaluate_scores_the_hypotheses_it_writes_against_raw_references(trained: Trained) -> None:
    result = finish(start(trained.folder, "evaluate"))
    assert result.code == 0, result.err
    for part in ("BLEU lowercased", "chrF", "brevity penalty", "tutorials' BLEU*", "case:mixed",
                 "case:lc", "tok:13a", "lowercased spaCy tokens"):
        assert part in result.out
    folder = trained.folder / RUN / "evaluation"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    references = read_lines(trained.folder / "test.en")
    assert [row["search"] for row in scores["results"]] == ["greedy", "beam 3"]
    for row in scores["results"]:
        hypotheses = read_lines(folder / f"test.{row['search'].replace(' ', '')}.en")
        bleu = sacrebleu.corpus_bleu(hypotheses, [references])
        assert row["bleu"] == bleu.score and row["brevity_penalty"] == bleu.bp
        assert bleu.score + 1 < row["bleu_lowercased"]  # the model writes no capitals
        (line,) = [line for line in result.out.splitlines()
                   if line.startswith("test ") and row["search"] in line]
        assert f" {bleu.score:.2f} " in line and f" {row['chrf']:.2f} " in line
    assert "evaluating checkpoints/tiny/best" in result.err


# --- decode ---------------------------------------------------------------------------------------

def test_decode_prints_the_translation_alone_and_names_the_checkpoint_on_stderr(
    trained: Trained, run: Command
) -> None:
    sentence = "Der Bär sitzt im Café später."
    result = finish(start(trained.folder, "decode", sentence))
    assert result.code == 0, result.err
    assert result.err == "translating with checkpoints/tiny/best\n"
    assert result.out.count("\n") == 1 and "café" in result.out
    (trained.folder / "lines.txt").write_text(f"{sentence}\n", encoding="utf-8")
    assert run(trained.folder, "decode", "--file", "lines.txt").out == result.out
    assert run(trained.folder, "decode", stdin=f"{sentence}\n".encode()).out == result.out


def test_decode_gives_a_line_for_a_line_of_stdin_in_any_locale(
    trained: Trained, run: Command
) -> None:
    lines = ["Der Löwe läuft heute.", "", "Das Mädchen\u2028schläft nie.", "   ", "🐻 \x85?",
             "Die Katze sitzt im Café morgen."]
    process = start(trained.folder, "decode", stdin=subprocess.PIPE)
    result = finish(process, "\n".join(lines).encode())  # and no "\n" at the end
    assert result.code == 0, result.err
    found = result.out.split("\n")
    assert len(found) == len(lines) + 1 and found[-1] == ""
    assert [bool(line) for line in found[:4]] == [True, False, True, False]
    for n in (0, 2, 5):
        assert run(trained.folder, "decode", lines[n]).out == found[n] + "\n"
    assert "café" in found[5]


@pytest.mark.parametrize("redirected", [False, True])
def test_decode_asks_on_a_terminal_until_ctrl_d(
    trained: Trained, run: Command, redirected: bool
) -> None:
    sentences = ["Der Hund schläft heute.", "Der Löwe sitzt im Café nie."]
    ours, theirs = pty.openpty()
    process = start(trained.folder, "decode", stdin=theirs,
                    stdout=subprocess.PIPE if redirected else theirs, stderr=theirs)
    os.close(theirs)
    screen = b""

    def wait_for(text: bytes, times: int = 1) -> None:
        nonlocal screen
        while screen.count(text) < times:
            assert select.select([ours], [], [], 300)[0], screen
            screen += os.read(ours, 4096)

    wait_for(b"Ctrl-D ends")
    for n, sentence in enumerate(sentences, start=1):
        os.write(ours, sentence.encode() + b"\n")
        expected = run(trained.folder, "decode", sentence).out
        if redirected:
            assert process.stdout is not None
            assert process.stdout.readline().decode() == expected
        else:
            wait_for(expected.strip().encode())
            wait_for(b"de> ", n + 1)
    os.write(ours, b"\x04")
    assert process.wait(timeout=300) == 0
    assert not redirected or finish(process).out == ""
    os.close(ours)


def test_n_best_prints_scores_and_begins_with_the_translation(
    trained: Trained, run: Command
) -> None:
    sentence = "Der Hund läuft morgen."
    rows = [line.split("\t") for line in run(trained.folder, "decode", "--n-best", 3, sentence)
            .out.splitlines()]
    assert [len(row) for row in rows] == [2, 2, 2]
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True) and scores[0] < 0
    assert len({text for _, text in rows}) == 3
    assert rows[0][1] + "\n" == run(trained.folder, "decode", sentence).out


def test_greedy_is_beam_1_and_lists_no_n_best(trained: Trained, run: Command) -> None:
    stdin = "\n".join(source for source, _ in PAIRS).encode()
    greedy = run(trained.folder, "decode", "--greedy", stdin=stdin)
    assert greedy.out == run(trained.folder, "decode", "--beam", 1, stdin=stdin).out
    assert len(greedy.out.splitlines()) == len(PAIRS)
    assert_refused(run(trained.folder, "decode", "--greedy", "--n-best", 2, "Ja."), "--n-best")
    assert_refused(run(trained.folder, "decode", "--beam", 0, "Ja."), "must be at least 1")


def test_attention_is_drawn_beside_the_translation(trained: Trained, run: Command) -> None:
    plain = run(trained.folder, "decode", "Der $Hund$ läuft heute.")
    drawn = run(trained.folder, "decode", "--attention", "plot.png", "Der $Hund$ läuft heute.")
    assert drawn.out == plain.out and "wrote plot.png" in drawn.err
    assert (trained.folder / "plot.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert_refused(run(trained.folder, "decode", "--attention", "plot.png", stdin=b"Ja.\n"),
                   "--attention", "argument")
    for target in ("plot.txt", "no/such/folder/plot.png"):
        result = run(trained.folder, "decode", "--attention", target, "Ja.")
        assert result.code == 2 and target in result.err and "Traceback" not in result.err


def test_decode_prefers_the_newest_run_and_takes_any_that_is_named(
    copy: Path, run: Command
) -> None:
    other = shutil.copytree(copy / RUN, copy / "checkpoints" / "other")
    for folder, when in ((copy / RUN, 2_000_000_000), (other, 1_900_000_000)):
        os.utime(folder / "best" / "model.safetensors", (when, when))
        assert run(copy, "decode", "Ja.").err.startswith("translating with checkpoints/tiny/best")
    os.utime(other / "best" / "model.safetensors", (2_100_000_000,) * 2)
    assert run(copy, "decode", "Ja.").err.startswith("translating with checkpoints/other/best")
    for named, found in ((RUN, "tiny/best"), (RUN / "last", "tiny/last"), (other, "other/best")):
        err = run(copy, "decode", "--checkpoint", named, "Ja.").err
        assert err.strip().endswith(found)


def test_what_decode_cannot_read_is_named(copy: Path, run: Command) -> None:
    assert_refused(run(copy, "decode", "--checkpoint", "nowhere", "Ja."),
                   "nowhere: no checkpoint here")
    assert_refused(run(copy, "decode", "--file", "nowhere.txt"), "nowhere.txt: cannot read it")
    assert_refused(run(copy, "decode", stdin=b"Ja.\nB\xe4r.\n"), "stdin: line 2: byte 0xe4")
    weights = copy / RUN / "best" / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (whole[:len(whole) // 2], b"", b"not weights at all" * 20):
        weights.write_bytes(broken)
        assert_refused(run(copy, "decode", "Ja."), "best/model.safetensors: cannot read")
    (copy / RUN / "best" / "model.safetensors").write_bytes(whole)
    assert run(copy, "decode", "Ja.").code == 0
    shutil.rmtree(copy / "checkpoints")
    assert_refused(run(copy, "decode", "Ja."), "no trained model yet", "make train")
