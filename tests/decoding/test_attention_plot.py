"""The picture of cross-attention: a file that opens, with every token on its axis."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.cbook import is_math_text
from matplotlib.image import imread

from translate.decoding.attention_plot import plot_attention
from translate.decoding.translator import Attention


def an_attention(source: list[str], target: list[str]) -> Attention:
    weights = torch.rand(2, 3, len(target), len(source)).softmax(dim=-1)
    return Attention(source, target, weights)


def test_the_plot_is_a_png_with_every_token_on_its_axis(tmp_path: Path) -> None:
    attention = an_attention(["▁Der", "▁Hund", "es", "▁", ".", "<eos>"], ["▁The", "▁dog", "<eos>"])
    figure = plot_attention(attention)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "Der", "Hund", "·es", "␣", ".", "<eos>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["The", "dog", "<eos>"]
    np.testing.assert_allclose(axes.images[0].get_array(), attention.weights[-1].mean(0))
    figure.savefig(tmp_path / "plot.png")
    picture = imread(tmp_path / "plot.png")
    assert picture.shape[0] > 200 and picture.shape[1] > 200
    assert picture[..., :3].std() > 0.05  # not an empty sheet


@pytest.mark.parametrize("token", ["▁$", "$x$", "▁$\\frac{$", "▁a_b^c", "\\", "%", "ß"])
def test_no_token_is_taken_for_a_formula(token: str) -> None:
    figure = plot_attention(an_attention([token, token, "<eos>"], [token, "<eos>"]))
    for label in (*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels()):
        assert not is_math_text(label.get_text())
    figure.savefig(io.BytesIO(), format="png")
