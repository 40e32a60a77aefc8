"""Attention as a formula: values and gradients, masks, and what tutorials claim about it."""

import itertools
import math

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from translate.data.batching import padding_mask
from translate.model.attention import MultiHeadAttention, attention, fused_attention

HALF = [torch.float16, torch.bfloat16]
EVERY_DTYPE = [torch.float32, *HALF]


def random_qkv(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Queries (2, 3, 4, 8), keys and values (2, 3, 5, 8)."""
    return [torch.randn(2, 3, n, 8, dtype=dtype, requires_grad=True) for n in (4, 5, 5)]


def random_mask() -> Tensor:
    """About half allowed; query 0 of the first row may attend to nothing, the others to key 0."""
    mask = torch.rand(2, 1, 4, 5) > 0.5
    mask[..., 0] = True
    mask[0, 0, 0] = False
    return mask


def gradients(result: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Of a fixed, uneven sum of the result."""
    weight = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result)
    return torch.autograd.grad((result * weight).sum(), inputs, retain_graph=True)


def test_wrong_shapes_are_refused_while_tests_run() -> None:
    q, k, v = random_qkv()
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(q, k[:, :, 1:], v)
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(q, k, v, mask=torch.ones(2, 1, 4, 5))  # not boolean
    with pytest.raises(jaxtyping.TypeCheckError):
        padding_mask(torch.ones(4, dtype=torch.long))


def test_attention_equals_a_computation_by_hand() -> None:
    # q·k₁/√4 = ln 3 and q·k₂/√4 = 0 make weights of 3/4 and 1/4; k₃ is masked.
    q = torch.tensor([[[[2.0, 0, 0, 0]]]])
    k = torch.tensor([[[[math.log(3), 5, 0, 0], [0, 0, 7, 0], [9, 9, 9, 9]]]], requires_grad=True)
    v = torch.tensor([[[[4.0, 0], [0, 8], [100, 100]]]])
    mask = torch.tensor([[[[True, True, False]]]])
    result, weights = attention(q, k, v, mask)
    assert weights.flatten().tolist() == pytest.approx([0.75, 0.25, 0])
    assert result.flatten().tolist() == pytest.approx([3, 2])
    assert fused_attention(q, k, v, mask).flatten().tolist() == pytest.approx([3, 2])
    # ∂result₁/∂score = 4 w₁(1 − w₁) and −4 w₁w₂, times ∂score/∂k = q/√4.
    result[..., 0].backward()
    expected = [0.75, 0, 0, 0, -0.75, 0, 0, 0, 0, 0, 0, 0]
    assert k.grad.flatten().tolist() == pytest.approx(expected)


