"""Pictures of what a model does on the generated corpus: phenomena, and where its heads look."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from translate.evaluation.alignment import Alignment


def draw_phenomena(found: Mapping[str, Mapping[str, int]]) -> Figure:
    """Bars of exact match, the worst phenomenon on top."""
    shares = {f"{label} ({count['sentences']:,})": 100 * count["right"] / count["sentences"]
              for label, count in found.items()}
    labels = sorted(shares, key=lambda label: -shares[label])
    figure = Figure(figsize=(8, 1.2 + 0.24 * len(labels)), layout="constrained", dpi=120)
    axes = figure.subplots()
    bars = axes.barh(labels, [shares[label] for label in labels], color=[
        "tab:orange" if label.startswith("all ") else "tab:blue" for label in labels])
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.margins(y=0.01)
    axes.set(xlim=(0, 108), xlabel="translations equal to the reference, %")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_alignment(found: Alignment) -> Figure:
    """The error rate of each head, and by class of words the right links of each layer's mean."""
    layers, heads = found.error_rate.shape
    height = 1.8 + 0.45 * max(layers, len(found.words))
    figure = Figure(figsize=(4 + 0.6 * (heads + layers), height), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2, width_ratios=(heads + 1, layers + 1))
    numbers = [str(n) for n in range(1, max(layers, heads) + 1)]
    _heat(left, 100 * found.error_rate, [*numbers[:heads - 1], "mean"], numbers[:layers], "YlGn_r")
    left.set(title="alignment error rate, %", xlabel="head", ylabel="layer")
    _heat(right, 100 * found.precision[:, -1].T, numbers[:layers],
          [f"{name} ({n:,})" for name, n in found.words.items()], "YlGn")
    right.set(title="right links, %", xlabel="layer, mean of heads")
    return figure


def _heat(axes: Any, values: NDArray[Any], columns: Sequence[str], rows: Sequence[str],
          colours: str) -> None:
    image = axes.imshow(values, cmap=colours, vmin=0, vmax=100, aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for row, cells in enumerate(values):
        for column, value in enumerate(cells):
            light = sum(image.cmap(image.norm(value))[:3]) > 1.5
            axes.text(column, row, f"{value:.1f}", ha="center", va="center",
                      color="black" if light else "white", fontsize="small")
