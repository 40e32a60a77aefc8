"""Mistakes that people make when they change a Transformer: the report names each, and no other."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate.config import Config
from translate.data import batching
from translate.diagnosis.activations import check_embeddings
from translate.diagnosis.agreement import check_agreement
from translate.diagnosis.attention import (
    attention_layers,
    check_masked_rows,
    check_rows,
    check_saturation,
)
from translate.diagnosis.gradients import check_gradients, forward_and_backward, gradient_norms
from translate.diagnosis.leaks import check_leaks
from translate.diagnosis.probe import made_up_batch, trace
from translate.errors import UserError
from translate.model import attention, transformer
from translate.model.layers import DecoderLayer, EncoderLayer, Residual
from translate.model.transformer import Transformer

Patch = pytest.MonkeyPatch

LATER = "no logit depends on a later target token"
PADDING = "no logit depends on padding"
SENTENCE = "no logit depends on another sentence of its batch"
ALONE = "a sentence has the same logits alone and in a batch"
CACHE = "decoding with a cache gives the logits of training"
REFERENCE = "fused attention and the readable reference give the same logits"
MASKED_ROWS = "rows that are wholly masked give finite logits and gradients"
ROW_SUMS = "attention rows sum to 1"
ASTRAY = "no attention falls on padding or on the future"
UNUSED = "every parameter has a gradient"
UNEVEN = "no layer's gradient vanishes or explodes beside another's"
SATURATED = "no softmax is saturated at initialisation (1/√d_k)"
DROWNED = "positions do not drown the tokens"


def build(**options: Any) -> Transformer:
    return Transformer(30, 40, **{"d_model": 64, "heads": 2, "encoder_layers": 2,
                                  "decoder_layers": 2, "d_ff": 64, **options}).eval()


def complaints(model: Transformer) -> dict[str, list[str]]:
    """Of the checks of a new model: claim -> what speaks against it."""
    config = Config.model_validate({"name": "x", "data": {"corpus": "sample"}})
    batch = made_up_batch(model)
    loss, weights = forward_and_backward(config, model, batch)
    layers = attention_layers(weights, batch)
    checks = [*check_gradients(model, [loss], [gradient_norms(model)]), *check_leaks(model),
              *check_agreement(model), check_masked_rows(model), *check_rows(layers),
              check_saturation(layers), check_embeddings(model, batch)]
    return {check.claim: check.problems for check in checks if check.problems}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
def test_a_model_as_it_should_be_passes(norm: str, positions: str) -> None:
    assert complaints(build(norm=norm, positions=positions)) == {}


def test_so_does_one_with_a_joint_vocabulary() -> None:
    model = Transformer(40, 40, d_model=64, heads=2, encoder_layers=1, decoder_layers=1, d_ff=64,
                        tie_source=True, activation="gelu")
    assert complaints(model.eval()) == {}


def change_attention(patch: Patch, change: Callable[..., Any]) -> None:
    """Of both kinds; `change` returns other arguments for them."""
    for name in ("attention", "fused_attention"):
        original = getattr(attention, name)
        patch.setattr(attention, name, lambda q, k, v, mask=None, bias=None, dropout=0.0,
                      original=original: original(*change(q, k, v, mask), bias, dropout))


def test_no_causal_mask(monkeypatch: Patch) -> None:
    monkeypatch.setattr(batching, "causal_mask", lambda length, device=None:
                        torch.ones(length, length, dtype=torch.bool))
    found = complaints(build())
    assert found.keys() == {LATER, CACHE, ASTRAY}
    assert found[LATER] == [
        "from decoder 0 on, position 0 sees position 1 (in training and evaluation)"]
    assert [problem.split(":")[0] for problem in found[ASTRAY]] == [
        "decoder 0", "decoder 1"]


def test_a_causal_mask_that_is_off_by_one(monkeypatch: Patch) -> None:
    monkeypatch.setattr(batching, "causal_mask", lambda length, device=None:
                        torch.ones(length, length, dtype=torch.bool).tril(1))
    assert complaints(build()).keys() == {LATER, CACHE, ASTRAY}


def test_masks_the_wrong_way_round(monkeypatch: Patch) -> None:
    change_attention(monkeypatch, lambda q, k, v, mask: (q, k, v, mask if mask is None else ~mask))
    found = complaints(build())
    assert found.keys() >= {LATER, PADDING, ALONE, ROW_SUMS, ASTRAY}
    assert found[LATER][0].startswith("from decoder 0 on")
    assert found[PADDING][0].startswith("from encoder 0 on")


def test_no_padding_mask_in_cross_attention(monkeypatch: Patch) -> None:
    forward = DecoderLayer.forward
    monkeypatch.setattr(DecoderLayer, "forward", lambda *inputs, **options: forward(
        *inputs[:4], None, *inputs[5:6], None, *inputs[7:], **options))
    found = complaints(build())
    assert found.keys() == {PADDING, ALONE, ASTRAY}
    assert found[PADDING] == [
        "from decoder 0 on, position 0 sees padding of the source (in training and evaluation)"]
    assert all(problem.startswith("cross") for problem in found[ASTRAY])


def test_softmax_over_the_queries(monkeypatch: Patch) -> None:
    def wrong(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, bias: Any = None,
              dropout: float = 0.0) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=-2)
        return weights @ v, weights

    monkeypatch.setattr(attention, "attention", wrong)
    found = complaints(build())
    assert found.keys() >= {LATER, ROW_SUMS, REFERENCE}
    assert found[LATER] == ["from decoder 0 on, position 0 sees position 1 (in evaluation)"]
    assert found[ROW_SUMS][0].startswith("encoder 0: off by up to ")


def test_minus_infinity_for_masked_scores(monkeypatch: Patch) -> None:
    def plain(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, bias: Any = None,
              dropout: float = 0.0) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        return weights @ v, weights

    monkeypatch.setattr(attention, "attention", plain)
    assert complaints(build()) == {MASKED_ROWS: [
        "a source of padding alone, reference attention",
        "a target position that may see nothing, reference attention"]}


def test_no_division_by_sqrt_d_k(monkeypatch: Patch) -> None:
    change_attention(monkeypatch, lambda q, k, v, mask: (q * math.sqrt(q.size(-1)), k, v, mask))
    assert complaints(build()).keys() == {SATURATED}


def test_no_multiplication_by_sqrt_d_model(monkeypatch: Patch) -> None:
    monkeypatch.setattr(transformer, "math", SimpleNamespace(sqrt=lambda x: 1.0))
    (problems,) = (found := complaints(build())).values()
    assert found.keys() == {DROWNED}
    assert [problem.split(":")[0] for problem in problems] == ["source", "target"]


def test_no_residual_connection(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Residual, "leave", lambda self, x, sublayer:
                        sublayer if self.pre else self.norm(sublayer))
    found = complaints(build(norm="pre"))
    assert found.keys() >= {UNEVEN}


def test_a_module_that_is_never_called() -> None:
    model = build()
    model.decoder[1].forgotten = nn.Linear(8, 8)
    assert complaints(model) == {UNUSED: ["decoder.1.forgotten.weight",
                                          "decoder.1.forgotten.bias"]}


class BatchNorm(nn.BatchNorm1d):
    """In place of a layer norm."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def test_batch_norm_in_a_layer() -> None:
    model = build()
    model.decoder[1].around_feed_forward.norm = BatchNorm(64).eval()
    found = complaints(model)
    assert found.keys() == {LATER, PADDING, SENTENCE}  # nothing that attention weights show
    for problem, in found.values():
        assert problem.startswith("from decoder 1 on") and problem.endswith("(in training)")


