"""Hugging Face's `MarianMTModel.generate`, with our weights."""

from typing import Any

from pytorch import SearchBatch, attention_names, carry_over, serve_model
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

ENCODER = {
    **attention_names("self_attn.{}_proj", "self_attention"),
    "self_attn.out_proj": "self_attention.w_o",
    "self_attn_layer_norm": "around_attention.norm",
    "fc1": "feed_forward.w_1",
    "fc2": "feed_forward.w_2",
    "final_layer_norm": "around_feed_forward.norm",
}
DECODER = {
    **ENCODER,
    "self_attn_layer_norm": "around_self_attention.norm",
    **attention_names("encoder_attn.{}_proj", "cross_attention"),
    "encoder_attn.out_proj": "cross_attention.w_o",
    "encoder_attn_layer_norm": "around_cross_attention.norm",
}


def load(weights: dict[str, Tensor], settings: dict[str, Any]) -> SearchBatch:
    embedding, positions = weights["target_embedding.weight"], weights["positions"]
    model = MarianMTModel(MarianConfig(
        vocab_size=len(embedding), d_model=settings["d_model"],
        encoder_layers=settings["encoder_layers"], decoder_layers=settings["decoder_layers"],
        encoder_attention_heads=settings["heads"], decoder_attention_heads=settings["heads"],
        encoder_ffn_dim=settings["d_ff"], decoder_ffn_dim=settings["d_ff"],
        max_position_embeddings=len(positions), activation_function="relu", scale_embedding=True,
        pad_token_id=settings["pad"], decoder_start_token_id=settings["sos"],
        eos_token_id=settings["eos"], forced_eos_token_id=settings["eos"],
    )).eval()
    state = carry_over(model, weights, settings, ENCODER, DECODER, "model.")
    for name in state:
        if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
            state[name] = embedding
        elif name.endswith("embed_positions.weight"):
            state[name] = positions  # Marian's own have all sines before all cosines
    model.load_state_dict(state)

    def search(src: Tensor, limit: int, beam: int) -> Tensor:
        return model.generate(src, attention_mask=(src != settings["pad"]).long(), num_beams=beam,
                              do_sample=False, max_new_tokens=limit,
                              length_penalty=settings["length_penalty"])[:, 1:]

    return search


if __name__ == "__main__":
    serve_model(load)
