"""A trained model as one of CTranslate2: every weight put where that library expects it."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translate.config import Config
from translate.data.vocabulary import SPECIALS, Vocabulary
from translate.errors import UserError
from translate.model.attention import MultiHeadAttention
from translate.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from translate.model.positions import LearnedPositions, RelativeBias, SinusoidalPositions
from translate.model.transformer import Transformer


def import_ctranslate2() -> ModuleType:
    """An optional dependency, loaded when it is asked for."""
    try:
        import ctranslate2
    except ImportError:
        raise UserError("CTranslate2 is not installed here; this installs it:\n.venv/bin/pip "
                        "install --constraint constraints.txt --editable '.[export]'") from None
    return ctranslate2


def check_expressible(config: Config) -> None:
    """CTranslate2 has all options of the model, and all of the search but this one."""
    if config.decoding.replace_unk:
        raise UserError("decoding.replace_unk=true: CTranslate2 does not tell what each head of "
                        "cross-attention points at; use --set decoding.replace_unk=false")


def write_model(
    model: Transformer, config: Config, source: Vocabulary, target: Vocabulary,
    quantization: str, folder: Path,
) -> None:
    """Write `model.bin`, the library's config and its vocabularies.

    A sinusoidal table ends at `model.max_positions` as a learned one does: the library has no
    table that grows. `quantization` is one of the library's names.

    Raises:
        UserError: CTranslate2 cannot express this.
    """
    check_expressible(config)
    specs = import_ctranslate2().specs
    activations = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}
    spec = specs.TransformerSpec.from_config(
        (config.model.encoder_layers, config.model.decoder_layers), config.model.heads,
        pre_norm=config.model.norm == "pre", activation=activations[config.model.activation],
        relative_attention_bias=config.model.positions == "relative")
    rows = config.model.max_positions
    _embed(spec.encoder, spec.encoder.embeddings[0], model.source_embedding,
           model.source_positions, rows)
    _embed(spec.decoder, spec.decoder.embeddings, model.target_embedding, model.target_positions,
           rows)
    for layer_spec, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _encoder_layer(layer_spec, layer, model.encoder_bias)  # type: ignore[arg-type]
    for layer_spec, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _decoder_layer(layer_spec, layer, model.decoder_bias)  # type: ignore[arg-type]
    for stack, norm in ((spec.encoder, model.encoder_norm), (spec.decoder, model.decoder_norm)):
        if isinstance(norm, nn.LayerNorm):
            _norm(stack.layer_norm, norm)
    _linear(spec.decoder.projection, model.output)

    spec.register_source_vocabulary(source.tokens)
    spec.register_target_vocabulary(target.tokens)
    unk, _, sos, eos = SPECIALS
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, sos, eos
    spec.config.decoder_start_token = sos
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


def _embed(
    stack: Any, spec: Any, embedding: nn.Embedding,
    positions: SinusoidalPositions | LearnedPositions | None, rows: int,
) -> None:
    """The library multiplies by √d_model too."""
    spec.weight = _copy(embedding.weight)
    if positions is not None:
        stack.position_encodings.encodings = _copy(positions(0, rows))


def _encoder_layer(spec: Any, layer: EncoderLayer, bias: RelativeBias | None) -> None:
    _self_attention(spec.self_attention, layer.self_attention, layer.around_attention, bias)
    _feed_forward(spec.ffn, layer.feed_forward, layer.around_feed_forward)


def _decoder_layer(spec: Any, layer: DecoderLayer, bias: RelativeBias | None) -> None:
    _self_attention(spec.self_attention, layer.self_attention, layer.around_self_attention, bias)
    cross = layer.cross_attention
    _linear(spec.attention.linear[0], cross.w_q)
    _linear(spec.attention.linear[1], cross.w_k, cross.w_v)
    _linear(spec.attention.linear[2], cross.w_o)
    _norm(spec.attention.layer_norm, layer.around_cross_attention.norm)
    _feed_forward(spec.ffn, layer.feed_forward, layer.around_feed_forward)


def _self_attention(
    spec: Any, attention: MultiHeadAttention, around: Residual, bias: RelativeBias | None
) -> None:
    _linear(spec.linear[0], attention.w_q, attention.w_k, attention.w_v)
    _linear(spec.linear[1], attention.w_o)
    _norm(spec.layer_norm, around.norm)
    if bias is not None:  # one for all layers; the library has it in each
        spec.relative_attention_bias = _copy(bias.bias.T)
        spec.relative_attention_max_distance = np.int32(bias.max_distance)


def _feed_forward(spec: Any, feed_forward: FeedForward, around: Residual) -> None:
    _linear(spec.linear_0, feed_forward.w_1)
    _linear(spec.linear_1, feed_forward.w_2)
    _norm(spec.layer_norm, around.norm)


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _linear(spec: Any, *layers: nn.Linear) -> None:
    """Layers that read the same input are one matrix there."""
    spec.weight = torch.cat([_copy(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        spec.bias = torch.cat([_copy(layer.bias) for layer in layers])


def _copy(x: Tensor) -> Tensor:
    """Of the weights themselves: the library would quantise them in their place."""
    return x.detach().cpu().clone(memory_format=torch.contiguous_format)
