"""JoeyNMT's own search, with our weights."""

from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.search import search as joeynmt_search
from joeynmt_model import build
from pytorch import SearchBatch, attention_names, carry_over, serve_model
from torch import Tensor, nn

FEED_FORWARD = {
    "feed_forward.pwff_layer.0": "feed_forward.w_1",
    "feed_forward.pwff_layer.3": "feed_forward.w_2",
    "feed_forward.layer_norm": "around_feed_forward.norm",
}
ENCODER = {
    **attention_names("src_src_att.{}_layer", "self_attention"),
    "src_src_att.output_layer": "self_attention.w_o",
    "layer_norm": "around_attention.norm",
    **FEED_FORWARD,
}
DECODER = {
    **attention_names("trg_trg_att.{}_layer", "self_attention"),
    "trg_trg_att.output_layer": "self_attention.w_o",
    "x_layer_norm": "around_self_attention.norm",
    **attention_names("src_trg_att.{}_layer", "cross_attention"),
    "src_trg_att.output_layer": "cross_attention.w_o",
    "dec_layer_norm": "around_cross_attention.norm",
    **FEED_FORWARD,
}


def load(weights: dict[str, Tensor], settings: dict[str, Any]) -> SearchBatch:
    embedding = weights["target_embedding.weight"]
    model = build(settings, len(embedding)).eval()
    state = carry_over(model, weights, settings, ENCODER, DECODER)
    state |= {f"{name}.weight": embedding
              for name in ("src_embed.lut", "trg_embed.lut", "decoder.output_layer")}
    state |= {name: table for name, table in model.named_buffers() if name.endswith(".pe")}
    model.load_state_dict(state)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5  # PyTorch's default, which ours has; theirs is 1e-6

    def search(src: Tensor, limit: int, beam: int) -> Tensor:
        batch = Batch(src, (src != settings["pad"]).sum(dim=1), None, None, None,
                      torch.arange(len(src)), src.device, settings["pad"], settings["eos"],
                      is_train=False)
        return joeynmt_search(model, batch, limit, beam, settings["length_penalty"])[0]

    return search


if __name__ == "__main__":
    serve_model(load)
