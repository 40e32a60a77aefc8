"""Tokens to ids and back; both built from the training split alone."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from translate.data.text import MARK, Language, Tokenizer
from translate.errors import UserError

if TYPE_CHECKING:
    from torchtext.data import Field

SPECIALS = ("<unk>", "<pad>", "<sos>", "<eos>")
UNK, PAD, SOS, EOS = range(4)


class Vocabulary:
    """A fixed list of tokens; the four special ones have the ids 0 to 3."""

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[:4]) != SPECIALS:
            raise ValueError(f"a vocabulary begins with {' '.join(SPECIALS)}")
        self.tokens = list(tokens)
        # A word of the text that looks like a special token is not one.
        self._ids = {token: i for i, token in enumerate(tokens) if i >= len(SPECIALS)}

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        return [self._ids.get(token, UNK) for token in tokens]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.tokens, ensure_ascii=False, indent=0), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        try:
            tokens = json.loads(path.read_text(encoding="utf-8"))
            if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
                raise ValueError("it is no list of tokens")
            "".join(tokens).encode()  # fails at half of a surrogate pair, which cannot be printed
            return cls(tokens)
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{path}: not a readable vocabulary: {error}") from None


def word_field(language: Language, lowercase: bool) -> "Field":
    """torchtext's `Field` over spaCy's tokens: splits, lowercases, counts, builds the vocabulary.

    Its `preprocess` gives the tokens that `Tokenizer(language, lowercase).split` gives.
    """
    from torchtext.data import Field  # here, so that decoding never loads it

    unk, pad, sos, eos = SPECIALS
    return Field(tokenize=Tokenizer(language).split, lower=lowercase,
                 unk_token=unk, pad_token=pad, init_token=sos, eos_token=eos)


def build_words(field: "Field", counts: Mapping[str, int], min_freq: int) -> Vocabulary:
    """Words seen at least `min_freq` times, the most frequent first."""
    field.build_vocab([counts], min_freq=min_freq)  # its Counter adds up counts as it does tokens
    return Vocabulary(field.vocab.itos)


def train_subwords(
    counts: Mapping[str, int], kind: Literal["bpe", "unigram"], size: int
) -> bytes:
    """A SentencePiece model from how often each token of the training split occurs.

    Byte-pair encoding is Sennrich et al. 2016, the unigram model Kudo 2018. Pieces never cross
    the tokens given; characters never seen are written as their UTF-8 bytes.
    """
    import sentencepiece

    unk, pad, sos, eos = SPECIALS
    model = io.BytesIO()
    # Not through a file: its path would become part of the model.
    table = (f"{token.replace(MARK, ' ')}\t{count}" for token, count in counts.items())
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=table, input_format="tsv", model_writer=model, model_type=kind,
            vocab_size=size, hard_vocab_limit=False, byte_fallback=True,
            character_coverage=1.0, normalization_rule_name="identity",
            remove_extra_whitespaces=False, add_dummy_prefix=False,
            split_by_unicode_script=False, split_by_number=False,
            unk_id=UNK, pad_id=PAD, bos_id=SOS, eos_id=EOS,
            unk_piece=unk, pad_piece=pad, bos_piece=sos, eos_piece=eos,
            num_threads=1, minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(f"text.subwords.size={size}: SentencePiece cannot build this model "
                        f"from the training split ({error}); choose a larger size") from None
    return model.getvalue()
