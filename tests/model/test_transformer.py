"""The whole model: what it may see, what it is made of, and how it starts."""

import copy
import inspect
import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translate.config import ModelConfig
from translate.data.batching import causal_mask, padding_mask
from translate.data.vocabulary import PAD
from translate.model.layers import Weights
from translate.model.transformer import Transformer

every_kind = pytest.mark.parametrize(
    ("norm", "positions"),
    list(itertools.product(["post", "pre"], ["sinusoidal", "learned", "relative"])),
)


def tiny(**options: Any) -> Transformer:
    """2+2 layers in evaluation mode; relative biases start at zero, so they are made to matter."""
    sizes = {"source_size": 20, "target_size": 17, "d_model": 16, "heads": 2, "d_ff": 32,
             "encoder_layers": 2, "decoder_layers": 2, "max_positions": 40}
    model = Transformer(**{**sizes, **options}).eval()
    for bias in (model.encoder_bias, model.decoder_bias):
        if bias is not None:
            nn.init.normal_(bias.bias)
    return model


def masks(src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
    return padding_mask(src), padding_mask(tgt) & causal_mask(tgt.size(1))


def tokens(rows: int = 2, source: int = 6, target: int = 7) -> tuple[Tensor, Tensor]:
    return torch.randint(4, 20, (rows, source)), torch.randint(4, 17, (rows, target))


def logits(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    return model(src, tgt, *masks(src, tgt))


def padded(ids: Tensor, extra: int) -> Tensor:
    return torch.cat([ids, ids.new_full((len(ids), extra), PAD)], dim=1)


@every_kind
def test_future_targets_do_not_change_past_logits(norm: str, positions: str) -> None:
    model = tiny(norm=norm, positions=positions)
    src, tgt = tokens()
    before = logits(model, src, tgt)
    for t in range(6):
        changed = tgt.clone()
        changed[:, t + 1:] = torch.randint(4, 17, changed[:, t + 1:].shape)
        after = logits(model, src, changed)
        torch.testing.assert_close(after[:, :t + 1], before[:, :t + 1], rtol=0, atol=1e-6)
        assert not torch.allclose(after[:, t + 1], before[:, t + 1], atol=1e-3)


@every_kind
def test_past_logits_get_no_gradient_from_future_targets(norm: str, positions: str) -> None:
    model = tiny(norm=norm, positions=positions)
    embedded: list[Tensor] = []
    model.target_embedding.register_forward_hook(lambda *call: embedded.append(call[-1]))
    out = logits(model, *tokens())
    for t in range(7):
        (gradient,) = torch.autograd.grad(out[:, t].square().sum(), embedded, retain_graph=True)
        reached = gradient.abs().sum(dim=(0, 2)) > 0
        assert reached.tolist() == [True] * (t + 1) + [False] * (6 - t)


@every_kind
def test_the_amount_of_padding_does_not_change_logits(norm: str, positions: str) -> None:
    model = tiny(norm=norm, positions=positions)
    src, tgt = tokens()
    expected = logits(model, src, tgt)
    for source, target in [(1, 0), (0, 1), (20, 3), (5, 30)]:
        found = logits(model, padded(src, source), padded(tgt, target))[:, :7]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@every_kind
def test_a_sentence_does_not_depend_on_its_neighbours_in_the_batch(
    norm: str, positions: str
) -> None:
    model = tiny(norm=norm, positions=positions)
    src, tgt = tokens()
    src[0, 4:] = PAD
    tgt[0, 3:] = PAD
    alone = logits(model, src[:1, :4], tgt[:1, :3])
    torch.testing.assert_close(logits(model, src, tgt)[:1, :3], alone, rtol=0, atol=1e-5)


@every_kind
def test_no_attention_falls_on_padding_or_on_the_future(norm: str, positions: str) -> None:
    src, tgt = (padded(ids, 3) for ids in tokens())
    src_mask, tgt_mask = masks(src, tgt)
    weights = Weights()
    tiny(norm=norm, positions=positions)(src, tgt, src_mask, tgt_mask, weights)
    for layers, mask in [(weights.encoder, src_mask), (weights.cross, src_mask),
                         (weights.decoder, tgt_mask)]:
        assert len(layers) == 2
        for layer in layers:
            assert (layer.masked_select(~mask) == 0).all()
            torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
def test_the_order_of_the_source_matters(positions: str) -> None:
    model = tiny(positions=positions)
    src, tgt = tokens()
    assert not torch.allclose(logits(model, src.flip(1), tgt), logits(model, src, tgt), atol=1e-3)


@every_kind
@torch.inference_mode()
def test_cached_decoding_equals_uncached(norm: str, positions: str) -> None:
    model = tiny(norm=norm, positions=positions)
    src, tgt = tokens(rows=3)
    src[1, 4:] = PAD
    src_mask, tgt_mask = masks(src, tgt)
    memory = model.encode(src, src_mask)
    whole = model.decode(tgt, memory, src_mask, tgt_mask)
    cache = model.start_cache(memory)
    for t in range(7):
        step = model.decode(tgt[:, t:t + 1], memory, src_mask, None, cache)
        torch.testing.assert_close(step[:, 0], whole[:, t], rtol=0, atol=1e-5)


@every_kind
@torch.inference_mode()
def test_a_cache_follows_its_rows_when_they_are_selected(norm: str, positions: str) -> None:
    model = tiny(norm=norm, positions=positions)
    src, tgt = tokens(rows=3)
    src[1, 4:] = PAD
    src_mask, _ = masks(src, tgt)
    memory = model.encode(src, src_mask)
    cache = model.start_cache(memory)
    for t in range(3):
        model.decode(tgt[:, t:t + 1], memory, src_mask, None, cache)
    rows = torch.tensor([2, 1])
    cache.select(rows, moved=torch.tensor([0]))
    src, tgt = src[rows], tgt[rows]
    step = model.decode(tgt[:, 3:4], memory[rows], src_mask[rows], None, cache)
    expected = logits(model, src, tgt)[:, 3]
    torch.testing.assert_close(model.project(step)[:, 0], expected, rtol=0, atol=1e-5)


@every_kind
@torch.inference_mode()
def test_hypotheses_that_share_a_cache_each_follow_their_own_past(
    norm: str, positions: str
) -> None:
    """Three at every place, of which the next ones choose whom to continue, as in beam search."""
    model = tiny(norm=norm, positions=positions)
    src, fed = tokens(rows=2, target=12)
    src_mask = masks(src, fed)[0]
    fed = fed.view(2, 4, 3)
    parents = torch.tensor([[[0, 1, 2], [0, 0, 2], [2, 1, 1]], [[2, 1, 0], [1, 1, 1], [0, 2, 0]]])
    memory = model.encode(src, src_mask)
    cache = model.start_cache(memory)
    past = torch.zeros(2, 3, 0, dtype=torch.bool)
    prefixes = fed.new_zeros(2, 3, 0)
    for t in range(4):
        if t:
            parent = parents[:, t - 1, :, None]
            past, prefixes = (x.gather(1, parent.expand(-1, -1, x.size(2)))
                              for x in (past, prefixes))
        past = torch.cat([past, torch.eye(3, dtype=torch.bool).expand(2, 3, 3)], dim=2)
        prefixes = torch.cat([prefixes, fed[:, t, :, None]], dim=2)
        step = model.project(model.decode(fed[:, t], memory, src_mask, past[:, None], cache))
        for n in range(3):
            expected = logits(model, src, prefixes[:, n])[:, -1]
            torch.testing.assert_close(step[:, n], expected, rtol=0, atol=1e-5)


def test_a_sinusoidal_model_reads_2000_tokens() -> None:
    src, tgt = tokens(rows=1, source=2000, target=5)
    model = tiny(encoder_layers=1, decoder_layers=1)
    assert logits(model, src, tgt).isfinite().all()


def test_a_learned_model_refuses_more_than_max_positions() -> None:
    model = tiny(positions="learned")
    with pytest.raises(ValueError, match="41 tokens are more than the 40 positions"):
        logits(model, *tokens(source=41))
    with pytest.raises(ValueError, match="41 tokens are more than the 40 positions"):
        logits(model, *tokens(target=41))


def test_embeddings_are_scaled_by_sqrt_d_model_and_then_get_positions() -> None:
    model = tiny(encoder_layers=0)
    src, _ = tokens()
    expected = model.source_embedding.weight[src] * math.sqrt(16) + model.source_positions(0, 6)
    torch.testing.assert_close(model.encode(src, padding_mask(src)), expected)


def test_dropout_falls_on_the_sum_of_embeddings_and_positions() -> None:
    model = tiny(encoder_layers=0, dropout=0.5).train()
    src = torch.randint(4, 20, (50, 30))
    dropped = model.encode(src, padding_mask(src))
    model.eval()
    kept = model.encode(src, padding_mask(src))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.5, abs=0.02)
    torch.testing.assert_close(dropped, torch.where(dropped == 0, 0, 2 * kept))


def test_evaluation_is_free_of_chance() -> None:
    model = tiny(dropout=0.3, attention_dropout=0.3, activation_dropout=0.3)
    src, tgt = tokens()
    assert torch.equal(logits(model, src, tgt), logits(model, src, tgt))
    model.train()
    assert not torch.allclose(logits(model, src, tgt), logits(model, src, tgt))


def test_pre_norm_normalises_what_leaves_each_stack() -> None:
    src, tgt = tokens()
    pre, post = tiny(norm="pre"), tiny(norm="post")
    for norm in (pre.encoder_norm, pre.decoder_norm):
        assert isinstance(norm, nn.LayerNorm)
    for norm in (post.encoder_norm, post.decoder_norm):
        assert isinstance(norm, nn.Identity)
    for model in (pre, post):
        memory = model.encode(src, padding_mask(src))
        for states in (memory, model.decode(tgt, memory, *masks(src, tgt))):
            mean, variance = states.mean(-1), states.var(-1, correction=0)
            torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-5)
            torch.testing.assert_close(variance, torch.ones_like(mean), rtol=1e-3, atol=0)


