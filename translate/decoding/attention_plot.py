"""A picture of attention: the average of the last layer's heads, beside every layer and head."""

from typing import TYPE_CHECKING, Any, Literal

import torch

from translate.data.text import MARK
from translate.data.vocabulary import EOS, SOS, SPECIALS
from translate.decoding.translator import Attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["encoder", "decoder", "cross"]
AXES = {  # the keys, across; the queries, down
    "encoder": ("German, attended to", "German, attending"),
    "decoder": ("English so far (read by the decoder)", "English (written by the decoder)"),
    "cross": ("German (read by the encoder)", "English (written by the decoder)"),
}
_LARGEST = 8000  # pixels on a side, as many heads and tokens as there may be
_GAP = 0.12  # inches between panels
_LONGEST = 40  # characters of a label


def plot_attention(attention: Attention, of: Kind = "cross", heads: bool = True) -> "Figure":
    """Keys across, queries down; without `heads` the average alone.

    Colours are on a square-root scale: the many small weights of a long sentence would be black.
    """
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    weights = getattr(attention, of).float()
    layers, n_heads, rows, columns = weights.shape
    if of == "decoder":  # masked, not merely unattended
        future = torch.ones(rows, columns, dtype=torch.bool).triu(1)
        weights = weights.masked_fill(future, torch.nan)
    keys, queries = ([_label(t) for t in tokens] for tokens in tokens_of(attention, of))

    # Of a head's panel, in inches; the average's are twice as large. 0.11 is a line of 6.5 points.
    cell = max(0.11, min(0.3, 1.5 / max(rows, columns)))
    right, down = (max(cell * n, 0.5) + _GAP for n in (columns, rows))  # to the next head, layer
    large, small = (min(10.0, 60 * size) for size in (2 * cell, cell))  # points
    top = 0.75 + large * _width(keys)
    left = 0.45 + large * _width(queries)
    bar_width = max(2 * cell * columns, 2)
    grid_left = left + bar_width + 0.65 + small * _width(queries)
    width, height = left + bar_width + 0.25, top + 2 * cell * rows + 1.05
    if heads:
        width, height = grid_left + n_heads * right + 0.05, max(height, top + layers * down + 0.05)
    figure = Figure(figsize=(width, height), dpi=min(110, _LARGEST / max(width, height)))

    def add_axes(x: float, y: float, wide: float, high: float) -> Any:
        """Axes whose upper left corner lies x and y inches from the figure's."""
        return figure.add_axes((x / width, 1 - (y + high) / height, wide / width, high / height))

    def panel(x: float, y: float, size: float, values: torch.Tensor) -> Any:
        axes = add_axes(x, y, size * columns, size * rows)
        axes.imshow(values.numpy(), cmap="magma", norm=PowerNorm(0.5, 0, 1), aspect="auto")
        axes.set(xticks=(), yticks=())
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        return axes

    average = panel(left, top, 2 * cell, weights[-1].mean(dim=0))
    average.set_xticks(range(columns), keys, rotation=90, fontsize=large)
    average.set_yticks(range(rows), queries, fontsize=large)
    average.set_xlabel(AXES[of][0], labelpad=8, loc="left")
    average.set_ylabel(AXES[of][1])
    average.set_title("mean of the last layer's heads", loc="left", fontsize=10, weight="bold")
    bar = add_axes(left, top + 2 * cell * rows + 0.2, bar_width, 0.12)
    figure.colorbar(average.images[0], cax=bar, orientation="horizontal", label="attention",
                    ticks=[0, 0.1, 0.5, 1], format="%g")
    for layer in range(layers if heads else 0):
        for head in range(n_heads):
            axes = panel(grid_left + head * right, top + layer * down, cell, weights[layer, head])
            if layer == 0:
                axes.set_xticks(range(columns), keys, rotation=90, fontsize=small)
                axes.set_xlabel(f"head {head + 1}", labelpad=8)
            if head == 0:
                axes.set_yticks(range(rows), queries, fontsize=small)
                axes.set_ylabel(f"layer {layer + 1}")
    return figure


def tokens_of(attention: Attention, of: Kind) -> tuple[list[str], list[str]]:
    """The keys and the queries. The decoder's own keys are the tokens that it was given."""
    keys = {"encoder": attention.source, "cross": attention.source,
            "decoder": [SPECIALS[SOS], *attention.target[:-1]]}[of]
    return keys, attention.source if of == "encoder" else attention.target


def split_mark(token: str) -> tuple[str, str]:
    """What a reader sees before a token, and its text: a space, nothing before punctuation, a
    middle dot before a piece inside a word."""
    if token.startswith(MARK):
        return " ", token[1:] or "␣"
    if token in (SPECIALS[SOS], SPECIALS[EOS]):
        return " ", token
    return "·" if token[:1].isalnum() else "", token


def _label(token: str) -> str:
    """On one line, without signs that would begin a formula or that the font lacks (it warns)."""
    before, text = split_mark(token)
    if len(text) > _LONGEST:
        text = text[:_LONGEST - 1] + "…"
    font = _font()
    text = "".join(c if font.get_char_index(ord(c)) else "□" for c in text)
    return (before.strip() + text).replace("$", r"\$")


def _width(labels: list[str]) -> float:
    """Of the widest label, in inches if it is set in one point."""
    font = _font()
    font.set_size(72, 72)  # a point is 64 of FreeType's units
    widths = []
    for label in labels:
        font.set_text(label, 0)
        widths.append(font.get_width_height()[0])
    return max(widths) / 64 / 72 / 72


def _font() -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties()))
