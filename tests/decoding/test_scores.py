"""Scores are sacreBLEU's, on plain text, and say how they were made."""

import math

import pytest
import sacrebleu

from translate.decoding.scores import all_scores, bleu, tokenised_bleu

REFERENCES = ["The dog doesn't run, it sleeps in the garden.", "“Good morning!”, says the bear.",
              "A man in a blue shirt stands on a ladder.", "Two girls play football in the park."]
HYPOTHESES = ["The dog does not run, it sleeps in a garden.", "\"Good morning\", says the bear.",
              "a man in a Blue shirt is standing on a ladder.", "Two girls play in the park."]


def test_scores_equal_sacrebleu_called_directly() -> None:
    scores = all_scores(HYPOTHESES, REFERENCES)
    direct = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES])
    assert bleu(HYPOTHESES, REFERENCES) == scores.bleu
    assert scores.bleu.value == direct.score
    assert scores.brevity_penalty == direct.bp
    assert scores.length_ratio == direct.sys_len / direct.ref_len
    assert scores.bleu_lowercased.value == sacrebleu.corpus_bleu(
        HYPOTHESES, [REFERENCES], lowercase=True).score
    assert scores.chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score


def test_signatures_say_how_each_score_was_made() -> None:
    scores = all_scores(HYPOTHESES, REFERENCES)
    version = f"version:{sacrebleu.__version__}"
    for signature, parts in ((scores.bleu.signature, ("case:mixed", "tok:13a", version)),
                             (scores.bleu_lowercased.signature, ("case:lc", "tok:13a", version)),
                             (scores.chrf.signature, ("case:mixed", "nc:6", "nw:0", version))):
        assert set(parts) <= set(signature.split("|")), signature


def test_case_counts_in_bleu_and_not_in_lowercased_bleu() -> None:
    scores = all_scores([line.lower() for line in REFERENCES], REFERENCES)
    assert scores.bleu.value < 99
    assert scores.bleu_lowercased.value == pytest.approx(100)


def test_short_translations_pay_the_brevity_penalty() -> None:
    scores = all_scores(["The dog runs"], ["The dog runs in the garden"])
    assert scores.length_ratio == 0.5
    assert scores.brevity_penalty == pytest.approx(math.exp(1 - 6 / 3))
    assert all_scores(REFERENCES, REFERENCES).brevity_penalty == 1


def test_tokenised_bleu_is_of_lowercased_spacy_tokens_and_says_so() -> None:
    score = tokenised_bleu(["the dog does n't run !"], ["The dog doesn't run!"])
    assert score.value == pytest.approx(100)  # as if the reference had been tokenised: it has been
    assert "lowercased spaCy tokens" in score.signature
    assert "tok:none" in score.signature
    assert tokenised_bleu(HYPOTHESES, REFERENCES).value != pytest.approx(
        bleu(HYPOTHESES, REFERENCES).value, abs=0.5)
