"""The page of attention: all weights are in it, nothing of it is outside, no token is markup."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import torch

from translate.decoding.attention_page import attention_page
from translate.decoding.translator import Attention

SOURCE = ["▁Ein", "▁Hund", "es", ".", "<eos>"]
TARGET = ["▁A", "▁dog", "<eos>"]


def an_attention(
    source: list[str], target: list[str], layers: int = 2, heads: int = 3
) -> Attention:
    n, m = len(source), len(target)
    encoder, decoder, cross = (torch.randn(layers, heads, *shape)
                               for shape in ((n, n), (m, m), (m, n)))
    decoder = decoder.masked_fill(torch.ones(m, m, dtype=torch.bool).triu(1), -torch.inf)
    return Attention(source, target, *(x.softmax(dim=-1) for x in (encoder, decoder, cross)))


class Page(HTMLParser):
    """The tags of a page with their attributes, and the data inside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.data = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and ("id", "attention") in self.tags[-1][1] and not self.data:
            self.data = data

    @property
    def kinds(self) -> dict[str, Any]:
        return json.loads(self.data)["kinds"]


@pytest.mark.parametrize("of", ["encoder", "decoder", "cross"])
def test_every_weight_is_in_it_to_within_half_a_255th(of: str) -> None:
    attention = an_attention(SOURCE, TARGET)
    kind = Page(attention_page(attention)).kinds[of]
    weights = np.frombuffer(zlib.decompress(base64.b64decode(kind["weights"])), np.uint8)
    shape = kind["layers"], kind["heads"], len(kind["query"]), len(kind["key"])
    np.testing.assert_allclose(weights.reshape(shape), 255 * getattr(attention, of), atol=0.501)


def test_tokens_know_what_stands_before_them() -> None:
    kinds = Page(attention_page(an_attention(SOURCE, TARGET))).kinds
    source = [[" ", "Ein"], [" ", "Hund"], ["·", "es"], ["", "."], [" ", "<eos>"]]
    target = [[" ", "A"], [" ", "dog"], [" ", "<eos>"]]
    assert (kinds["cross"]["key"], kinds["cross"]["query"]) == (source, target)
    assert (kinds["encoder"]["key"], kinds["encoder"]["query"]) == (source, source)
    assert kinds["decoder"]["key"] == [[" ", "<sos>"], *target[:-1]]
    assert kinds["decoder"]["query"] == target


def test_it_opens_with_the_kind_that_was_asked_for() -> None:
    page = Page(attention_page(an_attention(SOURCE, TARGET), "encoder"))
    assert json.loads(page.data)["of"] == "encoder"


@pytest.mark.parametrize("token", [
    "▁</script><script>alert(1)</script>", "▁</SCRIPT >", "▁<!--<script>", "▁<b>", "▁\"'>", "&lt;",
    "▁\\u003c", "▁{{attention}}", "▁\u2028", "▁\ud800",
])
def test_no_token_is_markup(token: str) -> None:
    hostile = Page(attention_page(an_attention([token, *SOURCE[1:]], [token, *TARGET[1:]])))
    assert hostile.tags == Page(attention_page(an_attention(SOURCE, TARGET))).tags
    cross = hostile.kinds["cross"]
    assert cross["key"][0][1] == cross["query"][0][1] == token.removeprefix("▁")


def test_it_is_one_file_that_fetches_nothing() -> None:
    page = attention_page(an_attention(SOURCE, TARGET))
    assert not re.search(r"https?:|//[a-z]+\.|\burl\(|@import|\bimport\b|\bfetch\(|XMLHttp", page)
    attributes = {name for _, attrs in Page(page).tags for name, _ in attrs}
    assert not attributes & {"src", "href", "srcset", "data", "action"}


def test_it_inserts_tokens_as_text_alone() -> None:
    page = attention_page(an_attention(SOURCE, TARGET))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", page)


def test_sixty_tokens_of_the_papers_model_are_well_under_a_megabyte() -> None:
    tokens = [*["▁sieben"] * 59, "<eos>"]
    page = attention_page(an_attention(tokens, tokens, layers=6, heads=8))
    assert len(page.encode("utf-8")) < 600_000
