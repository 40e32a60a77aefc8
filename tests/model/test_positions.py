"""Sinusoidal, learned and relative positions: the paper's formulas and the tutorials' claims."""

import math

import pytest
import torch

from translate.model.positions import (
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    sinusoidal,
)


def frequency(i: int, d_model: int) -> float:
    return 1 / 10000 ** (2 * i / d_model)


@pytest.mark.parametrize("d_model", [2, 64, 512])
def test_sinusoidal_table_equals_the_formula_of_the_paper(d_model: int) -> None:
    table = sinusoidal(2000, d_model)
    for pos in (0, 1, 2, 100, 1023, 1999):
        angles = [pos * frequency(i, d_model) for i in range(d_model // 2)]
        expected = torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)])
        torch.testing.assert_close(table[pos], expected, rtol=0, atol=1e-7)


def test_wavelengths_grow_geometrically_from_2_pi_towards_10000_times_2_pi() -> None:
    step = sinusoidal(2, 512)[1].double()
    wavelengths = 2 * math.pi / torch.atan2(step[0::2], step[1::2])
    assert wavelengths[0].item() == pytest.approx(2 * math.pi)
    # The last pair is one short of the limit: 10000^(510/512), not 10000^(512/512).
    assert wavelengths[-1].item() == pytest.approx(2 * math.pi * 10000 ** (510 / 512), rel=1e-6)
    ratio = torch.full((255,), 10000 ** (2 / 512), dtype=torch.float64)
    torch.testing.assert_close(wavelengths[1:] / wavelengths[:-1], ratio, rtol=1e-6, atol=0)


@pytest.mark.parametrize("k", [1, 7, 300])
def test_position_plus_k_is_one_linear_function_of_position(k: int) -> None:
    d_model = 64
    blocks = []
    for i in range(d_model // 2):
        s, c = math.sin(k * frequency(i, d_model)), math.cos(k * frequency(i, d_model))
        blocks.append(torch.tensor([[c, s], [-s, c]]))
    shift = torch.block_diag(*blocks)  # knows k, and nothing of the position
    table = sinusoidal(2000 + k, d_model)
    torch.testing.assert_close(table[:2000] @ shift.T, table[k:], rtol=0, atol=1e-6)


def test_every_position_up_to_2000_is_told_apart() -> None:
    table = SinusoidalPositions(64)(0, 2000)
    assert table.abs().max() <= 1
    distances = torch.cdist(table, table) + 9 * torch.eye(2000)
    assert distances.min() > 0.5


def test_a_table_that_grows_gives_the_same_numbers() -> None:
    positions = SinusoidalPositions(32)
    before = positions(0, 200).clone()
    far = positions(1500, 500)  # far beyond the table of the start
    torch.testing.assert_close(positions(0, 200), before, rtol=0, atol=0)
    torch.testing.assert_close(far, sinusoidal(2000, 32)[1500:], rtol=0, atol=1e-7)
    torch.testing.assert_close(positions(1999, 1), far[-1:], rtol=0, atol=0)


def test_a_table_that_grows_keeps_its_type() -> None:
    positions = SinusoidalPositions(32).to(torch.bfloat16)
    assert positions(0, 1000).dtype == torch.bfloat16


def test_the_sinusoidal_table_is_a_buffer_and_not_a_parameter() -> None:
    positions = SinusoidalPositions(32)
    assert list(positions.parameters()) == []
    assert dict(positions.named_buffers()).keys() == {"table"}  # so it follows .to(device)
    assert not positions.table.requires_grad
    assert positions.state_dict() == {}  # checkpoints do not depend on how far it has grown


def test_learned_positions_are_parameters_in_order() -> None:
    positions = LearnedPositions(10, 4)
    assert [p.shape for p in positions.parameters()] == [(10, 4)]
    assert torch.equal(positions(3, 2), positions.table[3:5])
    assert torch.equal(positions(0, 10), positions.table)


@pytest.mark.parametrize(("start", "length"), [(0, 11), (10, 1)])
def test_learned_positions_refuse_a_text_that_is_too_long(start: int, length: int) -> None:
    with pytest.raises(ValueError, match="11 tokens are more than the 10 positions"):
        LearnedPositions(10, 4)(start, length)


def buckets(bidirectional: bool, distances: range) -> list[int]:
    bias = RelativeBias(2, bidirectional)
    return bias.bucket(torch.tensor([list(distances)]))[0].tolist()


def test_relative_buckets_of_a_decoder_follow_t5() -> None:
    # 32 buckets: distances 0…15 one each, then logarithmic: 16 · 8^(n/16) begins bucket 16 + n.
    backwards = buckets(False, range(0, -2000, -1))
    assert backwards[:16] == list(range(16))
    begins = [math.ceil(16 * 8 ** (n / 16) - 1e-9) for n in range(16)]
    assert [backwards.index(16 + n) for n in range(16)] == begins
    assert set(backwards[128:]) == {31}  # what is farther than max_distance shares the last
    assert buckets(False, range(0, 5)) == [0] * 5  # keys after the query are masked anyway


def test_relative_buckets_of_an_encoder_tell_the_two_sides_apart() -> None:
    behind = buckets(True, range(0, -2000, -1))
    ahead = buckets(True, range(1, 2000))
    assert behind[:8] == list(range(8))
    begins = [math.ceil(8 * 16 ** (n / 8) - 1e-9) for n in range(8)]
    assert [behind.index(8 + n) for n in range(8)] == begins
    assert set(behind[128:]) == {15}
    assert ahead == [16 + bucket for bucket in behind[1:]]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_buckets_never_shrink_with_distance(bidirectional: bool) -> None:
    found = buckets(bidirectional, range(0, -2000, -1))
    assert found == sorted(found)
    assert max(found) < 32


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_bias_depends_on_the_distance_alone(bidirectional: bool) -> None:
    module = RelativeBias(3, bidirectional)
    torch.nn.init.normal_(module.bias)
    bias = module(0, 40, 40)
    assert bias.shape == (1, 3, 40, 40)
    assert torch.equal(bias[..., 1:, 1:], bias[..., :-1, :-1])  # shifted by one, the same
    assert not torch.equal(bias[0, 0], bias[0, 1])  # each head has its own
    # Queries that start later, as in decoding step by step, see the same rows.
    assert torch.equal(module(30, 10, 40), bias[..., 30:, :])


def test_relative_bias_starts_neutral_and_learns() -> None:
    module = RelativeBias(2, bidirectional=True)
    assert (module(0, 5, 5) == 0).all()
    module(0, 5, 5).sum().backward()
    assert module.bias.grad is not None and module.bias.grad.sum() == 2 * 25