class MeanOverTime(nn.Module):
    """Added to what a feed-forward network returns: what the sentence is about."""

    def __init__(self, module: nn.Module, mean: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.module, self.mean = module, mean

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x) + self.mean(x)


@pytest.mark.parametrize(("stack", "kinds"), [("encoder", {PADDING, ALONE}),
                                              ("decoder", {LATER, PADDING, ALONE, CACHE})])
def test_a_mean_over_time(stack: str, kinds: set[str]) -> None:
    model = build()
    layer = getattr(model, stack)[1]
    layer.feed_forward = MeanOverTime(layer.feed_forward, lambda x: x.mean(dim=1, keepdim=True))
    found = complaints(model)
    assert found.keys() == kinds
    assert found[PADDING][0].startswith(f"from {stack} 1 on, position 0 sees padding of the ")


def test_a_gate_that_is_closed_hides_a_leak_until_it_opens() -> None:
    model = build()
    gate = nn.Parameter(torch.zeros(()))
    model.decoder[1].feed_forward = MeanOverTime(model.decoder[1].feed_forward, lambda x:
                                                 gate * x.mean(dim=1, keepdim=True))
    assert complaints(model) == {}
    nn.init.constant_(gate, 1e-3)
    assert complaints(model).keys() == {LATER, PADDING, ALONE, CACHE}


