"""Hugging Face's `MarianMTModel`, made from a config, in a loop of one's own."""

from typing import Any

from torch import Tensor, nn
from training import BatchLoss, serve_training
from transformers import MarianConfig, MarianMTModel


def load(settings: dict[str, Any]) -> tuple[nn.Module, BatchLoss]:
    model = MarianMTModel(MarianConfig(  # by default it drops where the paper does
        vocab_size=settings["vocabulary"], d_model=settings["d_model"],
        encoder_layers=settings["encoder_layers"], decoder_layers=settings["decoder_layers"],
        encoder_attention_heads=settings["heads"], decoder_attention_heads=settings["heads"],
        encoder_ffn_dim=settings["d_ff"], decoder_ffn_dim=settings["d_ff"],
        dropout=settings["dropout"], activation_function="relu", scale_embedding=True,
        max_position_embeddings=512, pad_token_id=settings["pad"],
        decoder_start_token_id=settings["sos"], eos_token_id=settings["eos"],
        forced_eos_token_id=settings["eos"], use_cache=False))
    nn.init.normal_(model.get_input_embeddings().weight, std=settings["d_model"]**-0.5)
    criterion = nn.CrossEntropyLoss(ignore_index=settings["pad"],
                                    label_smoothing=settings["label_smoothing"])

    def batch_loss(src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Tensor:
        logits = model(input_ids=src, attention_mask=(src != settings["pad"]).long(),
                       decoder_input_ids=tgt_in).logits
        return criterion(logits.flatten(0, 1), tgt_out.flatten())

    return model, batch_loss


if __name__ == "__main__":
    serve_training(load)
