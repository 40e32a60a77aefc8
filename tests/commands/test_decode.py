"""`python -m translate.decode`: the sentence, the file, the pipe, the terminal; and mistakes."""

import os
import pty
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

RUN = Path("checkpoints", "tiny")


@pytest.fixture
def decode(shell: Any) -> Any:
    return lambda folder, *arguments, **stdin: shell.call(folder, "decode", *arguments, **stdin)


def test_decode_prints_the_translation_alone_and_names_the_checkpoint_on_stderr(
    trained: Any, decode: Any, shell: Any
) -> None:
    sentence = "Der Bär sitzt im Café später."
    result = shell.finish(shell.start(trained.folder, "decode", sentence))
    assert result.code == 0, result.err
    assert result.err == "translating with checkpoints/tiny/best\n"
    assert result.out.count("\n") == 1 and "café" in result.out
    (trained.folder / "lines.txt").write_text(f"{sentence}\n", encoding="utf-8")
    assert decode(trained.folder, "--file", "lines.txt").out == result.out
    assert decode(trained.folder, stdin=f"{sentence}\n".encode()).out == result.out


def test_decode_gives_a_line_for_a_line_of_stdin_in_any_locale(
    trained: Any, decode: Any, shell: Any
) -> None:
    lines = ["Der Löwe läuft heute.", "", "Das Mädchen\u2028schläft nie.", "   ", "🐻 \x85?",
             "Die Katze sitzt im Café morgen."]
    process = shell.start(trained.folder, "decode", stdin=subprocess.PIPE)
    result = shell.finish(process, "\n".join(lines).encode())  # and no "\n" at the end
    assert result.code == 0, result.err
    found = result.out.split("\n")
    assert len(found) == len(lines) + 1 and found[-1] == ""
    assert [bool(line) for line in found[:4]] == [True, False, True, False]
    for n in (0, 2, 5):
        assert decode(trained.folder, lines[n]).out == found[n] + "\n"
    assert "café" in found[5]


@pytest.mark.parametrize("redirected", [False, True])
def test_decode_asks_on_a_terminal_until_ctrl_d(
    trained: Any, decode: Any, shell: Any, redirected: bool
) -> None:
    sentences = ["Der Hund schläft heute.", "Der Löwe sitzt im Café nie."]
    ours, theirs = pty.openpty()
    process = shell.start(trained.folder, "decode", stdin=theirs,
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
        expected = decode(trained.folder, sentence).out
        if redirected:
            assert process.stdout is not None
            assert process.stdout.readline().decode() == expected
        else:
            wait_for(expected.strip().encode())
            wait_for(b"de> ", n + 1)
    os.write(ours, b"\x04")
    assert process.wait(timeout=300) == 0
    assert not redirected or shell.finish(process).out == ""
    os.close(ours)


def test_n_best_prints_scores_and_begins_with_the_translation(
    trained: Any, decode: Any
) -> None:
    sentence = "Der Hund läuft morgen."
    result = decode(trained.folder, "--n-best", 3, sentence)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [len(row) for row in rows] == [2, 2, 2]
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True) and scores[0] < 0
    assert len({text for _, text in rows}) == 3
    assert rows[0][1] + "\n" == decode(trained.folder, sentence).out


def test_greedy_is_beam_1_and_lists_no_n_best(trained: Any, decode: Any, refused: Any) -> None:
    stdin = (trained.folder / "test.de").read_bytes()
    greedy = decode(trained.folder, "--greedy", stdin=stdin)
    assert greedy.out == decode(trained.folder, "--beam", 1, stdin=stdin).out
    assert greedy.out.count("\n") == stdin.count(b"\n")
    refused(decode(trained.folder, "--greedy", "--n-best", 2, "Ja."), "--n-best")
    refused(decode(trained.folder, "--beam", 0, "Ja."), "must be at least 1")


def test_attention_is_drawn_beside_the_translation(trained: Any, decode: Any, refused: Any) -> None:
    plain = decode(trained.folder, "Der $Hund$ läuft heute.")
    drawn = decode(trained.folder, "--attention", "plot.png", "Der $Hund$ läuft heute.")
    assert drawn.out == plain.out and "wrote plot.png" in drawn.err
    assert (trained.folder / "plot.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    refused(decode(trained.folder, "--attention", "plot.png", stdin=b"Ja.\n"),
            "--attention", "argument")
    page = decode(trained.folder, "--attention", "plot.html", "--attention-of", "encoder",
                  "Der $Hund$ läuft heute.")
    assert page.out == plain.out and "wrote plot.html" in page.err
    assert (trained.folder / "plot.html").read_text(encoding="utf-8").startswith("<!doctype html")
    for target in ("plot.txt", "no/such/folder/plot.png"):
        result = decode(trained.folder, "--attention", target, "Ja.")
        assert result.code == 2 and target in result.err and "Traceback" not in result.err


def test_decode_prefers_the_newest_run_and_takes_any_that_is_named(
    copy: Path, decode: Any
) -> None:
    other = shutil.copytree(copy / RUN, copy / "checkpoints" / "other")
    for folder, when in ((copy / RUN, 2_000_000_000), (other, 1_900_000_000)):
        os.utime(folder / "best" / "model.safetensors", (when, when))
        assert decode(copy, "Ja.").err.startswith("translating with checkpoints/tiny/best")
    os.utime(other / "best" / "model.safetensors", (2_100_000_000,) * 2)
    assert decode(copy, "Ja.").err.startswith("translating with checkpoints/other/best")
    for named, found in ((RUN, "tiny/best"), (RUN / "last", "tiny/last"), (other, "other/best")):
        err = decode(copy, "--checkpoint", named, "Ja.").err
        assert err.strip().endswith(found)


