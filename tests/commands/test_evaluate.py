"""`python -m translate.evaluate`: checkpoints, test sets and files; what is written; mistakes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
import yaml

from translate.data.corpora import Corpus
from translate.data.lines import read_lines, write_lines
from translate.data.sample.corpus import Pair
from translate.decoding.translator import Translator
from translate.evaluate import analyse, named_sets
from translate.evaluation import outputs
from translate.runs import load_trained
from translate.storage import read_tensors, write_tensors

RUN = Path("checkpoints", "tiny")


@pytest.fixture
def evaluate(shell: Any) -> Any:
    return lambda folder, *arguments: shell.call(folder, "evaluate", *arguments)


def report(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_scores_are_those_of_the_written_hypotheses_against_raw_references(
    trained: Any, shell: Any
) -> None:
    result = shell.finish(shell.start(trained.folder, "evaluate"))
    assert result.code == 0, result.err
    for part in ("case:mixed", "case:lc", "tok:13a", "tok:tercom", "bs:1000",
                 "lowercased spaCy tokens", "BLEU lowercased tells how well"):
        assert part in result.out
    folder = trained.folder / RUN / "evaluation"
    references = read_lines(trained.folder / "test.en")
    rows = report(folder / "test.json")["results"]
    assert [row["search"] for row in rows] == ["greedy", "beam 3"]
    for row in rows:
        hypotheses = read_lines(folder / f"test.{row['search'].replace(' ', '')}.en")
        bleu = sacrebleu.corpus_bleu(hypotheses, [references])
        assert row["bleu"]["value"] == bleu.score and row["brevity_penalty"] == bleu.bp
        low, high = row["bleu"]["interval"]
        assert low < bleu.score < high
        assert bleu.score + 1 < row["bleu_lowercased"]["value"]  # the model writes no capitals
        assert row["ter"]["value"] == sacrebleu.corpus_ter(hypotheses, [references]).score
        (line,) = [line for line in result.out.splitlines()
                   if line.startswith("test ") and f" {row['search']} " in line]
        assert f" {bleu.score:.2f} ± " in line and f" {row['chrf']['value']:.2f} ± " in line
    assert "evaluating checkpoints/tiny/best on test" in result.err
    assert "wrote checkpoints/tiny/evaluation" in result.err


def test_where_it_breaks_is_printed_and_kept(trained: Any, evaluate: Any) -> None:
    result = evaluate(trained.folder)
    found = report(trained.folder / RUN / "evaluation" / "test.json")["breakdown"]
    references = read_lines(trained.folder / "test.en")
    (group,) = found["by_source_length"]
    assert (group["tokens"], group["sentences"]) == ("≤ 10", len(references))
    assert ["≤", "10", str(len(references)), f"{group['bleu']:.2f}",
            f"{group['length_ratio']:.2f}"] in [line.split() for line in result.out.splitlines()]
    assert len(found["worst"]) == 10
    for row in found["worst"]:
        assert f"de   {row['source']}\n" in result.out
        assert f"out  {row['hypothesis']}\n" in result.out
    assert "outputs that hit the length limit" in result.out
    assert "exact match" not in result.out  # for which there is no gold


def test_later_checkpoints_are_tested_against_the_first_and_output_repeats(
    copy: Path, evaluate: Any
) -> None:
    weights = read_tensors(copy / RUN / "last" / "model.safetensors")
    noisy = {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in weights.items()}
    write_tensors(noisy, copy / RUN / "last" / "model.safetensors")
    arguments = "--checkpoint", RUN, "--checkpoint", RUN / "last"
    result = evaluate(copy, *arguments)
    assert result.code == 0, result.err
    best, last = (report(copy / RUN / "evaluation" / name / "test.json") for name in ("", "last"))
    assert "baseline" not in best and last["baseline"] == "checkpoints/tiny/best"
    printed = result.out[result.out.index("checkpoints/tiny/last minus checkpoints/tiny/best"):]
    lines = [line.split() for line in printed.splitlines()[3:5]]
    for before, after, line in zip(best["results"], last["results"], lines, strict=True):
        assert before["chrf"]["p_value"] is None
        assert after["chrf"]["value"] < before["chrf"]["value"]
        difference = after["chrf"]["value"] - before["chrf"]["value"]
        assert line[-4:-2] == [f"{difference:+.2f}", f"{after['chrf']['p_value']:.3f}"]
    assert result.out.endswith(evaluate(copy, *arguments).out)  # after the corpus's table


def test_several_test_sets_are_scored_alone_and_together(copy: Path, evaluate: Any) -> None:
    result = evaluate(copy, "--test-set", "validation", "--test-set", "test",
                      "--set", "decoding.beam=2")
    folder = copy / RUN / "evaluation"
    found = report(folder / "together.json")
    rows = found["results"]
    assert [row["test_set"] for row in rows] == ["validation", "test", "together"] * 2
    for n in (0, 3):
        assert rows[n]["sentences"] + rows[n + 1]["sentences"] == rows[n + 2]["sentences"]
    hypotheses, references = [], []
    for name in ("validation", "test"):
        hypotheses += read_lines(folder / f"{name}.beam2.en")
        references += read_lines(copy / f"{name}.en")
    assert rows[5]["bleu"]["value"] == sacrebleu.corpus_bleu(hypotheses, [references]).score
    (group,) = found["breakdown"]["by_source_length"]
    assert group["sentences"] == rows[5]["sentences"]
    assert "breaks: together, beam 2" in result.out


def test_files_are_scored_line_by_line_as_they_are(copy: Path, evaluate: Any) -> None:
    write_lines(copy / "mine.de", ["Der Hund schläft heute.", "", "Die Katze läuft\u2028nie."])
    write_lines(copy / "mine.en", ["The dog sleeps &amp; sleeps.", "", " The cat never runs."])
    shutil.rmtree(copy / "data")  # the corpus is not asked for
    result = evaluate(copy, "--src", "mine.de", "--ref", "mine.en")
    assert result.code == 0, result.err
    assert not (copy / "data").exists()
    folder = copy / RUN / "evaluation"
    hypotheses = read_lines(folder / "mine.de.beam3.en")
    assert [bool(line) for line in hypotheses] == [True, False, True]
    (_, row) = report(folder / "mine.de.json")["results"]
    references = read_lines(copy / "mine.en")
    assert row["chrf"]["value"] == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert "&amp;" in result.out


def test_gold_data_is_that_of_the_sets_of_the_generated_corpus(tmp_path: Path) -> None:
    paths = []
    for name in ("train", "validation", "test"):
        paths.append((tmp_path / f"{name}.de", tmp_path / f"{name}.en"))
        for path in paths[-1]:
            write_lines(path, ["Ja."])
    for corpus, gold in (("sample", [tmp_path / "test.jsonl"]), ("files", [])):
        (found,) = named_sets(Corpus(corpus, tmp_path, *paths[:2], {"test": paths[2]}))
        assert (found.name, found.gold) == ("test", gold)


def test_with_gold_data_phenomena_and_attention_heads_are_reported_and_drawn(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy)
    lines = [read_lines(copy / f"test.{language}") for language in ("de", "en")]
    kept = [pair for pair in zip(*lines, strict=True)
            if all(len(line.split()) == 4 for line in pair)]
    sources, references = map(list, zip(*kept, strict=True))
    pairs = [Pair(["time"] if "today" in english else ["other"], [(i, i) for i in range(5)],
                  [*german[:-1].split(), "."], [*english[:-1].split(), "."])
             for german, english in kept]
    write_lines(copy / "gold.jsonl", [json.dumps(pair._asdict()) for pair in pairs])
    trained = load_trained(RUN / "best")
    test_set = outputs.TestSet("gold", sources, references, [copy / "gold.jsonl"])
    translator = Translator([trained.model], trained.source, trained.target, trained.config)
    *_, output = outputs.translate(translator, [test_set], beam=1)
    found = analyse(trained, output)
    right = [hypothesis == reference.lower()  # the run is lowercased
             for hypothesis, reference in zip(output.hypotheses, references, strict=True)]
    assert found["exact_match"]["all"] == {"sentences": len(kept), "right": sum(right)}
    assert found["exact_match"]["time"]["sentences"] == sum("today" in line for line in references)
    heads = found["alignment"]["heads"]
    assert [row["head"] for row in heads] == [1, 2, "mean"]
    assert all(0 <= row["error_rate"] <= 1 for row in heads)
    assert found["alignment"]["words"]["determiner"] == len(kept)  # The …
    assert found["alignment"]["diagonal"] == 0
    json.dumps(found)
    printed = capsys.readouterr().out
    assert "exact match by phenomenon" in printed
    assert f"{100 * heads[0]['error_rate']:.1f}" in printed
    for name in ("phenomena", "alignment"):
        picture = (RUN / "evaluation" / f"gold.{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")


def test_mistakes_are_told_and_nothing_is_written(
    trained: Any, copy: Path, evaluate: Any, refused: Any
) -> None:
    refused(evaluate(trained.folder, "--test-set", "tst2014"), "tst2014",
            "it has test, validation")
    shutil.rmtree(copy / RUN / "evaluation", ignore_errors=True)
    write_lines(copy / "short.en", ["Yes."])
    write_lines(copy / "empty.de", [])
    write_lines(copy / "empty.en", [])
    refused(evaluate(copy, "--src", "test.de"), "--src and --ref go together")
    refused(evaluate(copy, "--ref", "test.en"), "--src and --ref go together")
    refused(evaluate(copy, "--src", "test.de", "--ref", "test.en", "--test-set", "test"),
            "without --test-set")
    refused(evaluate(copy, "--src", "test.de", "--ref", "short.en"),
            "test.de has 15 lines and short.en has 1")
    refused(evaluate(copy, "--src", "empty.de", "--ref", "empty.en"), "empty.de has 0 lines")
    refused(evaluate(copy, "--src", "no.de", "--ref", "test.en"), "no.de: cannot read it")
    refused(evaluate(copy, "--checkpoint", RUN, "--checkpoint", "nowhere"),
            "nowhere: no checkpoint")
    assert not (copy / RUN / "evaluation").exists()


def test_checkpoints_of_different_corpora_are_compared_on_files_alone(
    copy: Path, evaluate: Any, refused: Any
) -> None:
    other = shutil.copytree(copy / RUN, copy / "checkpoints" / "other")
    config = yaml.safe_load((other / "config.yaml").read_text(encoding="utf-8"))
    config["data"]["test"] = ["validation.de", "validation.en"]
    config["decoding"]["beam"] = 2  # the first checkpoint's holds for all
    (other / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    both = "--checkpoint", RUN, "--checkpoint", other
    refused(evaluate(copy, *both), "different corpora", "--src FILE --ref FILE")
    result = evaluate(copy, *both, "--src", "test.de", "--ref", "test.en")
    assert result.code == 0, result.err
    assert "other/best minus checkpoints/tiny/best" in result.out
    rows = report(other / "evaluation" / "test.de.json")["results"]
    assert [row["search"] for row in rows] == ["greedy", "beam 3"]
