"""`python -m translate.export`, and `decode --engine ctranslate2` with what it writes."""

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from translate.export import QUANTIZATIONS

pytest.importorskip("ctranslate2")

RUN = Path("checkpoints", "tiny")
EXPORTED = RUN / "ctranslate2"


@pytest.fixture
def export(shell: Any) -> Any:
    return lambda folder, *arguments: shell.call(folder, "export", "--to", "ctranslate2",
                                                 *arguments)


@pytest.fixture
def decode(shell: Any) -> Any:
    return lambda folder, *arguments, **stdin: shell.call(folder, "decode", *arguments, **stdin)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def test_an_exported_run_translates_as_the_run_does(copy: Path, export: Any, decode: Any) -> None:
    result = export(copy)
    assert (result.code, result.err) == (0, "")
    assert f"wrote checkpoints/tiny/best to {EXPORTED}: float32" in result.out
    lines = [*(copy / "train.de").read_text(encoding="utf-8").splitlines()[:60], "", "Quux 🐻?"]
    stdin = "\n".join(lines).encode()
    for search in (["--greedy"], [], ["--beam", "4", "--set", "decoding.length_penalty=1"],
                   ["--set", "decoding.forbid_unk=true"]):
        expected = decode(copy, *search, stdin=stdin)
        found = decode(copy, "--engine", "ctranslate2", "--workers", 2, *search, stdin=stdin)
        assert found.err == f"translating with {EXPORTED}\n"
        assert found.out == expected.out and len(set(found.out.splitlines())) > 20
    scores = [[float(line.split("\t")[0]) for line in
               decode(copy, *engine, "--n-best", 3, lines[0]).out.splitlines()]
              for engine in ([], ["--engine", "ctranslate2"])]
    assert len(scores[1]) == 3 and scores[1][0] == pytest.approx(scores[0][0], abs=1e-3)


def test_an_exported_folder_needs_nothing_else(copy: Path, export: Any, decode: Any) -> None:
    expected = decode(copy, "Der Hund läuft heute.").out
    assert export(copy, RUN / "last", "--quantization", "int8", "--output", "small").code == 0
    assert export(copy, RUN, "--output", "large").code == 0
    sizes = [(copy / name / "model.bin").stat().st_size for name in ("small", "large")]
    assert sizes[0] < sizes[1]
    shutil.rmtree(copy / "checkpoints")
    for name in ("small", "large"):
        found = decode(copy, "--engine", "ctranslate2", "--checkpoint", name,
                       "Der Hund läuft heute.")
        assert found.code == 0 and found.out.strip()
    assert found.out == expected


def test_a_new_export_takes_the_place_of_the_old_one_or_leaves_it(
    copy: Path, export: Any, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export(copy, "--quantization", "int8").code == 0
    small = contents(copy / EXPORTED)
    command = importlib.import_module("translate.export")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(command, "save_config", full)  # after the weights
        refused(export(copy), str(EXPORTED), "cannot write it: No space left")
    assert contents(copy / EXPORTED) == small
    assert export(copy).code == 0
    large = contents(copy / EXPORTED)
    assert large.keys() == small.keys() and large != small
    assert [path.name for path in (copy / RUN).glob("ctranslate2*")] == ["ctranslate2"]


def test_what_cannot_be_exported_or_decoded_is_named(
    copy: Path, export: Any, decode: Any, refused: Any
) -> None:
    refused(export(copy, "nowhere"), "nowhere: no checkpoint here")
    refused(export(copy, "--output", "checkpoints"), "checkpoints exists and holds no exported")
    refused(export(copy, "--set", "decoding.replace_unk=true"), "replace_unk", "cross-attention")
    engine = ("--engine", "ctranslate2")
    refused(decode(copy, *engine, "Ja."), "no CTranslate2 model here", "translate.export")
    assert export(copy).code == 0
    refused(decode(copy, *engine, "--replace-unk", "Ja."), "replace_unk", "cross-attention")
    for options in (["--attention", "plot.png"], ["--score", "test.en"], ["--sample"],
                    ["--checkpoint", RUN, "--checkpoint", RUN]):
        refused(decode(copy, *engine, *options, "Ja."), "CTranslate2", str(options[0]))


def test_quantizations_are_the_ones_that_the_library_has() -> None:
    from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES

    assert set(QUANTIZATIONS) == set(ACCEPTED_MODEL_TYPES)
