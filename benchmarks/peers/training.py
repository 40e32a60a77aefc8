"""What the training peers share: the batches, and a step that takes their mean loss down.

The folder given holds `settings.json` and `batches.npz` (src_0, tgt_in_0, tgt_out_0, src_1, …). A
request is a list of batches' numbers, each of which is trained on; the answer is their mean loss.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from serve import serve
from torch import Tensor, nn

BatchLoss = Callable[[Tensor, Tensor, Tensor], Tensor]  # src, tgt_in, tgt_out -> mean over tokens


def serve_training(load: Callable[[dict[str, Any]], tuple[nn.Module, BatchLoss]]) -> None:
    """Serve updates of the model that `load` makes of the settings."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    arrays = {name: torch.from_numpy(array)
              for name, array in np.load(folder / "batches.npz").items()}
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(settings["seed"])
    model, batch_loss = load(settings)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["rate"], betas=(0.9, 0.98),
                                 eps=1e-9)

    def update(number: int) -> float:
        optimizer.zero_grad()
        loss = batch_loss(*(arrays[f"{side}_{number}"] for side in ("src", "tgt_in", "tgt_out")))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    serve(lambda numbers: sum(map(update, numbers)) / len(numbers))