def test_attention_equals_the_formula_in_plain_python() -> None:
    q, k, v = random_qkv()
    result, _ = attention(q, k, v)
    for b, h, i in [(0, 0, 0), (1, 2, 3), (0, 1, 2)]:
        query, keys, values = q[b, h, i].tolist(), k[b, h].tolist(), v[b, h].tolist()
        scores = [sum(x * y for x, y in zip(query, key, strict=True)) / 8**0.5 for key in keys]
        weights = [math.exp(s) / sum(map(math.exp, scores)) for s in scores]
        by_hand = [sum(w * value[d] for w, value in zip(weights, values, strict=True))
                   for d in range(8)]
        assert result[b, h, i].tolist() == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_reference_fused_and_pytorch_agree_in_value_and_gradient(
    with_mask: bool, with_bias: bool
) -> None:
    inputs = random_qkv()
    mask = random_mask() if with_mask else None
    bias = None
    if with_bias:
        bias = torch.randn(1, 3, 4, 5, dtype=torch.float64, requires_grad=True)
        inputs.append(bias)
    q, k, v = inputs[:3]
    reference, _ = attention(q, k, v, mask, bias)
    fused = fused_attention(q, k, v, mask, bias)
    torch.testing.assert_close(fused, reference)
    torch.testing.assert_close(gradients(fused, inputs), gradients(reference, inputs))

    additive = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
    if bias is not None:
        additive = additive + bias
    rows = torch.ones(2, 1, 4, 1, dtype=torch.bool)
    if mask is not None:
        rows = mask.any(-1, keepdim=True)  # PyTorch promises nothing for a row without a key
        additive = additive.masked_fill(~mask & rows, -math.inf)
    theirs = F.scaled_dot_product_attention(q, k, v, additive) * rows
    torch.testing.assert_close(reference, theirs)
    torch.testing.assert_close(gradients(reference, inputs), gradients(theirs, inputs))


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("shape", [(16, 1, 1, 7), (1, 3, 1, 7), (16, 3, 1, 7)])
def test_few_queries_of_many_rows_get_what_the_reference_gives_them(
    shape: tuple[int, ...], queries: int
) -> None:
    """As in a step of a search, where keys and values are part of a larger buffer."""
    q = torch.randn(16, queries, 3, 8).transpose(1, 2)
    k, v = torch.randn(2, 16, 3, 9, 8)[..., 2:, :]
    bias = torch.randn(shape)
    bias[..., 2:4] = -math.inf
    with torch.inference_mode():
        torch.testing.assert_close(fused_attention(q, k, v, None, bias),
                                   attention(q, k, v, None, bias)[0])


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_every_row_of_weights_sums_to_one(dtype: torch.dtype) -> None:
    mask = random_mask()
    _, weights = attention(*random_qkv(dtype), mask)
    sums = weights.sum(-1, dtype=torch.float32)
    expected = mask.any(-1).float().expand_as(sums)  # zero where nothing may be attended to
    torch.testing.assert_close(sums, expected, rtol=0, atol=4 * torch.finfo(dtype).eps)
    assert (weights.masked_select(~mask) == 0).all()
    assert (weights >= 0).all()


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_a_very_low_score_that_is_allowed_beats_one_that_is_not(dtype: torch.dtype) -> None:
    # A mask value such as −10⁴ would lose to the score of −30,000 here.
    q = torch.tensor([[[[200.0]]]], dtype=dtype)
    k = torch.tensor([[[[-150.0], [0.0]]]], dtype=dtype)
    v = torch.tensor([[[[1.0], [7.0]]]], dtype=dtype)
    mask = torch.tensor([[[[True, False]]]])
    result, weights = attention(q, k, v, mask)
    assert weights.flatten().tolist() == [1, 0]
    assert result.item() == fused_attention(q, k, v, mask).item() == 1


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_a_fully_masked_row_gives_zeros_and_finite_gradients(
    dtype: torch.dtype, with_bias: bool
) -> None:
    q, k, v = random_qkv(dtype)
    mask = random_mask()
    bias = torch.randn(1, 3, 4, 5, dtype=dtype) if with_bias else None
    for result in (attention(q, k, v, mask, bias)[0], fused_attention(q, k, v, mask, bias)):
        assert (result[0, :, 0] == 0).all()
        assert (result[0, :, 1] != 0).any()
        found = gradients(result, [q, k, v])
        assert all(gradient.isfinite().all() for gradient in found)
        assert (found[0][0, :, 0] == 0).all()


