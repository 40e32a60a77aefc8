"""Dropout draws four elements at a time: distribution, scale, independence, and the gradient."""

import pytest
import torch
from torch import Tensor

from translate.model.dropout import Dropout

N = 2**20


def dropped(p: float, *shape: int) -> Tensor:
    """Where an element of this shape is dropped."""
    return Dropout(p)(torch.ones(shape)) == 0


@pytest.mark.parametrize("p", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_the_share_dropped_is_p_and_the_mean_is_kept(p: float) -> None:
    result = Dropout(p)(torch.ones(N))
    deviation = (p * (1 - p) / N)**0.5
    assert (result == 0).double().mean().item() == pytest.approx(p, abs=5 * deviation + 2**-17)
    assert result.double().mean().item() == pytest.approx(1, abs=5 * deviation / (1 - p))
    assert result.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=2**-16 / (1 - p))


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 7, 256])
def test_elements_are_dropped_independently_of_those_near_them(apart: int) -> None:
    mask = dropped(0.3, N)
    both = (mask[apart:] & mask[:-apart]).double().mean().item()
    assert both == pytest.approx(0.09, abs=5 * (0.09 * 0.91 / N)**0.5)


def test_each_of_the_four_elements_that_share_a_draw_is_dropped_as_often() -> None:
    shares = dropped(0.1, N // 4, 4).double().mean(dim=0)
    assert shares.tolist() == pytest.approx([0.1] * 4, abs=5 * (0.09 * 4 / N)**0.5)


def test_the_gradient_is_dropped_and_scaled_as_the_result_was() -> None:
    x = torch.randn(7, 9, requires_grad=True)
    result = Dropout(0.4)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient * x, result)
    assert 0 < (gradient == 0).sum() < 63


def test_a_seed_repeats_it_and_the_next_call_differs() -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, second = dropped(0.5, 10, 10), dropped(0.5, 10, 10)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(dropped(0.5, 10, 10), first)
    assert torch.equal(dropped(0.5, 10, 10), second)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_type_stay(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.ones(shape, dtype=dtype)
    result = Dropout(0.5)(x)
    assert result.dtype is dtype
    assert result.shape == x.shape
    assert ((result == 0) | (result == 2)).all()


def test_elements_of_a_transposed_tensor_keep_their_places() -> None:
    x = torch.arange(1.0, 13).view(3, 4).T
    result = Dropout(0.5)(x)
    assert ((result == 0) | (result == 2 * x)).all()


def test_nothing_is_dropped_in_evaluation_or_at_zero_and_everything_at_one() -> None:
    x = torch.randn(50)
    assert torch.equal(Dropout(0.9).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert (Dropout(1.0)(x) == 0).all()
