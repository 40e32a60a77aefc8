"""Layers: the equations of pre- and post-norm, the feed-forward network, dropout, the cache."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translate.model.cache import Cache
from translate.model.layers import DecoderLayer, EncoderLayer, FeedForward, Weights

NORMS = ["post", "pre"]


def build(kind: type[nn.Module], norm: str = "post", **options: Any) -> Any:
    """A small layer in double precision whose LayerNorms are not the identity they start as."""
    layer = kind(d_model=8, heads=2, d_ff=16, norm=norm, **{"dropout": 0.0, **options}).double()
    for module in layer.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1, 0.5)
            nn.init.normal_(module.bias)
    return layer


def states(length: int, rows: int = 2) -> Tensor:
    return torch.randn(rows, length, 8, dtype=torch.float64)


def causal(length: int) -> Tensor:
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril()


def layer_norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
    """(x − mean) / √(variance + ε) · γ + β (Ba et al. 2016), over d_model alone."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / (variance + 1e-5).sqrt() * module.weight + module.bias


def residual(norm: str, module: nn.LayerNorm, x: Tensor, sublayer: Any) -> Tensor:
    if norm == "post":
        return layer_norm(module, x + sublayer(x))
    return x + sublayer(layer_norm(module, x))


@pytest.mark.parametrize("norm", NORMS)
def test_an_encoder_layer_follows_its_equations(norm: str) -> None:
    layer, x = build(EncoderLayer, norm), states(5)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    attend = layer.self_attention
    expected = residual(norm, layer.around_attention.norm, x,
                        lambda y: attend(*attend.queries_keys_values(y), mask))
    expected = residual(norm, layer.around_feed_forward.norm, expected, layer.feed_forward)
    torch.testing.assert_close(layer(x, mask), expected)


@pytest.mark.parametrize("norm", NORMS)
def test_a_decoder_layer_follows_its_equations(norm: str) -> None:
    layer, x, memory = build(DecoderLayer, norm), states(4), states(5)
    memory_mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    own, cross = layer.self_attention, layer.cross_attention
    expected = residual(norm, layer.around_self_attention.norm, x,
                        lambda y: own(*own.queries_keys_values(y), causal(4)))
    # The memory is normalised once, at the end of the encoder, and not again in every layer.
    expected = residual(norm, layer.around_cross_attention.norm, expected,
                        lambda y: cross(cross.queries(y), cross.keys_values(memory),
                                        memory_mask))
    expected = residual(norm, layer.around_feed_forward.norm, expected, layer.feed_forward)
    torch.testing.assert_close(layer(x, memory, causal(4), memory_mask), expected)


def test_feed_forward_is_two_linear_maps_with_relu_between() -> None:
    module = FeedForward(3, 5).double()
    nn.init.normal_(module.w_1.bias)
    nn.init.normal_(module.w_2.bias)
    x = torch.randn(7, 3, dtype=torch.float64)
    inner = x @ module.w_1.weight.T + module.w_1.bias
    expected = inner * (inner > 0) @ module.w_2.weight.T + module.w_2.bias
    torch.testing.assert_close(module(x), expected)


def test_feed_forward_with_gelu_uses_the_exact_form() -> None:
    module = FeedForward(3, 5, activation="gelu").double()
    x = torch.randn(7, 3, dtype=torch.float64)
    inner = module.w_1(x)
    gelu = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    torch.testing.assert_close(module(x), module.w_2(gelu))


def test_feed_forward_treats_every_position_alike_and_alone() -> None:
    module = FeedForward(8, 16).double()
    x = states(5)
    alone = torch.stack([module(x[:, i]) for i in range(5)], dim=1)
    torch.testing.assert_close(module(x), alone)


@pytest.mark.parametrize("where", ["dropout", "attention_dropout", "activation_dropout"])
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_every_dropout_is_random_in_training_and_off_in_eval(
    kind: type[nn.Module], where: str
) -> None:
    layer, x = build(kind, **{where: 0.5}), states(4)
    inputs = (x, None) if kind is EncoderLayer else (x, states(3), None, None)
    assert not torch.allclose(layer(*inputs), layer(*inputs))
    layer.eval()
    plain = build(kind)
    plain.load_state_dict(layer.state_dict())
    assert torch.equal(layer(*inputs), layer(*inputs))
    torch.testing.assert_close(layer(*inputs), plain(*inputs))


