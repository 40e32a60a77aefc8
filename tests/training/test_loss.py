"""Label smoothing: the divergence it is said to be, and how it relates to PyTorch's."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from translate.config import Config
from translate.data.batching import make_batch
from translate.data.encoding import EncodedCorpus
from translate.data.vocabulary import PAD
from translate.runs import build_model
from translate.training.loss import LabelSmoothingLoss, batch_loss
from translate.training.validation import perplexity

TOKENS, VOCABULARY = 7, 11
SMOOTHING = [0.0, 0.1, 0.5]


def problem() -> tuple[Tensor, Tensor]:
    """Logits in double precision, and targets none of which is padding."""
    logits = (3 * torch.randn(TOKENS, VOCABULARY, dtype=torch.double)).requires_grad_()
    target = torch.randint(0, VOCABULARY - 1, (TOKENS,))
    return logits, torch.where(target >= PAD, target + 1, target)


def smoothed_targets(target: Tensor, smoothing: float) -> Tensor:
    """q, written out: ε shared by all tokens but padding, and 1 − ε more for the correct one."""
    q = torch.full((TOKENS, VOCABULARY), smoothing / (VOCABULARY - 1), dtype=torch.double)
    q[:, PAD] = 0.0
    q[torch.arange(TOKENS), target] += 1 - smoothing
    return q


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss, logits)[0]


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_the_loss_is_the_divergence_from_the_smoothed_targets(smoothing: float) -> None:
    logits, target = problem()
    q = smoothed_targets(target, smoothing)
    assert torch.allclose(q.sum(dim=-1), torch.ones(TOKENS, dtype=torch.double))
    expected = F.kl_div(logits.log_softmax(-1), q, reduction="sum")
    loss = LabelSmoothingLoss(VOCABULARY, PAD, smoothing)(logits, target)
    assert torch.allclose(loss.smoothed, expected)
    assert torch.allclose(gradient(loss.smoothed, logits), gradient(expected, logits))


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_without_the_padding_column_it_is_pytorchs_less_the_entropy(smoothing: float) -> None:
    logits, target = problem()
    others = [i for i in range(VOCABULARY) if i != PAD]
    theirs = F.cross_entropy(logits[:, others], target - (target > PAD).long(),
                             label_smoothing=smoothing, reduction="sum")
    never_padding = logits.index_fill(1, torch.tensor([PAD]), -1e4)  # its probability is 0
    criterion = LabelSmoothingLoss(VOCABULARY, PAD, smoothing)
    ours = criterion(never_padding, target).smoothed
    entropy = torch.special.entr(smoothed_targets(target, smoothing)).sum()
    assert criterion.entropy * TOKENS == pytest.approx(entropy.item())
    assert torch.allclose(ours, theirs - entropy)
    assert torch.allclose(gradient(ours, logits), gradient(theirs, logits))


def test_no_smoothing_is_cross_entropy() -> None:
    logits, target = problem()
    loss = LabelSmoothingLoss(VOCABULARY, PAD, 0.0)(logits, target)
    expected = F.cross_entropy(logits, target, reduction="sum")
    assert torch.allclose(loss.smoothed, expected)
    assert torch.allclose(loss.nll, expected)


def test_the_negative_log_likelihood_is_that_of_the_targets_and_has_no_gradient() -> None:
    logits, target = problem()
    loss = LabelSmoothingLoss(VOCABULARY, PAD, 0.1)(logits, target)
    assert torch.allclose(loss.nll, F.cross_entropy(logits, target, reduction="sum"))
    assert not loss.nll.requires_grad


def test_a_model_that_predicts_the_smoothed_targets_has_loss_zero_and_no_other_has() -> None:
    _, target = problem()
    perfect = smoothed_targets(target, 0.1).clamp_min(1e-30).log().requires_grad_()
    criterion = LabelSmoothingLoss(VOCABULARY, PAD, 0.1)
    loss = criterion(perfect, target).smoothed
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    assert gradient(loss, perfect).abs().max() < 1e-12
    for _ in range(5):
        assert criterion(perfect + 0.1 * torch.randn_like(perfect), target).smoothed > 1e-4


def test_padding_gets_no_mass_so_its_logit_is_always_pushed_down() -> None:
    logits, target = problem()
    loss = LabelSmoothingLoss(VOCABULARY, PAD, 0.1)(logits, target).smoothed
    assert torch.allclose(gradient(loss, logits)[:, PAD], logits.softmax(-1)[:, PAD])


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_the_gradient_is_that_of_finite_differences(smoothing: float) -> None:
    logits, target = problem()
    criterion = LabelSmoothingLoss(VOCABULARY, PAD, smoothing)
    assert torch.autograd.gradcheck(lambda x: criterion(x, target).smoothed, (logits,))


def test_the_loss_of_a_batch_is_that_of_its_pairs_alone_however_much_padding_they_get(
        configure: Callable[..., Config], encoded: EncodedCorpus) -> None:
    config = configure()
    model = build_model(config, len(encoded.source.vocabulary), len(encoded.target.vocabulary))
    model.double().eval()
    criterion = LabelSmoothingLoss(len(encoded.target.vocabulary), PAD, 0.1)
    rows = np.arange(12)
    together = batch_loss(model, criterion, make_batch(encoded.train, rows))
    alone = [batch_loss(model, criterion, make_batch(encoded.train, rows[i:i + 1])) for i in rows]
    assert len({len(encoded.train.target[i]) for i in rows}) > 1
    for n in range(2):
        assert together[n].item() == pytest.approx(sum(loss[n].item() for loss in alone), rel=1e-5)


def test_the_loss_of_a_batch_is_that_of_the_models_logits(
        configure: Callable[..., Config], encoded: EncodedCorpus) -> None:
    config = configure()
    size = len(encoded.target.vocabulary)
    model = build_model(config, len(encoded.source.vocabulary), size).eval()
    batch = make_batch(encoded.train, np.arange(12))
    logits = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD,
                               reduction="sum")
    loss = batch_loss(model, LabelSmoothingLoss(size, PAD, 0.0), batch)
    assert torch.allclose(loss.nll, expected)
    assert torch.allclose(loss.smoothed, expected)


def test_guessing_among_n_tokens_has_perplexity_n() -> None:
    _, target = problem()
    loss = LabelSmoothingLoss(VOCABULARY, PAD, 0.1)(torch.zeros(TOKENS, VOCABULARY), target)
    assert perplexity(loss.nll.item() / TOKENS) == pytest.approx(VOCABULARY, rel=1e-5)


def test_the_perplexity_of_a_hopeless_model_is_a_number() -> None:
    assert math.isfinite(perplexity(1e9))