def test_minus_infinity_alone_gives_nan_for_a_fully_masked_row() -> None:
    q, k, v = random_qkv()
    allowed = torch.tensor([False, True, True, True])[:, None].expand(4, 5)
    mask = torch.zeros(4, 5).masked_fill(~allowed, -math.inf)
    weights = (q @ k.transpose(-2, -1) + mask).softmax(-1)
    assert weights[:, :, 0].isnan().all()
    assert all(g.isnan().any() for g in gradients(weights @ v, [q, k, v]))
    # Zeros put in afterwards save the result and not the gradient: 0 · NaN is NaN.
    rescued = weights.masked_fill(~allowed, 0) @ v
    assert rescued.isfinite().all()
    assert all(g.isnan().any() for g in gradients(rescued, [q, k]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_minus_a_billion_is_as_good_as_infinity_beside_an_allowed_key(dtype: torch.dtype) -> None:
    scores = (50 * torch.randn(100, 6)).to(dtype)
    mask = torch.tensor([True, False, True, False, False, True])
    finite = scores.masked_fill(~mask, -1e9).softmax(-1)
    assert torch.equal(finite, scores.masked_fill(~mask, -math.inf).softmax(-1))
    assert (finite[:, ~mask] == 0).all()  # not small: exactly zero


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_minus_a_billion_leaks_evenly_where_nothing_is_allowed(dtype: torch.dtype) -> None:
    # The sum drowns the score: neighbours of 10⁹ are 64 apart in float32, 4 million in bfloat16.
    weights = (torch.randn(1, 4, dtype=dtype) - 1e9).softmax(-1)
    assert weights.tolist() == [[0.25] * 4]


def test_minus_a_billion_does_not_exist_in_float16() -> None:
    scores = torch.zeros(1, 4, dtype=torch.float16)
    assert (scores - 1e9 == -math.inf).all()  # and with it the NaN of a fully masked row
    assert (scores - 1e9).softmax(-1).isnan().all()
    with pytest.raises(RuntimeError, match="overflow"):
        scores.masked_fill(torch.tensor([True]), -1e9)


def test_dividing_by_sqrt_d_k_keeps_the_gradient_through_softmax_alive() -> None:
    def gradient_norm(d_k: int, scale: float) -> float:
        q, k = torch.randn(512, 1, d_k), torch.randn(512, 32, d_k)
        scores = (q @ k.transpose(1, 2) * scale).requires_grad_()
        direction = torch.randn(512, 1, 32)
        (gradient,) = torch.autograd.grad((scores.softmax(-1) * direction).sum(), scores)
        return gradient.norm(dim=-1).median().item()

    sizes = [8, 32, 128, 512]
    with_division = [gradient_norm(d_k, d_k**-0.5) for d_k in sizes]
    without = [gradient_norm(d_k, 1.0) for d_k in sizes]
    assert max(with_division) < 1.1 * min(with_division)
    assert all(b < 0.75 * a for a, b in itertools.pairwise(without))
    assert without[-1] < with_division[-1] / 50  # a typical row of 32 keys is saturated


def test_multi_head_equals_separate_attentions_over_the_column_blocks() -> None:
    model = MultiHeadAttention(d_model=12, heads=3).double()
    x, memory = torch.randn(2, 4, 12).double(), torch.randn(2, 5, 12).double()
    mask = torch.rand(2, 1, 4, 5) > 0.3
    mask[..., 0] = True
    concatenated = []
    for block in torch.arange(12).split(4):  # W of the paper is `weight` transposed
        w_q, w_k, w_v = (w.weight.T[:, block] for w in (model.w_q, model.w_k, model.w_v))
        scores = (x @ w_q) @ (memory @ w_k).transpose(1, 2) / math.sqrt(4)
        weights = scores.masked_fill(~mask[:, 0], -math.inf).softmax(-1)
        concatenated.append(weights @ (memory @ w_v))
    expected = torch.cat(concatenated, dim=-1) @ model.w_o.weight.T
    torch.testing.assert_close(model(model.queries(x), model.keys_values(memory), mask), expected)


def test_asking_for_the_weights_does_not_change_the_result() -> None:
    model = MultiHeadAttention(d_model=12, heads=3)
    x = torch.randn(2, 4, 12)
    collected: list[Tensor] = []
    reference = model(*model.queries_keys_values(x), weights=collected)
    torch.testing.assert_close(model(*model.queries_keys_values(x)), reference)
    assert [w.shape for w in collected] == [(2, 3, 4, 4)]


@pytest.mark.parametrize("collected", [None, []], ids=["fused", "reference"])
def test_attention_dropout_keeps_the_mean_and_stops_in_eval(collected: list[Tensor] | None) -> None:
    model = MultiHeadAttention(d_model=8, heads=2, dropout=0.4)
    x = torch.randn(1, 3, 8).expand(4000, -1, -1)
    many = model(*model.queries_keys_values(x), weights=collected)
    model.eval()
    exact = model(*model.queries_keys_values(x[:1]), weights=collected)
    assert many.std(dim=0).min() > 0.01
    torch.testing.assert_close(many.mean(dim=0, keepdim=True), exact, rtol=0, atol=0.05)
    if collected is not None:  # the weights reported are those before dropout
        torch.testing.assert_close(collected[0].sum(-1), torch.ones(4000, 2, 3))
