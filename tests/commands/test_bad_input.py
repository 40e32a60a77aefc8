"""Whatever a user gets wrong is told in one or two lines that say where, with exit code 2."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from translate import command_line

TRAIN = ["train", "--config", "tiny.yaml"]
DE, EN = b"Der Hund.\n", b"The dog.\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True))


def with_set(*settings: str) -> list[str]:
    return [*TRAIN, *(part for setting in settings for part in ("--set", setting))]


# Files to write first (None: a folder of that name), the command, and what it says.
CASES: dict[str, tuple[dict[str, bytes | None], list[str], str]] = {
    "a key that is misspelt": ({}, with_set("training.warmpu=3"),
        "tiny.yaml: unknown key training.warmpu; did you mean warmup?"),
    "a value of the wrong type": ({}, with_set("model.heads=two"),
        "tiny.yaml: model.heads='two': input should be a valid integer, unable to parse string as "
        "an integer"),
    "a value out of range": ({}, with_set("model.dropout=1.5"),
        "tiny.yaml: model.dropout=1.5: input should be less than 1"),
    "a seed that no generator takes": ({}, with_set("seed=9223372036854775808"),
        "tiny.yaml: seed=9223372036854775808: input should be less than 9223372036854775808"),
    "an infinite value": ({}, with_set("decoding.length_penalty=.inf"),
        "tiny.yaml: decoding.length_penalty=inf: input should be a finite number"),
    "heads that do not divide": ({}, with_set("model.heads=5"),
        "tiny.yaml: heads=5 does not divide d_model=32"),
    "positions that are too few": ({}, with_set("model.positions=learned", "model.max_positions=9"),
        "tiny.yaml: model.max_positions=9 is shorter than data.max_length + 1 = 31"),
    "a path that no file can have": ({}, with_set('data.train=["a\\0b", train.en]'),
        "tiny.yaml: no file can have this name"),
    "a home that nobody has": ({}, with_set("data.train=[~nobody-of-this-name/a, train.en]"),
        "tiny.yaml: no file can have this name"),
    "a model larger than memory": ({}, with_set("model.d_model=1000000"),
        "a model of this size does not fit into memory: lower model.d_model, model.d_ff or the "
        "number of layers"),
    "aliases that stand for billions": ({"tiny.yaml": BOMB.encode()}, TRAIN,
        "tiny.yaml: *a: write the value out; names for values are not read here"),
    "lists in lists": ({"tiny.yaml": b"a: " + b"[" * 30_000}, TRAIN,
        "tiny.yaml: nested more than 20 levels deep: this is no config"),
    "groups in groups": ({"tiny.yaml": b"{a: " * 10_000}, TRAIN,
        "tiny.yaml: nested more than 20 levels deep: this is no config"),
    "an integer of 60,000 digits": ({"tiny.yaml": b"seed: " + b"9" * 60_000}, TRAIN,
        "tiny.yaml: not valid YAML: a number, a date or a value with a !!tag cannot be read"),
    "no day of a month": ({}, with_set("seed=2001-02-30"),
        "--set seed=2001-02-30: not valid YAML: a number, a date or a value with a !!tag cannot be "
        "read"),
    "a file that is no config": ({"tiny.yaml": b"a: b\n" * 20_000}, TRAIN,
        "tiny.yaml: longer than 65,536 bytes: this is no config"),
    "a config without an end": ({}, ["train", "--config", "/dev/zero"],
        "/dev/zero: longer than 65,536 bytes: this is no config"),
    "a folder as a config": ({}, ["train", "--config", "."],
        ".: cannot read this config: Is a directory"),
    "a training file that is missing": ({}, with_set("data.train=[no.de, train.en]"),
        "{folder}/no.de: cannot read it: No such file or directory"),
    "a folder as a corpus": ({}, with_set("data.train=[., train.en]"),
        "{folder}: cannot read it: Is a directory"),
    "an empty corpus": ({"train.de": b"", "train.en": b""}, TRAIN,
        "train.de, train.en: no training pair in it can be used"),
    "a corpus of white space": ({"train.de": b"\n \n", "train.en": b"\n\n"}, TRAIN,
        "train.de, train.en: no training pair in it can be used"),
    "a side that is longer": ({"train.de": DE * 2, "train.en": EN}, TRAIN,
        "train.de, train.en: 2 German lines but 1 English lines; by their lengths the two sides "
        "come apart at about line 2"),
    "another encoding": ({"train.de": "Der\nBär\n".encode("latin-1")}, TRAIN,
        "{folder}/train.de: line 2: byte 0xe4 is not UTF-8; convert the file to UTF-8, for "
        "instance with iconv"),
    "a corpus of which nothing is short enough": ({"train.de": b"a " * 40, "train.en": EN}, TRAIN,
        "no training pair of data/{corpus}/train.de is left: 1 longer than 30 tokens, 0 length "
        "ratio above 9; raise data.max_length or data.max_ratio"),
    "a line without an end": ({}, with_set("data.train=[/dev/zero, train.en]"),
        "/dev/zero: line 1 is longer than 16,000,000 bytes; a file of text has one segment a line"),
    "a file in the place of a folder": ({"data": b""}, TRAIN,
        "data/{corpus}: Not a directory"),
    "a file in the place of all runs": ({"checkpoints": b""}, TRAIN, "checkpoints: File exists"),
    "no checkpoint": ({}, ["decode", "Der Hund."],
        "checkpoints/ holds no trained model yet: `make train` makes one in minutes, or name one "
        "with --checkpoint"),
    "a sentence that is not UTF-8": ({}, ["decode", "--checkpoint", "{trained}", "B\udce4r"],
        "the sentence is not UTF-8; set the terminal to it, or convert the sentence with iconv"),
    "lines that are a folder": ({}, ["decode", "--checkpoint", "{trained}", "--file", "."],
        ".: cannot read it: Is a directory"),
    "a picture that is a folder": ({"a.png": None}, ["decode", "--checkpoint", "{trained}",
                                                   "--attention", "a.png", "Der Hund."],
        "--attention a.png: cannot write it: Is a directory"),
    "a file in the place of diagnosis": ({"diagnosis": b""}, ["diagnose", "--checkpoint",
                                                             "{trained}"],
        "diagnosis: File exists"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_told_exactly(
        corpus: Path, trained: Any, shell: Any, case: str) -> None:
    files, (command, *arguments), says = CASES[case]
    for name, content in files.items():
        if content is None:
            (corpus / name).mkdir()
        else:
            (corpus / name).write_bytes(content)
    run = trained.folder / "checkpoints/tiny"
    result = shell.call(corpus, command, *(part.format(trained=run) if "{trained}" in part else part
                                           for part in arguments))
    made = [path.name for path in (corpus / "data").glob("files-*")] or [
        path.split(":")[0] for path in result.err.split("data/")[1:]]
    message = result.err[result.err.index("error: "):]
    assert message == f"error: {says}\n".replace("{folder}", str(corpus)).replace(
        "{corpus}", (made or [""])[0])
    assert result.code == 2


def test_a_corpus_smaller_than_a_batch_is_trained(corpus: Path, shell: Any) -> None:
    (corpus / "train.de").write_bytes(DE)
    (corpus / "train.en").write_bytes(EN)
    result = shell.call(corpus, *with_set("training.batch_tokens=4096", "training.accumulate=4",
                                          "training.epochs=1"))
    assert result.code == 0
    assert "1 updates an epoch" in result.err


def test_a_run_that_is_another_is_refused(copy: Path, shell: Any, refused: Any) -> None:
    refused(shell.call(copy, *with_set("model.d_ff=48")),
            "checkpoints/tiny holds a run with other settings (model.d_ff: 64 -> 48).\n"
            "Start over with --fresh (the old run is moved aside), or name another one with "
            "--set name=…\n")
    config = copy / "checkpoints/tiny/config.yaml"
    config.write_text(config.read_text("utf-8").replace("d_ff: 64", "d_ff: 48"), encoding="utf-8")
    refused(shell.call(copy, "decode", "--checkpoint", "checkpoints/tiny", "Der Hund."),
            "checkpoints/tiny/best/model.safetensors: these weights belong to another "
            "configuration: decoder.0.feed_forward.w_1.bias should be (48,) and is (64,)\n")


def test_a_vocabulary_that_does_not_fit_the_weights_is_refused(
        copy: Path, shell: Any, refused: Any) -> None:
    (copy / "checkpoints/tiny/text/source.json").write_text(
        '["<unk>", "<pad>", "<sos>", "<eos>", "a"]', encoding="utf-8")
    refused(shell.call(copy, "decode", "Der Hund."), "best/model.safetensors: these weights belong "
            "to another configuration: source_embedding.weight should be (5, 32) and is (22, 32)\n")


@pytest.mark.parametrize(("data", "lines"), [
    (b"", 0), (b"\n\n", 2), (b"a\0b\x1b[31m\r\nc", 2), ("\u2028 \ufeff\x85\n".encode(), 1),
    (b"\xed\xa0\x80", None), (b"a\n\xff\n", None),
], ids=repr)
def test_any_bytes_on_standard_input_have_a_line_each_or_are_refused(
        trained: Any, shell: Any, refused: Any, data: bytes, lines: int | None) -> None:
    result = shell.call(trained.folder, "decode", "--greedy", stdin=data)
    if lines is None:
        refused(result, f"stdin: line {data.count(bytes([10])) or 1}: byte 0x",
                "is not UTF-8; convert the file to UTF-8, for instance with iconv")
    else:
        assert (result.code, result.out.count("\n")) == (0, lines)


# --- What the system refuses --------------------------------------------------------------------

def run(folder: Path, *command: str, before: Callable[[], None] | None = None,
        rights: bool = True, **streams: Any) -> "subprocess.CompletedProcess":
    prefix = [] if rights or os.geteuid() else [
        "setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    return subprocess.run([*prefix, sys.executable, "-m", f"translate.{command[0]}", *command[1:]],
                          cwd=folder, preexec_fn=before, stderr=subprocess.PIPE, timeout=300,
                          **{"stdout": subprocess.PIPE, **streams})


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may do all")
@pytest.mark.parametrize(("path", "mode", "command", "says"), [
    ("train.de", 0, TRAIN, "{folder}/train.de: cannot read it: Permission denied"),
    (".", 0o555, TRAIN, "checkpoints: Permission denied"),
])
def test_what_there_is_no_permission_for_is_told(
        corpus: Path, path: str, mode: int, command: list[str], says: str) -> None:
    (corpus / path).chmod(mode)
    try:
        result = run(corpus, *command, rights=False)
    finally:
        (corpus / path).chmod(0o755)
    assert result.stderr.decode() == f"error: {says}\n".replace("{folder}", str(corpus))
    assert result.returncode == 2


def test_no_space_is_told_with_the_path(copy: Path) -> None:
    shutil.rmtree(copy / "data")
    for command, path in ((["prepare", *TRAIN[1:]], "data/{corpus}/train.de"),
                          (["export", "--to", "ctranslate2"], "checkpoints/tiny/ctranslate2")):
        result = run(copy, *command, before=partial(
            resource.setrlimit, resource.RLIMIT_FSIZE, (2000, 2000)))
        (corpus,) = (copy / "data").iterdir()
        assert result.returncode == 2
        assert result.stderr.decode().startswith(
            f"error: {path.replace('{corpus}', corpus.name)}: ")
        assert result.stderr.count(b"\n") == 1 and b"File too large" in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_translations_that_cannot_be_written_are_told(trained: Any) -> None:
    with open("/dev/full", "wb") as full:
        result = run(trained.folder, "decode", "Der Hund schläft.", stdout=full)
    assert result.stderr.decode().splitlines()[-1] == "error: output: No space left on device"
    assert result.returncode == 2


def test_a_mistake_of_the_program_is_not_taken_for_one_of_the_user() -> None:
    def mistaken() -> None:
        raise OSError("no number of the system's")

    with pytest.raises(OSError, match="no number"):
        command_line.run(mistaken)
