"""The loop of a tutorial around PyTorch's own `nn.Transformer`."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training import BatchLoss, serve_training

LONGEST = 512


class PlainTransformer(nn.Module):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        d_model, self.pad = settings["d_model"], settings["pad"]
        self.embedding = nn.Embedding(settings["vocabulary"], d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        angles = torch.arange(LONGEST)[:, None] * 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        self.dropout = nn.Dropout(settings["dropout"])
        self.transformer = nn.Transformer(
            d_model, settings["heads"], settings["encoder_layers"], settings["decoder_layers"],
            settings["d_ff"], settings["dropout"], batch_first=True)
        for module in self.transformer.modules():  # the places that the paper does not have
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(
            tgt_in.size(1), dtype=torch.bool)
        padding = src == self.pad
        states = self.transformer(
            self._embed(src), self._embed(tgt_in), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
            tgt_key_padding_mask=tgt_in == self.pad)
        return F.linear(states, self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[:ids.size(1)])


def load(settings: dict[str, Any]) -> tuple[nn.Module, BatchLoss]:
    model = PlainTransformer(settings)
    criterion = nn.CrossEntropyLoss(ignore_index=settings["pad"],
                                    label_smoothing=settings["label_smoothing"])

    def batch_loss(src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Tensor:
        return criterion(model(src, tgt_in).flatten(0, 1), tgt_out.flatten())

    return model, batch_loss


if __name__ == "__main__":
    serve_training(load)