def test_a_length_that_counts_padding_has_no_gradient_and_is_found() -> None:
    model = build()
    model.encoder[0].feed_forward = MeanOverTime(model.encoder[0].feed_forward,
                                                 lambda x: x / x.size(1))
    assert complaints(model).keys() == {ALONE}


class Convolution(nn.Conv1d):
    """Over time, three wide; a causal one looks back alone."""

    def __init__(self, causal: bool) -> None:
        super().__init__(64, 64, 3)
        self.before = 2 if causal else 1

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x.transpose(1, 2), (self.before, 2 - self.before))
        return super().forward(x).transpose(1, 2)


def test_a_convolution_that_looks_ahead() -> None:
    model = build()
    model.decoder[1].feed_forward = Convolution(causal=False)
    found = complaints(model)
    assert found.keys() == {LATER, PADDING, ALONE, CACHE}
    assert found[LATER] == [
        "from decoder 1 on, position 0 sees position 1 (in training and evaluation)"]


def test_a_causal_convolution_that_the_cache_does_not_know() -> None:
    model = build()
    model.decoder[1].feed_forward = Convolution(causal=True)
    assert complaints(model).keys() == {CACHE}


def test_a_leak_between_the_layers(monkeypatch: Patch) -> None:
    encode = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda *arguments:
                        encode(*arguments) + encode(*arguments).mean(dim=0))
    with pytest.raises(UserError, match="the model calls them 3 times"):
        complaints(build())
    project = Transformer.project
    monkeypatch.undo()
    monkeypatch.setattr(Transformer, "project", lambda self, states: project(
        self, states + states.mean(dim=0) if states.dim() == 3 else states))
    assert complaints(build())[SENTENCE][0].startswith("from logits on, position 0 sees the ")


def test_embeddings_may_be_changed_in_place(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Transformer, "_embed", lambda self, tokens, embedding, *rest:
                        embedding(tokens).mul_(8))
    assert complaints(build()).keys() == set()


@pytest.mark.parametrize("layer", [EncoderLayer, DecoderLayer])
def test_weights_that_are_not_a_number_are_not_called_a_leak(layer: type[nn.Module]) -> None:
    model = build()
    with torch.no_grad():
        next(m for m in model.modules() if isinstance(m, layer)).feed_forward.w_2.bias[0] = math.nan
    for check in check_leaks(model):
        (problem,) = check.problems
        assert "nothing can be said: the logits are not finite" in problem


def test_the_report_leaves_the_model_as_it_was() -> None:
    model = build()
    model.encoder[0].around_attention.norm = BatchNorm(64).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    check_leaks(model), check_agreement(model), check_masked_rows(model)
    trace(model, made_up_batch(model))
    assert not model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
