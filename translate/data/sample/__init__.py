"""The sample corpus: sentence pairs generated from the lexicon in data/sample.

From words to files, each module on those before it: inflection, lexicon, phrase, clause (which
spell out in both languages); drawing, nominals, adverbials, predicates, simple_sentences,
complex_sentences (which choose what to say); corpus.
"""

from .corpus import draw_pairs, generate
from .lexicon import LEXICON

__all__ = ["LEXICON", "draw_pairs", "generate"]
