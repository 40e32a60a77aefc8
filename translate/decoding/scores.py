"""Scores of plain text against raw references: sacreBLEU's own code, never ours."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

# For each, what makes it; of TER alone less is better.
METRICS: dict[str, Callable[[], Metric]] = {
    "bleu": BLEU, "bleu_lowercased": partial(BLEU, lowercase=True), "chrf": CHRF, "ter": TER}


class Score(NamedTuple):
    """A corpus score (0 to 100; TER may be more), with the signature that makes it comparable."""

    value: float
    signature: str
    interval: tuple[float, float] | None = None  # 95%, by bootstrap resampling (Koehn 2004)
    p_value: float | None = None  # that the difference from the first system is chance


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Cased BLEU of detokenised text (Post 2018)."""
    metric = BLEU()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(result.score, str(metric.get_signature()))


def compare(
    systems: Sequence[Sequence[str]], references: Sequence[str]
) -> list[dict[str, Score]]:
    """All scores of each system, with intervals; those after the first are tested against it.

    Both by sacreBLEU's bootstrap, 1,000 samples with a fixed seed: about 70 MB a 1,000 sentences.
    """
    named: list[tuple[str, Sequence[str]]] = [(str(n), list(hypotheses))
                                              for n, hypotheses in enumerate(systems)]
    scores: list[dict[str, Score]] = [{} for _ in systems]
    for name, metric in METRICS.items():
        signatures, results = PairedTest(named, {name: metric()}, [list(references)], "bs")()
        ((title, signature),) = signatures.items()
        for n, result in enumerate(results[title]):
            assert isinstance(result, Result) and result.mean is not None and result.ci is not None
            interval = float(result.mean - result.ci), float(result.mean + result.ci)
            # Of two equal outputs sacreBLEU says 0.001: no difference would be a significant one.
            p_value = None if systems[n] == systems[0] else result.p_value
            scores[n][name] = Score(result.score, str(signature), interval, p_value)
    return scores


def brevity(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """BLEU's tokens of output for one of the reference, and what BLEU deducts for too few."""
    result = BLEU().corpus_score(list(hypotheses), [list(references)])
    return {"length_ratio": result.sys_len / max(result.ref_len, 1), "brevity_penalty": result.bp}


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of lowercased spaCy tokens: what older tutorials report, not comparable with papers."""
    from translate.data.text import Tokenizer

    tokenizer = Tokenizer("en", lowercase=True)
    metric = BLEU(tokenize="none", force=True)
    sides = [[" ".join(token.lstrip("▁") for token in tokenizer.split(line)) for line in lines]
             for lines in (hypotheses, references)]
    result = metric.corpus_score(sides[0], [sides[1]])
    return Score(result.score, f"{metric.get_signature()} on lowercased spaCy tokens")
