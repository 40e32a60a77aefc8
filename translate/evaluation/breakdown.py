"""Where a model breaks: by source length, at the length limit, in loops, on unknown words."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import CHRF

from translate.data.encoding import TextSide
from translate.data.lines import tidy
from translate.data.text import Tokenizer
from translate.data.vocabulary import UNK
from translate.decoding.scores import bleu, brevity
from translate.decoding.translator import Translation

LENGTHS = (10, 20, 30, 50)  # spaCy's tokens of the source; the last group has more
NGRAMS = (1, 2, 3, 4)
WORST = 10


def breakdown(
    sources: Sequence[str],
    translations: Sequence[Translation],
    references: Sequence[str],
    source: TextSide,
    target: TextSide,
) -> dict[str, Any]:
    """All of it, for JSON; shares are from 0 to 1."""
    hypotheses = [translation.text for translation in translations]
    return {
        "by_source_length": by_source_length(sources, hypotheses, references),
        "cut_at_length_limit": sum(t.cut for t in translations) / len(translations),
        "loops": {n: {"outputs": loops(hypotheses, n), "references": loops(references, n)}
                  for n in NGRAMS},
        "unknown": {"source": unknown([source.pipeline.split(tidy(s)) for s in sources], source),
                    "output": unknown([t.tokens for t in translations], target)},
        "worst": worst(sources, hypotheses, references),
    }


def by_source_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> list[dict[str, Any]]:
    """BLEU and length ratio of the sentences of each group of lengths that has any."""
    split = Tokenizer("de").split
    groups: dict[str, list[int]] = {f"≤ {limit}": [] for limit in LENGTHS}
    groups[f"> {LENGTHS[-1]}"] = []
    names = list(groups)
    for row, line in enumerate(sources):
        groups[names[bisect_left(LENGTHS, len(split(line)))]].append(row)
    found = []
    for name, rows in groups.items():
        if rows:
            pair = [hypotheses[row] for row in rows], [references[row] for row in rows]
            found.append({"tokens": name, "sentences": len(rows), "bleu": bleu(*pair).value,
                          **brevity(*pair)})
    return found


def loops(lines: Sequence[str], n: int) -> float:
    """The share of lines in which some `n` words are followed by the very same `n` words."""
    def is_loop(line: str) -> bool:
        words = line.split()
        return any(words[i:i + n] == words[i + n:i + 2 * n]
                   for i in range(len(words) - 2 * n + 1))

    return sum(map(is_loop, lines)) / len(lines)


def unknown(sentences: Sequence[Sequence[str]], side: TextSide) -> float:
    """The share of tokens that the vocabulary does not have."""
    ids = [i for tokens in sentences for i in side.vocabulary.ids(tokens)]
    return ids.count(UNK) / max(len(ids), 1)


def worst(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> list[dict[str, Any]]:
    """The sentences with the lowest chrF of their own."""
    metric = CHRF()
    scored = sorted((metric.sentence_score(hypothesis, [reference]).score, row) for
                    row, (hypothesis, reference) in enumerate(zip(hypotheses, references,
                                                                  strict=True)))
    return [{"chrf": score, "source": sources[row], "reference": references[row],
             "hypothesis": hypotheses[row]} for score, row in scored[:WORST]]
