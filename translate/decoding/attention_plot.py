"""A picture of cross-attention, with the tokens on both axes."""

from typing import TYPE_CHECKING

from translate.decoding.translator import Attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_attention(attention: Attention) -> "Figure":
    """Source tokens across, target tokens down; the mean over the last layer's heads."""
    from matplotlib.figure import Figure

    weights = attention.weights[-1].mean(dim=0)
    rows, columns = weights.shape
    figure = Figure(figsize=(2.2 + 0.42 * columns, 1.8 + 0.34 * rows), layout="constrained",
                    dpi=120)
    axes = figure.add_subplot()
    image = axes.imshow(weights.float().numpy(), cmap="magma", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(columns), [_label(t) for t in attention.source], rotation=60,
                    ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_yticks(range(rows), [_label(t) for t in attention.target])
    axes.set_xlabel("German (read by the encoder)")
    axes.set_ylabel("English (written by the decoder)")
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="attention, mean of the last layer's heads")
    return figure


def _label(token: str) -> str:
    """The token as a reader expects it; pieces inside a word begin with a middle dot."""
    token = token.replace("$", r"\$")  # not the start of a formula
    if token.startswith("▁"):
        return token[1:] or "␣"
    alone = token.startswith("<") or not token[0].isalnum()
    return token if alone else "·" + token