def test_each_dropout_acts_at_its_own_place() -> None:
    x = states(4)

    def drop_all(where: str) -> tuple[Any, Tensor]:
        layer = build(EncoderLayer, "pre", **{where: 1.0})
        nn.init.normal_(layer.feed_forward.w_2.bias)
        return layer, layer(x, None)

    # dropout: the results of both sublayers are gone, the shortcut is left.
    layer, result = drop_all("dropout")
    torch.testing.assert_close(result, x)
    # attention_dropout: attention gives nothing, and the feed-forward network works as ever.
    layer, result = drop_all("attention_dropout")
    enter = layer_norm(layer.around_feed_forward.norm, x)
    torch.testing.assert_close(result, x + layer.feed_forward(enter))
    # activation_dropout: of the feed-forward network only its last bias is left.
    layer, result = drop_all("activation_dropout")
    y = layer_norm(layer.around_attention.norm, x)
    attended = layer.self_attention(*layer.self_attention.queries_keys_values(y))
    torch.testing.assert_close(result, x + attended + layer.feed_forward.w_2.bias)


def test_weights_are_collected_by_kind() -> None:
    weights = Weights()
    memory = build(EncoderLayer)(states(5), None, weights=weights)
    build(DecoderLayer)(states(4), memory, causal(4), None, weights=weights)
    shapes = [[w.shape for w in kind] for kind in (weights.encoder, weights.decoder, weights.cross)]
    assert shapes == [[(2, 2, 5, 5)], [(2, 2, 4, 4)], [(2, 2, 4, 5)]]


def start_cache(layer: DecoderLayer, memory: Tensor) -> Cache:
    return Cache.empty([layer.cross_attention.keys_values(memory)])


def step(
    layer: DecoderLayer, x: Tensor, cache: Cache, mask: Tensor | None = None,
    memory_mask: Tensor | None = None
) -> Tensor:
    (kept,) = cache.extend(x.size(1))
    return layer(x, None, mask, memory_mask, cache=kept)


@pytest.mark.parametrize("norm", NORMS)
def test_a_cached_layer_equals_a_pass_over_everything(norm: str) -> None:
    layer, x, memory = build(DecoderLayer, norm), states(20), states(5)
    whole = layer(x, memory, causal(20), None)
    cache = start_cache(layer, memory)
    with torch.inference_mode():
        steps = [step(layer, newest, cache) for newest in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


@torch.inference_mode()
def test_select_keeps_the_rows_asked_for() -> None:
    layer, x, memory = build(DecoderLayer), states(3, rows=4), states(5, rows=4)
    cache = start_cache(layer, memory)
    for newest in x[:, :2].split(1, dim=1):
        step(layer, newest, cache)
    rows = torch.tensor([0, 3, 1])
    cache.select(rows, moved=torch.tensor([1, 2]))
    x, memory = x[rows], memory[rows]
    torch.testing.assert_close(step(layer, x[:, 2:], cache),
                               layer(x, memory, causal(3), None)[:, 2:])


@torch.inference_mode()
def test_select_works_before_the_first_token() -> None:
    cache = start_cache(build(DecoderLayer), states(5, rows=3))
    before = cache.memory.clone()
    cache.select(torch.tensor([0, 2]), moved=torch.tensor([1]))
    assert torch.equal(cache.memory, before[:, :, [0, 2]])
    assert cache.filled().shape == (1, 2, 2, 2, 0, 4)


@torch.inference_mode()
@pytest.mark.parametrize("forgotten", [0, 2])
def test_rows_that_join_others_go_on_as_if_they_were_alone(forgotten: int) -> None:
    """They begin in the last of three steps; then the others may be about to leave."""
    layer = build(DecoderLayer)
    early, late, wide, narrow = states(4, rows=3), states(2), states(5, rows=3), states(3)
    cache, other = start_cache(layer, wide), start_cache(layer, narrow)
    for newest in early[:, :3].split(1, dim=1):
        step(layer, newest, cache)
    step(layer, late[:, :1], other)
    cache.join(other, source=5)
    assert (cache.filled()[:, :, 3:, :, :2] == 0).all()
    if forgotten:
        cache.select(torch.tensor([3, 4]), moved=torch.tensor([0, 1]))
        cache.forget(2)
    past, source = (torch.ones(5, 1, 1, n, dtype=torch.bool) for n in (4, 5))
    past[3:, ..., :2] = source[3:, ..., 3:] = False
    kept = slice(3 if forgotten else 0, None)
    newest = torch.cat([early[:, 3:], late[:, 1:]])[kept]
    found = step(layer, newest, cache, past[kept, ..., forgotten:], source[kept])
    alone = [layer(x, memory, causal(x.size(1)), None)[:, -1:]
             for x, memory in ((early, wide), (late, narrow))]
    torch.testing.assert_close(found, torch.cat(alone)[kept])
