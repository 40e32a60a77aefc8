"""Does cross-attention point at the words being translated? The alignment error rate of each head.

The decoder is made to write the reference. In the row of attention that writes a target token, each
head links it with the source token that it attends to most, and the links are compared with the
gold alignment of the words. (In the next row, which has read the token, no head of the sample run
has less than 78% errors.)
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.encoding import TextSide
from translate.data.sample.corpus import Pair
from translate.data.text import MARK
from translate.decoding.translator import Translator
from translate.evaluation.gold import CLASSES, word_classes

_BYTE = re.compile("<0x[0-9A-F]{2}>")


class Links:
    """Links made, gold links, and links in both, summed over sentences (Och & Ney 2003)."""

    def __init__(self) -> None:
        self.made: NDArray[np.float64] | float = 0.0  # … × classes of target words
        self.right: NDArray[np.float64] | float = 0.0
        self.gold = 0

    def add(self, links: NDArray[np.bool_], gold: NDArray[np.bool_],
            classes: NDArray[np.bool_]) -> None:
        """`links`: … × target words × source words; `classes`: target words × classes."""
        self.made = self.made + links.sum(axis=-1) @ classes
        self.right = self.right + (links & gold).sum(axis=-1) @ classes
        self.gold += int(gold.sum())

    def error_rate(self) -> NDArray[np.float64]:
        """AER = 1 − 2 |A ∩ S| / (|A| + |S|): all gold links are sure ones."""
        return 1 - 2 * np.sum(self.right, axis=-1) / (np.sum(self.made, axis=-1) + self.gold)

    def precision(self) -> NDArray[np.float64]:
        """By class: the share of the links made that are right."""
        return self.right / np.maximum(self.made, 1)


class Alignment(NamedTuple):
    """Of each layer and head; the last column is the mean of a layer's heads, taken as a head."""

    words: dict[str, int]  # target words by class
    error_rate: NDArray[np.float64]  # layers × (heads + 1), from 0 to 1
    precision: NDArray[np.float64]  # layers × (heads + 1) × classes, from 0 to 1
    diagonal: float  # error rate of links along the diagonal, which take no model
    reachable: float  # error rate if the one link of every word were right: many words have more

    def for_json(self) -> dict[str, Any]:
        """With a row a head, and one for each layer's mean."""
        layers, heads = self.error_rate.shape
        return {"words": self.words, "diagonal": self.diagonal, "reachable": self.reachable,
                "heads": [{"layer": layer + 1, "head": head + 1 if head < heads - 1 else "mean",
                           "error_rate": float(self.error_rate[layer, head]),
                           "precision": dict(zip(CLASSES, self.precision[layer, head].tolist(),
                                                 strict=True))}
                          for layer in range(layers) for head in range(heads)]}


def align(
    translator: Translator, target: TextSide, pairs: Sequence[Pair], sources: Sequence[str],
    references: Sequence[str],
) -> Alignment:
    heads, diagonal = Links(), Links()
    words = np.zeros(len(CLASSES), int)
    for pair, source, reference in zip(pairs, sources, references, strict=True):
        tokens = target.pipeline.split(reference)
        attention = translator.attention(source, tokens)
        weights = attention.cross.float().numpy()
        weights = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
        of_source = membership(attention.source[:-1], pair.de_tokens)
        of_source = np.pad(of_source, ((0, 1), (0, 0)))  # <eos> is no word: links to it are none
        of_target = membership(tokens, pair.en_tokens)
        gold = np.zeros((len(pair.en_tokens), len(pair.de_tokens)), bool)
        for i, j in pair.alignment:
            gold[j, i] = True
        classes = np.array([[name == of_word for name in CLASSES]
                            for of_word in word_classes(pair)])
        words += classes.sum(axis=0)
        chosen = weights[:, :, :-1].argmax(axis=-1)  # the last row writes <eos>
        heads.add(of_target.T @ of_source[chosen], gold, classes)
        diagonal.add(_diagonal(*gold.shape), gold, classes)
    return Alignment(
        dict(zip(CLASSES, words.tolist(), strict=True)),
        heads.error_rate(), heads.precision(), float(diagonal.error_rate()),
        float(1 - 2 * words.sum() / (words.sum() + diagonal.gold)))


def membership(tokens: Sequence[str], words: Sequence[str]) -> NDArray[np.bool_]:
    """Tokens × words: whether the token, or piece of one, has a character of the word.

    Both are the same text, but for white space and capitals.
    """
    owner = np.repeat(np.arange(len(words)), [len(word.encode()) for word in words])
    ends = np.cumsum([1 if _BYTE.fullmatch(token) else len(token.replace(MARK, "").encode())
                      for token in tokens])
    if ends[-1] != len(owner):
        raise ValueError(f"{' '.join(tokens)}: not the tokens of {' '.join(words)}")
    found = np.zeros((len(tokens), len(words)), bool)
    for n, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        found[n, owner[start:end]] = True
    return found


def _diagonal(rows: int, columns: int) -> NDArray[np.bool_]:
    links = np.zeros((rows, columns), bool)
    links[np.arange(rows), np.linspace(0, columns - 1, rows).round().astype(int)] = True
    return links
