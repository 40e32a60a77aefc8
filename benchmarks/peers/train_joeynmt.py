"""JoeyNMT's own model, batch and loss, put together as its `TrainManager` does it."""

from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward
from joeynmt_model import build
from torch import Tensor, nn
from training import BatchLoss, serve_training


def load(settings: dict[str, Any]) -> tuple[nn.Module, BatchLoss]:
    model = build(settings, settings["vocabulary"])
    nn.init.normal_(model.trg_embed.lut.weight, std=settings["d_model"]**-0.5)
    model.loss_function = ("crossentropy", settings["label_smoothing"])
    for module in model.modules():  # the places that the paper does not have
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0
        elif isinstance(module, PositionwiseFeedForward):
            module.pwff_layer[2].p = 0.0

    def batch_loss(src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Tensor:
        batch = Batch(src, (src != settings["pad"]).sum(dim=1), None,
                      torch.cat([tgt_in[:, :1], tgt_out], dim=1), None, torch.arange(len(src)),
                      src.device, settings["pad"], settings["eos"])
        batch.sort_by_src_length()
        loss = model(return_type="loss", **vars(batch))[0]
        return batch.normalize(loss, "tokens")

    return model, batch_loss


if __name__ == "__main__":
    serve_training(load)
