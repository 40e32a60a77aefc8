"""The fused loss equals the criterion of the projected states, in value and gradient."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.config import Config
from translate.data.batching import make_batch
from translate.data.encoding import EncodedCorpus
from translate.data.vocabulary import PAD
from translate.runs import build_model
from translate.training import fused_loss
from translate.training.fused_loss import FusedLoss
from translate.training.loss import LabelSmoothingLoss, batch_loss

VOCABULARY = 13


def problem(tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """States, a projection, and targets none of which is padding."""
    states, weight = (torch.randn(n, 6, dtype=torch.double, requires_grad=True)
                      for n in (tokens, VOCABULARY))
    target = torch.randint(0, VOCABULARY - 1, (tokens,))
    return states, weight, torch.where(target >= PAD, target + 1, target)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("tokens", [0, 1, 4, 5, 11])  # with four at a time
def test_it_equals_the_criterion_in_value_and_gradient(
        tokens: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_loss, "ROWS", 4)
    states, weight, target = problem(tokens)
    criterion = LabelSmoothingLoss(VOCABULARY, PAD, smoothing)
    expected = criterion(states @ weight.T, target)
    cross_entropy, nll = FusedLoss.apply(states, weight, target, PAD, smoothing)
    smoothed = cross_entropy - tokens * criterion.entropy
    torch.testing.assert_close(smoothed, expected.smoothed)
    torch.testing.assert_close(nll, expected.nll)
    assert not nll.requires_grad
    for factor in (1.0, 0.25):  # an update takes the mean over its tokens
        torch.testing.assert_close(
            torch.autograd.grad(factor * smoothed, [states, weight], retain_graph=True),
            torch.autograd.grad(factor * expected.smoothed, [states, weight], retain_graph=True))


@pytest.mark.parametrize("tied", [True, False])
def test_training_takes_it_and_gets_the_gradients_of_the_criterion(
        tied: bool, configure: Callable[..., Config], encoded: EncodedCorpus,
        monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(encoded.target.vocabulary)
    config = configure(model={"tie_output": tied, "dropout": 0.0})
    model = build_model(config, len(encoded.source.vocabulary), size)
    criterion = LabelSmoothingLoss(size, PAD, 0.1)
    batch = make_batch(encoded.train, np.arange(12))

    def gradients() -> tuple[str, list[Tensor]]:
        loss = batch_loss(model, criterion, batch).smoothed
        nodes = [loss.grad_fn, *(node for node, _ in loss.grad_fn.next_functions)]
        return str(nodes), list(torch.autograd.grad(loss, list(model.parameters())))

    nodes, found = gradients()
    assert "FusedLoss" in nodes
    monkeypatch.setattr(FusedLoss, "pays", lambda states: False)
    nodes, expected = gradients()
    assert "FusedLoss" not in nodes
    torch.testing.assert_close(found, expected)


def test_without_gradients_or_in_half_precision_it_is_the_criterion_that_runs() -> None:
    states, _, _ = problem(3)
    assert FusedLoss.pays(states)
    assert not FusedLoss.pays(states.detach())
    with torch.autocast("cpu", torch.bfloat16):
        assert not FusedLoss.pays(states)
