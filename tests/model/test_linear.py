"""Linear equals PyTorch's own in value and gradient, whatever multiplies."""

import copy

import pytest
import torch
from torch import Tensor, nn

from translate.model.linear import Linear, linear, onednn_suits


def plain(layer: Linear) -> nn.Linear:
    twin = nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)
    twin.load_state_dict(layer.state_dict())
    return twin.to(layer.weight.dtype)


def gradients(layer: nn.Module, x: Tensor, uneven: bool) -> tuple[Tensor, ...]:
    """Of a sum of the results; an even one hands a gradient back that has strides of zero."""
    result = layer(x)
    weight = torch.linspace(-1, 2, result.numel()).view_as(result) if uneven else 1
    return torch.autograd.grad((result * weight).sum(), [x, *layer.parameters()])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("uneven", [True, False])
@pytest.mark.parametrize("shape", [(4, 7), (2, 3, 7), (0, 7), (1, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_pytorchs_in_value_and_gradient(
        shape: tuple[int, ...], dtype: torch.dtype, bias: bool, uneven: bool) -> None:
    layer = Linear(7, 5, bias).to(dtype)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    torch.testing.assert_close(layer(x), plain(layer)(x))
    torch.testing.assert_close(gradients(layer, x, uneven), gradients(plain(layer), x, uneven))


def test_a_transposed_input_is_multiplied_as_any_other() -> None:
    layer = Linear(7, 5)
    x = torch.randn(7, 4, requires_grad=True)
    torch.testing.assert_close(layer(x.T), plain(layer)(x.T))
    torch.testing.assert_close(linear(x.T, layer.weight), x.T @ layer.weight.T)


def test_training_goes_another_way_than_translating() -> None:
    layer, x = Linear(7, 5), torch.randn(4, 7)
    own = torch.backends.mkldnn.is_available()  # not everywhere
    assert onednn_suits(x) == own
    assert ("_Product" in str(layer(x).grad_fn)) == own
    with torch.no_grad():
        torch.testing.assert_close(layer(x), plain(layer)(x), rtol=0, atol=0)


def test_under_autocast_it_is_pytorchs_own() -> None:
    layer, x = Linear(7, 5), torch.randn(4, 7)
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(x)
    assert result.dtype is torch.bfloat16
    assert "_Product" not in str(result.grad_fn)


def test_a_copy_computes_the_same() -> None:
    layer, x = Linear(7, 5), torch.randn(4, 7)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
