"""The picture of attention: every layer and head is in it, and every token can be read."""

import io
import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from translate.decoding.attention_plot import plot_attention
from translate.decoding.translator import Attention

SOURCE = ["▁Der", "▁Hund", "es", "▁", ".", "<eos>"]
TARGET = ["▁The", "▁dog", "<eos>"]
SOURCE_LABELS = ["Der", "Hund", "·es", "␣", ".", "<eos>"]


def an_attention(
    source: list[str], target: list[str], layers: int = 2, heads: int = 3
) -> Attention:
    n, m = len(source), len(target)
    encoder, decoder, cross = (torch.rand(layers, heads, *shape)
                               for shape in ((n, n), (m, m), (m, n)))
    decoder = decoder.masked_fill(torch.ones(m, m, dtype=torch.bool).triu(1), -torch.inf)
    return Attention(source, target, *(x.softmax(dim=-1) for x in (encoder, decoder, cross)))


def labels(axes: Any) -> tuple[list[str], list[str]]:
    return ([label.get_text() for label in axes.get_xticklabels()],
            [label.get_text() for label in axes.get_yticklabels()])


def test_every_layer_and_head_has_a_panel_beside_the_mean_of_the_last_layer() -> None:
    attention = an_attention(SOURCE, TARGET)
    average, _, *panels = plot_attention(attention).axes
    np.testing.assert_allclose(average.images[0].get_array(), attention.cross[-1].mean(0))
    assert average.get_title(loc="left") == "mean of the last layer's heads"
    drawn = [axes.images[0].get_array() for axes in panels]
    np.testing.assert_array_equal(drawn, attention.cross.flatten(0, 1))
    assert [axes.get_xlabel() for axes in panels] == ["head 1", "head 2", "head 3", "", "", ""]
    assert [axes.get_ylabel() for axes in panels] == ["layer 1", "", "", "layer 2", "", ""]


def test_every_token_is_on_the_axes_of_the_average_and_on_the_outer_edges() -> None:
    average, _, *panels = plot_attention(an_attention(SOURCE, TARGET)).axes
    both = (SOURCE_LABELS, ["The", "dog", "<eos>"])
    assert labels(average) == labels(panels[0]) == both
    assert labels(panels[1]) == (both[0], [])
    assert labels(panels[3]) == ([], both[1])


def test_the_average_can_stand_alone() -> None:
    attention = an_attention(SOURCE, TARGET)
    average, _ = plot_attention(attention, heads=False).axes
    np.testing.assert_allclose(average.images[0].get_array(), attention.cross[-1].mean(0))


def test_the_encoder_attends_to_the_source() -> None:
    attention = an_attention(SOURCE, TARGET)
    figure = plot_attention(attention, "encoder")
    assert labels(figure.axes[0]) == (SOURCE_LABELS, SOURCE_LABELS)
    np.testing.assert_array_equal(figure.axes[-1].images[0].get_array(), attention.encoder[-1, -1])


def test_the_decoder_attends_to_what_it_was_given_and_its_future_is_blank() -> None:
    attention = an_attention(SOURCE, TARGET)
    figure = plot_attention(attention, "decoder")
    assert labels(figure.axes[0]) == (["<sos>", "The", "dog"], ["The", "dog", "<eos>"])
    drawn = figure.axes[-1].images[0].get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), np.triu(np.ones((3, 3), bool), 1))
    np.testing.assert_array_equal(drawn.filled(0), attention.decoder[-1, -1])


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_it_can_be_written_as(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"plot.{suffix}"
    plot_attention(an_attention(SOURCE, TARGET)).savefig(path)
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[suffix]
    assert path.read_bytes().startswith(start)
    if suffix == "png":
        assert imread(path)[..., :3].std() > 0.05  # not an empty sheet


@pytest.mark.parametrize("token", ["▁$", "$x$", "▁$\\frac{$", "▁a_b^c", "\\", "%", "ß"])
def test_no_token_is_taken_for_a_formula(token: str) -> None:
    figure = plot_attention(an_attention([token, token, "<eos>"], [token, "<eos>"]), heads=False)
    for label in itertools.chain(*labels(figure.axes[0])):
        assert not is_math_text(label)
    figure.savefig(io.BytesIO(), format="png")


def test_characters_that_the_font_lacks_are_boxes_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot_attention(an_attention(["▁日本", "🎈", "▁ab🎈", "<eos>"], ["<eos>"]))
        figure.savefig(io.BytesIO(), format="png")
    assert labels(figure.axes[0])[0] == ["□□", "□", "ab□", "<eos>"]


def sixty_tokens() -> list[str]:
    words = ["▁Donaudampfschifffahrtsgesellschaft", "▁Wg", "▁y", "▁" + "W" * 200, "▁sieben"]
    return [*words, *words[-1:] * 54, "<eos>"]


def assert_readable(figure: Figure) -> None:
    """No text is cut off, smaller than 6 points, or runs into another one or a panel."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    assert all(text.get_fontsize() >= 6 and len(text.get_text()) <= 40 for text in texts)
    boxes = np.array([text.get_window_extent().shrunk(0.9, 0.9).extents for text in texts])
    assert (boxes >= 0).all() and (boxes[:, 2:] <= figure.bbox.max).all()
    panels = np.array([axes.get_window_extent().extents for axes in figure.axes])
    everything = np.concatenate([boxes, panels])
    apart = (boxes[:, None, :2] > everything[:, 2:]) | (boxes[:, None, 2:] < everything[:, :2])
    assert (~apart.any(axis=-1)).sum() == len(texts)  # each with itself


@pytest.mark.parametrize("of", ["encoder", "decoder"])
def test_sixty_tokens_can_be_read_on_both_axes(of: str) -> None:
    tokens = sixty_tokens()
    assert_readable(plot_attention(an_attention(tokens, tokens, layers=1, heads=2), of))


@pytest.mark.parametrize(("source", "target"), [(1, 1), (60, 1), (2, 60)])
def test_uneven_sentences_can_be_read_too(source: int, target: int) -> None:
    tokens = sixty_tokens()
    assert_readable(plot_attention(an_attention(tokens[-source:], tokens[-target:])))


def test_a_large_picture_has_8000_pixels_a_side_at_most_and_sixty_tokens_stay_readable() -> None:
    def drawn(tokens: int, heads: int) -> Figure:
        source = [*["▁sieben"] * (tokens - 1), "<eos>"]
        figure = plot_attention(an_attention(source, TARGET, 1, heads), heads=heads > 1)
        assert max(figure.get_size_inches()) * figure.dpi <= 8000.01
        return figure

    figure = drawn(tokens=60, heads=8)
    assert figure.axes[2].get_xticklabels()[0].get_fontsize() / 72 * figure.dpi > 9
    drawn(tokens=400, heads=1)
