"""BLEU and chrF of plain text against raw references: sacreBLEU's own code, never ours."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF


class Score(NamedTuple):
    value: float
    signature: str


class Scores(NamedTuple):
    """Corpus scores from 0 to 100, with the signatures that make them comparable."""

    bleu: Score
    bleu_lowercased: Score
    chrf: Score
    brevity_penalty: float
    length_ratio: float


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Cased BLEU of detokenised text (Post 2018)."""
    metric = BLEU()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(result.score, str(metric.get_signature()))


def all_scores(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    cased, lowercased, chrf = BLEU(), BLEU(lowercase=True), CHRF()
    data = list(hypotheses), [list(references)]
    result = cased.corpus_score(*data)
    return Scores(
        Score(result.score, str(cased.get_signature())),
        Score(lowercased.corpus_score(*data).score, str(lowercased.get_signature())),
        Score(chrf.corpus_score(*data).score, str(chrf.get_signature())),
        result.bp,
        result.sys_len / max(result.ref_len, 1),
    )


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of lowercased spaCy tokens: what older tutorials report, not comparable with papers."""
    from translate.data.text import Tokenizer

    tokenizer = Tokenizer("en", lowercase=True)
    metric = BLEU(tokenize="none", force=True)
    sides = [[" ".join(token.lstrip("▁") for token in tokenizer.split(line)) for line in lines]
             for lines in (hypotheses, references)]
    result = metric.corpus_score(sides[0], [sides[1]])
    return Score(result.score, f"{metric.get_signature()} on lowercased spaCy tokens")
