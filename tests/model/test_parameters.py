"""How many parameters there are, which are shared, and what they start as."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn

from translate.model.transformer import Transformer

SHARING = [(False, False), (True, False), (False, True), (True, True)]


def build(**options: Any) -> Transformer:
    sizes = {"source_size": 20, "target_size": 20, "d_model": 16, "heads": 2, "d_ff": 32,
             "encoder_layers": 1, "decoder_layers": 1, "max_positions": 40}
    return Transformer(**{**sizes, **options})


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
@pytest.mark.parametrize(("tie_output", "tie_source"), SHARING)
def test_parameter_counts_equal_the_formula(
    norm: str, positions: str, tie_output: bool, tie_source: bool
) -> None:
    d, h, f, n, m, max_positions = 24, 3, 40, 2, 3, 50
    source, target = (31, 31) if tie_source else (29, 31)
    attention = 4 * d * d
    feed_forward = d * f + f + f * d + d
    norms = 2 * d
    expected = (
        n * (attention + feed_forward + 2 * norms)
        + m * (2 * attention + feed_forward + 3 * norms)
        + target * d
        + (0 if tie_source else source * d)
        + (0 if tie_output else d * target)
        + (2 * norms if norm == "pre" else 0)
        + {"sinusoidal": 0, "learned": 2 * max_positions * d, "relative": 2 * h * 32}[positions]
    )
    model = Transformer(source, target, d, h, n, m, f, norm=norm, positions=positions,
                        max_positions=max_positions, tie_output=tie_output, tie_source=tie_source)
    assert count(model) == expected


def test_the_base_model_of_the_paper_has_its_63_million_parameters() -> None:
    with torch.device("meta"):  # shapes without numbers: nothing is computed
        model = Transformer(37_000, 37_000, tie_output=True, tie_source=True)
        untied = Transformer(37_000, 37_000, tie_output=False, tie_source=False)
    # Table 3 says 65 million, of about 37,000 tokens; ours has no biases in attention.
    assert count(model) == 63_045_632
    assert count(untied) == count(model) + 2 * 37_000 * 512


@pytest.mark.parametrize(("tie_output", "tie_source"), SHARING)
def test_tied_matrices_share_storage_through_every_copy(tie_output: bool, tie_source: bool) -> None:
    def check(model: Transformer) -> None:
        target = model.target_embedding.weight
        assert (model.output.weight is target) == tie_output
        assert (model.source_embedding.weight is target) == tie_source
        assert (model.output.weight.data_ptr() == target.data_ptr()) == tie_output
        assert (model.source_embedding.weight.data_ptr() == target.data_ptr()) == tie_source

    model = build(tie_output=tie_output, tie_source=tie_source)
    check(model)
    check(copy.deepcopy(model))
    other = build(tie_output=tie_output, tie_source=tie_source)
    other.load_state_dict(model.state_dict())
    check(other)
    check(other.to(torch.float64))


def test_a_step_of_training_moves_tied_matrices_together() -> None:
    model = build(tie_source=True)
    before = model.output.weight.clone()
    model.output(torch.randn(3, 16)).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert not torch.allclose(model.source_embedding.weight, before)
    assert torch.equal(model.source_embedding.weight, model.output.weight)


def test_the_sinusoidal_table_is_not_among_the_parameters() -> None:
    model = build()
    assert not [name for name, _ in model.named_parameters() if "positions" in name]
    assert not [name for name in model.state_dict() if "positions" in name]
    assert model.source_positions.table.shape[1] == 16


def test_matrices_start_within_xaviers_bounds_and_biases_at_zero() -> None:
    model = build(d_model=64, d_ff=256, tie_output=False)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linear) == 4 + 2 + 8 + 2 + 1
    for module in linear:
        bound = math.sqrt(6 / (module.in_features + module.out_features))
        assert 0.98 * bound < module.weight.abs().max() <= bound
        assert module.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert module.bias is None or (module.bias == 0).all()


@pytest.mark.parametrize(("tie_output", "tie_source"), SHARING)
def test_scaled_embeddings_start_with_unit_variance(tie_output: bool, tie_source: bool) -> None:
    model = build(source_size=900, target_size=900, d_model=64, tie_output=tie_output,
                  tie_source=tie_source)
    for embedding in (model.source_embedding, model.target_embedding):
        assert (embedding.weight * 8).std().item() == pytest.approx(1, rel=0.02)


def test_an_untrained_model_guesses_evenly() -> None:
    model = build(source_size=500, target_size=500, d_model=64, heads=4).eval()
    src, tgt = torch.randint(500, (8, 6)), torch.randint(500, (8, 5))
    every = torch.ones(8, 1, 1, 6, dtype=torch.bool), torch.ones(8, 1, 5, 5, dtype=torch.bool)
    logits = model(src, tgt, *every)
    assert logits.std() < 1.5  # a loss near ln 500 and no wild start
