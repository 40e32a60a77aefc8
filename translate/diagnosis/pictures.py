"""The pictures of the report."""

import math
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter
from torch import Tensor

from translate.config import Config
from translate.diagnosis.activations import Scales
from translate.diagnosis.gradients import Norms
from translate.model.positions import LearnedPositions
from translate.model.transformer import Transformer
from translate.training.schedule import noam


def draw_gradients(norms: dict[str, Norms]) -> Figure:
    """The norm of every layer's gradient, a line for each measurement."""
    figure = Figure(figsize=(9, 4), layout="constrained", dpi=120)
    for axes, stack in _stacks(figure):
        for label, found in norms.items():
            values = [of["all"] for row, of in found.items() if row.startswith(f"{stack} ")]
            axes.plot(values, "o-", label=label)
        axes.set(xlabel="layer", xticks=range(len(values)))
        if all(0 < of["all"] < math.inf for found in norms.values() for of in found.values()):
            axes.set(yscale="log")
            axes.yaxis.set_major_formatter(LogFormatter())
            axes.yaxis.set_minor_formatter(LogFormatter())  # where a decade is not in sight
    figure.axes[0].set(ylabel="norm of the gradient")
    figure.axes[0].legend()
    figure.suptitle("Healthy: within a factor of ten. A climb through the decoder is post-norm's, "
                    "and is why it needs warm-up (Xiong et al. 2020)", fontsize="medium")
    return figure


def draw_scales(found: dict[str, Scales]) -> Figure:
    """The root mean square of the states through the depth of either stack."""
    figure = Figure(figsize=(9, 4), layout="constrained", dpi=120)
    for axes, stack in _stacks(figure):
        for (label, scale), style in zip(found.items(), ("o-", "s--", "^:"), strict=True):
            values = [value for name, value in scale.items() if name.startswith(stack)]
            axes.plot(values, style, label=label)
        axes.set(xlabel="layers passed", xticks=range(len(values)))
    figure.axes[0].set(ylabel="root mean square of the states", ylim=0)
    figure.axes[0].legend()
    figure.suptitle("Healthy: level with post-norm, a steady rise with pre-norm",
                    fontsize="medium")
    return figure


def _stacks(figure: Figure) -> list[tuple[Any, str]]:
    """Axes for the encoder and the decoder, side by side and of one scale."""
    stacks = list(zip(figure.subplots(1, 2, sharey=True), ("encoder", "decoder"), strict=True))
    for axes, stack in stacks:
        axes.set(title=stack)
    return stacks


def draw_positions(model: Transformer, length: int) -> Figure:
    """The encodings as an image and some dimensions as curves; of relative ones the biases."""
    figure = Figure(figsize=(11, 4.5), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2)

    def image(axes: Any, values: Tensor, **extent: Any) -> None:
        values = values.detach().cpu()
        limit = float(values.abs().max()) or 1.0  # biases start at zero
        drawn = axes.imshow(values.numpy(), aspect="auto", cmap="RdBu", vmin=-limit,
                            vmax=limit, origin="lower", interpolation="nearest", **extent)
        figure.colorbar(drawn, ax=axes)

    if model.encoder_bias and model.decoder_bias:
        for axes, stack, module, end in ((left, "encoder", model.encoder_bias, length),
                                         (right, "decoder", model.decoder_bias, 0)):
            bias = module(length, 1, length + end + 1)[0, :, 0]  # of one query, for all keys
            image(axes, bias, extent=(-length - 0.5, end + 0.5, -0.5, len(bias) - 0.5))
            axes.set(title=f"Relative positions: bias of the {stack}'s scores", ylabel="head",
                     xlabel="position of the key − position of the query", yticks=range(len(bias)))
        return figure
    assert model.source_positions is not None
    values = model.source_positions(0, length).detach().cpu()
    if isinstance(model.source_positions, LearnedPositions):
        image(left, values)
        left.set(title="Learned positions of the source", xlabel="dimension")
    else:  # interleaved, the sines and cosines would be stripes
        image(left, torch.cat([values[:, 0::2], values[:, 1::2]], dim=1))
        left.set(title="Sinusoidal positions", xlabel="even dimensions (sine), then odd (cosine)")
    left.set(ylabel="position")
    for dimension in sorted({values.size(1) // part for part in (16, 8, 4, 2)}):
        right.plot(values[:, dimension].numpy(), label=f"dimension {dimension}")
    right.set(title="Some dimensions as curves", xlabel="position", ylabel="value")
    figure.legend(fontsize="small", loc="outside lower right", ncols=4)
    return figure


def draw_schedule(config: Config, updates: int) -> Figure:
    """The learning rate up to the planned end of training, and at least well past its peak."""
    training, d_model = config.training, config.model.d_model
    end = max(updates, 3 * training.warmup)
    steps = sorted({*range(1, end + 1, max(1, end // 500)), training.warmup, end})
    rates = [noam(step, d_model, training.warmup, training.factor) for step in steps]
    figure = Figure(figsize=(8, 4), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.plot(steps, rates)
    axes.axvline(training.warmup, color="tab:orange", linestyle="--",
                 label=f"end of warm-up: {max(rates):.2e} at update {training.warmup:,}")
    axes.axvline(updates, color="grey", linestyle=":", label=f"planned end: update {updates:,}")
    axes.set(title=f"Noam schedule: d_model {d_model}, warm-up {training.warmup:,}, "
             f"factor {training.factor:g}", xlabel="update", ylabel="learning rate", ylim=0)
    axes.legend(loc="lower right")
    return figure