def test_what_decode_cannot_read_is_named(copy: Path, decode: Any, refused: Any) -> None:
    refused(decode(copy, "--checkpoint", "nowhere", "Ja."),
            "nowhere: no checkpoint here")
    refused(decode(copy, "--file", "nowhere.txt"), "nowhere.txt: cannot read it")
    refused(decode(copy, stdin=b"Ja.\nB\xe4r.\n"), "stdin: line 2: byte 0xe4")
    weights = copy / RUN / "best" / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (whole[:len(whole) // 2], b"", b"not weights at all" * 20):
        weights.write_bytes(broken)
        refused(decode(copy, "Ja."), "best/model.safetensors: cannot read")
    (copy / RUN / "best" / "model.safetensors").write_bytes(whole)
    assert decode(copy, "Ja.").code == 0
    shutil.rmtree(copy / "checkpoints")
    refused(decode(copy, "Ja."), "no trained model yet", "make train")


def test_workers_print_what_one_process_prints(trained: Any, shell: Any) -> None:
    alone, together = (shell.finish(shell.start(
        trained.folder, "decode", "--file", "test.de", "--n-best", "2", "--workers", number,
        "--set", "decoding.batch_tokens=40")) for number in ("1", "2"))
    assert together.code == 0, together.err
    assert together == alone


def test_workers_end_when_the_process_that_began_them_is_killed(trained: Any, shell: Any) -> None:
    terminal, stdin = pty.openpty()
    process = shell.start(trained.folder, "decode", "--workers", "2", stdin=stdin)
    os.write(terminal, b"Ja.\n")
    assert process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)  # until nobody is left who could write
    os.close(terminal)
    os.close(stdin)


def test_a_seed_decides_what_is_sampled_through_every_entry(trained: Any, decode: Any) -> None:
    arguments = ("--sample", "--temperature", 2, "--seed")
    stdin = (trained.folder / "test.de").read_bytes()
    found = decode(trained.folder, *arguments, 1, stdin=stdin).out
    assert decode(trained.folder, *arguments, 1, "--file", "test.de").out == found
    first = stdin.decode().splitlines()[0]
    assert decode(trained.folder, *arguments, 1, first).out == found.splitlines()[0] + "\n"
    assert decode(trained.folder, *arguments, 2, stdin=stdin).out != found
    assert decode(trained.folder, "--sample", "--top-k", 1, stdin=stdin).out == decode(
        trained.folder, "--greedy", stdin=stdin).out


def test_n_best_scores_are_printed_again_by_score(
    trained: Any, decode: Any, refused: Any
) -> None:
    sentence = "Der Hund läuft morgen."
    rows = [line.split("\t") for line in
            decode(trained.folder, "--n-best", 3, sentence).out.splitlines()]
    for score, text in rows:
        (trained.folder / "given.en").write_text(text + "\n", encoding="utf-8")
        again = decode(trained.folder, "--score", "given.en", sentence).out
        log_probability, found, given = again.rstrip("\n").split("\t")
        assert (found, given) == (score, text)
        assert float(log_probability) < float(found) < 0
    refused(decode(trained.folder, "--score", "given.en", "--file", "test.de"),
            "given.en", "1 English lines")


def test_several_checkpoints_translate_together_if_they_share_their_text(
    copy: Path, decode: Any, refused: Any
) -> None:
    sentence = "Der Bär sitzt im Café später."
    alone = decode(copy, "--n-best", 2, sentence)
    twice = decode(copy, "--checkpoint", RUN, "--checkpoint", RUN, "--n-best", 2, sentence)
    assert twice.out == alone.out
    assert twice.err == "translating with checkpoints/tiny/best, checkpoints/tiny/best\n"
    mixed = decode(copy, "--checkpoint", RUN, "--checkpoint", RUN / "last", sentence)
    assert mixed.code == 0, mixed.err
    other = shutil.copytree(copy / RUN, copy / "checkpoints" / "other")
    words = other / "text" / "target.json"
    words.write_text(words.read_text("utf-8").replace("▁dog", "▁cow"), encoding="utf-8")
    refused(decode(copy, "--checkpoint", RUN, "--checkpoint", other, sentence),
            "tiny/best and", "other/best cannot translate together", "vocabularies")


def test_an_unknown_word_is_replaced_where_that_is_asked_for(trained: Any, decode: Any) -> None:
    plain = decode(trained.folder, "--set", "decoding.replace_unk=false", "Quux Quux.")
    replaced = decode(trained.folder, "--replace-unk", "Quux Quux.")
    assert "<unk>" not in replaced.out
    assert len(replaced.out.split()) == len(plain.out.split())


def test_what_contradicts_itself_is_refused(trained: Any, decode: Any, refused: Any) -> None:
    for arguments, part in (
            (["--greedy", "--sample", "Ja."], "not allowed with"),
            (["--sample", "--n-best", 2, "Ja."], "--n-best needs a beam"),
            (["--sample", "--temperature", 0, "Ja."], "must be above 0"),
            (["--sample", "--top-p", 1.5, "Ja."], "1 at most"),
            (["--engine", "ctranslate2", "--sample", "Ja."], "cannot do --sample"),
            (["--engine", "ctranslate2", "--attention", "a.png", "Ja."], "cannot do --attention")):
        refused(decode(trained.folder, *arguments), part)
