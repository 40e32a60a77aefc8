"""Plain text to tokens and back, without loss: spaCy's tokens, optionally cut into subwords.

Every token begins with the mark `▁` if white space stood before it (the first one always does), so
joining needs no detokenisation rules: put the tokens together, and each mark is a space.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import spacy
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from translate.errors import UserError

MARK = "▁"
_ESCAPE = "␛"  # a mark that is part of the text is written ␛_, and ␛ itself ␛␛
_BYTE = re.compile("<0x([0-9A-F]{2})>")
# Longer than any word; spaCy may take n² steps for n characters without white space.
_LONG_RUN = re.compile(r"\S{200}(?=\S)")

Language = Literal["de", "en"]


class Tokenizer:
    """spaCy's rules for one language (`spacy.blank`, no model to download), made reversible.

    `join(split(text)) == " ".join(text.split())` for every text, unless it is lowercased. Half of a
    surrogate pair is no text, and becomes "?".
    """

    def __init__(self, language: Language, lowercase: bool = False) -> None:
        self._spacy = spacy.blank(language).tokenizer
        self._lowercase = lowercase

    def sentences(self, text: str) -> list[str]:
        """The text cut behind full stops and the like, by spaCy's rules."""
        return [sentence.text for part in self._parts(text)
                for sentence in Sentencizer()(part).sents]

    def split(self, text: str) -> list[str]:
        text = " ".join(text.split())
        if _ESCAPE in text or MARK in text:
            text = text.replace(_ESCAPE, _ESCAPE * 2).replace(MARK, _ESCAPE + "_")
        tokens = []
        space = MARK
        for part in self._parts(text):
            for token in part:
                tokens.append(space + (token.text.lower() if self._lowercase else token.text))
                space = MARK if token.whitespace_ else ""
        return tokens

    def _parts(self, text: str) -> Iterator[Doc]:
        text = text.encode(errors="replace").decode()
        for part in _LONG_RUN.sub(r"\g<0>\n", text).split("\n"):
            yield self._spacy(part)


def join(tokens: Iterable[str]) -> str:
    """The text that the tokens came from."""
    text = "".join(tokens).replace(MARK, " ").removeprefix(" ")
    if _ESCAPE in text:
        text = re.sub(_ESCAPE + "([_" + _ESCAPE + "])",
                      lambda found: MARK if found[1] == "_" else _ESCAPE, text)
    return text


class Subwords:
    """A SentencePiece model that cuts spaCy's tokens; unknown characters become bytes."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._cache: dict[str, list[str]] = {}

    @property
    def pieces(self) -> list[str]:
        return [self._processor.id_to_piece(i) for i in range(len(self._processor))]

    def split(self, tokens: Sequence[str]) -> list[str]:
        pieces: list[str] = []
        for token in tokens:
            cut = self._cache.get(token)
            if cut is None:
                cut = self._processor.encode(token, out_type=str)
                if len(self._cache) < 200_000:
                    self._cache[token] = cut
            pieces += cut
        return pieces

    @staticmethod
    def join(pieces: Iterable[str]) -> list[str]:
        """Pieces whose bytes (`<0xC3> <0xA4>`) are characters again; bad bytes become �."""
        text: list[str] = []
        held = bytearray()
        for piece in pieces:
            if byte := _BYTE.fullmatch(piece):
                held.append(int(byte[1], 16))
                continue
            if held:
                text.append(held.decode("utf-8", errors="replace"))
                held.clear()
            text.append(piece)
        text.append(held.decode("utf-8", errors="replace"))
        return text


class TextPipeline:
    """Text of one language to the model's tokens, and back."""

    def __init__(self, language: Language, lowercase: bool, subwords: Subwords | None) -> None:
        self._tokenizer = Tokenizer(language, lowercase)
        self.sentences = self._tokenizer.sentences
        self.subwords = subwords

    def split(self, text: str) -> list[str]:
        tokens = self._tokenizer.split(text)
        return self.subwords.split(tokens) if self.subwords else tokens

    def join(self, tokens: Iterable[str]) -> str:
        return join(self.subwords.join(tokens) if self.subwords else tokens)


def load_subwords(path: Path) -> Subwords | None:
    if not path.exists():
        return None
    try:
        subwords = Subwords(path.read_bytes())
        if not subwords.pieces:
            raise RuntimeError("an empty file is taken without complaint")
        return subwords
    except (RuntimeError, UnicodeDecodeError):  # the latter where its reason is not UTF-8
        raise UserError(f"{path}: this is no SentencePiece model, or it is damaged") from None