def test_encoder_and_decoder_have_positions_of_their_own() -> None:
    learned = tiny(positions="learned")
    src, tgt = tokens()
    memory = learned.encode(src, padding_mask(src))
    learned.decode(tgt, memory.detach(), *masks(src, tgt)).square().sum().backward()
    assert learned.target_positions.table.grad is not None
    assert learned.source_positions.table.grad is None
    relative = tiny(positions="relative")
    around = relative.encoder_bias(10, 1, 21)[0, 0, 0]
    assert not set(around[:10].tolist()) & set(around[11:].tolist())
    assert len(around[11:].unique()) == 8  # the encoder tells left from right, on either side;
    behind = relative.decoder_bias(15, 1, 16)[0, 0, 0]
    assert len(behind.unique()) == 16  # the decoder has all its buckets for what lies behind


def test_nothing_of_pytorchs_own_transformer_is_inside() -> None:
    for positions in ("sinusoidal", "learned", "relative"):
        for module in tiny(positions=positions).modules():
            name = type(module).__name__
            ours = type(module).__module__.startswith("translate.")
            assert ours or not ("Attention" in name or "Transformer" in name), name


def test_defaults_are_the_papers_and_the_configs() -> None:
    parameters = inspect.signature(Transformer).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    paper = {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "d_ff": 2048,
             "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "norm": "post",
             "positions": "sinusoidal", "activation": "relu"}
    assert paper.items() <= defaults.items()
    assert defaults == ModelConfig().model_dump()


def test_a_shared_embedding_needs_vocabularies_of_one_size() -> None:
    with pytest.raises(ValueError, match="one vocabulary, not 20 and 17"):
        tiny(tie_source=True)


def test_deep_copies_are_independent() -> None:
    model = tiny()
    twin = copy.deepcopy(model)
    nn.init.zeros_(twin.target_embedding.weight)
    assert model.target_embedding.weight.abs().sum() > 0
