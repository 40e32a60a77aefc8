"""Scores are sacreBLEU's, on plain text, and say how they were made."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from translate.decoding.scores import bleu, brevity, compare, tokenised_bleu

REFERENCES = ["The dog doesn't run, it sleeps in the garden.", "“Good morning!”, says the bear.",
              "A man in a blue shirt stands on a ladder.", "Two girls play football in the park."]
HYPOTHESES = ["The dog does not run, it sleeps in a garden.", "\"Good morning\", says the bear.",
              "a man in a Blue shirt is standing on a ladder.", "Two girls play in the park."]
OTHERS = ["The dog doesn't run, it sleeps.", "“Good morning!”, says a bear.",
          "A man in a blue shirt stands on ladder.", "Two girls play football in the park."]


def test_scores_equal_sacrebleu_called_directly() -> None:
    (scores,) = compare([HYPOTHESES], REFERENCES)
    data = HYPOTHESES, [REFERENCES]
    direct = sacrebleu.corpus_bleu(*data)
    assert bleu(HYPOTHESES, REFERENCES).value == scores["bleu"].value == direct.score
    assert brevity(HYPOTHESES, REFERENCES) == {
        "length_ratio": direct.sys_len / direct.ref_len, "brevity_penalty": direct.bp}
    lowercased = sacrebleu.corpus_bleu(*data, lowercase=True)
    assert scores["bleu_lowercased"].value == lowercased.score
    assert scores["chrf"].value == sacrebleu.corpus_chrf(*data).score
    assert scores["ter"].value == sacrebleu.corpus_ter(*data).score


def test_intervals_and_p_values_are_those_of_sacrebleus_own_command(tmp_path: Path) -> None:
    for name, lines in (("ref", REFERENCES), ("a", HYPOTHESES), ("b", OTHERS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    printed = subprocess.run(
        [sys.executable, "-m", "sacrebleu", "ref", "-i", "a", "b", "-m", "bleu", "chrf", "ter",
         "--paired-bs", "--format", "latex", "--width", "3"], cwd=tmp_path, encoding="utf-8",
        stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"}).stdout
    for scores, tested in zip(compare([HYPOTHESES, OTHERS], REFERENCES), (False, True),
                              strict=True):
        for name in ("bleu", "chrf", "ter"):
            score = scores[name]
            assert score.interval is not None and (score.p_value is not None) == tested
            low, high = score.interval
            cell = f"{score.value:.3f} ({(low + high) / 2:.3f} ± {(high - low) / 2:.3f})"
            assert cell + (f" (p = {score.p_value:.4f})" if tested else " ") in printed
            assert score.signature in printed


def test_scores_repeat_and_do_not_depend_on_the_other_systems() -> None:
    alone, pair = compare([OTHERS], REFERENCES), compare([HYPOTHESES, OTHERS], REFERENCES)
    assert compare([HYPOTHESES, OTHERS], REFERENCES) == pair
    for name, score in alone[0].items():
        assert score == pair[1][name]._replace(p_value=None)


def test_equal_outputs_are_not_called_significantly_different() -> None:
    first, second = compare([HYPOTHESES, list(HYPOTHESES)], REFERENCES)
    assert first == second
    assert {score.p_value for score in second.values()} == {None}


def test_signatures_say_how_each_score_was_made() -> None:
    (scores,) = compare([HYPOTHESES], REFERENCES)
    version = f"version:{sacrebleu.__version__}"
    for name, parts in (("bleu", ("case:mixed", "tok:13a")),
                        ("bleu_lowercased", ("case:lc", "tok:13a")),
                        ("chrf", ("case:mixed", "nc:6", "nw:0")),
                        ("ter", ("case:lc", "tok:tercom"))):
        signature = scores[name].signature
        assert {*parts, version, "bs:1000"} <= set(signature.split("|")), signature


def test_case_counts_in_bleu_and_not_in_lowercased_bleu() -> None:
    (scores,) = compare([[line.lower() for line in REFERENCES]], REFERENCES)
    assert scores["bleu"].value < 99
    assert scores["bleu_lowercased"].value == pytest.approx(100)


def test_short_translations_pay_the_brevity_penalty() -> None:
    assert brevity(["The dog runs"], ["The dog runs in the garden"]) == {
        "length_ratio": 0.5, "brevity_penalty": pytest.approx(math.exp(1 - 6 / 3))}
    assert brevity(REFERENCES, REFERENCES)["brevity_penalty"] == 1


def test_tokenised_bleu_is_of_lowercased_spacy_tokens_and_says_so() -> None:
    score = tokenised_bleu(["the dog does n't run !"], ["The dog doesn't run!"])
    assert score.value == pytest.approx(100)  # as if the reference had been tokenised: it has been
    assert "lowercased spaCy tokens" in score.signature
    assert "tok:none" in score.signature
    assert tokenised_bleu(HYPOTHESES, REFERENCES).value != pytest.approx(
        bleu(HYPOTHESES, REFERENCES).value, abs=0.5)
