"""What the peers that are written in PyTorch share: our weights in their model."""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from serve import Batch, Ids, before_eos, in_batches, serve
from torch import Tensor, nn

Names = Mapping[str, str]  # of one layer's modules: theirs -> ours
SearchBatch = Callable[[Tensor, int, int], Tensor]  # (batch, source), limit, beam -> ids … <eos> …


def serve_model(load: Callable[[dict[str, Tensor], dict[str, Any]], SearchBatch]) -> None:
    """Serve the search that `load` makes of the weights and settings in the folder given."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    torch.set_num_threads(settings["threads"])
    search = load({name: torch.from_numpy(array)
                   for name, array in np.load(folder / "weights.npz").items()}, settings)

    @torch.inference_mode()
    def search_batch(batch: Batch) -> list[Ids]:
        sources, limits, beam = batch
        src = nn.utils.rnn.pad_sequence(
            [torch.tensor([*ids, settings["eos"]]) for ids in sources], batch_first=True,
            padding_value=settings["pad"])
        return [before_eos(ids, settings["eos"])
                for ids in search(src, max(limits), beam).tolist()]

    serve(lambda request: in_batches(request, partial(map, search_batch)))


def attention_names(theirs: str, ours: str) -> dict[str, str]:
    """`theirs` has braces where q, k and v stand."""
    return {theirs.format(x): f"{ours}.w_{x}" for x in "qkv"}


def carry_over(model: nn.Module, weights: dict[str, Tensor], settings: dict[str, Any],
               encoder: Names, decoder: Names, prefix: str = "") -> dict[str, Tensor]:
    """A state of `model` with our layers in it; embeddings and positions remain to be set.

    Ours has no biases in attention and none on the logits: what is not carried over is zero.
    """
    state = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    for side, names in (("encoder", encoder), ("decoder", decoder)):
        for layer in range(settings[f"{side}_layers"]):
            for theirs, ours in names.items():
                for kind in ("weight", "bias"):
                    weight = weights.get(f"{side}.{layer}.{ours}.{kind}")
                    if weight is not None:
                        state[f"{prefix}{side}.layers.{layer}.{theirs}.{kind}"] = weight
    return state
