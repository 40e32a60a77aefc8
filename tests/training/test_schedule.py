"""The learning rate of the paper, equation 3."""

from itertools import pairwise

import pytest

from translate.training.schedule import noam


@pytest.mark.parametrize(("step", "rate"), [
    (1, 1.7469281e-07),  # 512^−0.5 · 4000^−1.5
    (4000, 6.9877124e-04),  # 512^−0.5 · 4000^−0.5
    (40_000, 2.2097087e-04),  # 512^−0.5 · 40000^−0.5
    (100_000, 1.3975425e-04),
])
def test_the_rate_is_that_of_the_papers_formula(step: int, rate: float) -> None:
    assert noam(step, d_model=512, warmup=4000) == pytest.approx(rate, rel=1e-6)


def test_the_rate_rises_linearly_to_its_peak_at_the_end_of_warm_up_and_then_falls() -> None:
    rates = [noam(step, 128, 300, factor=1.4) for step in range(1, 3001)]
    assert max(rates) == rates[299] == pytest.approx(1.4 / (128 * 300) ** 0.5)
    steps = [b - a for a, b in pairwise(rates[:300])]
    assert steps == pytest.approx([rates[0]] * 299)
    assert all(a > b for a, b in pairwise(rates[299:]))


def test_ten_times_the_warm_up_later_the_rate_is_a_root_of_ten_lower() -> None:
    assert noam(40_000, 512, 4000) * 10**0.5 == pytest.approx(noam(4000, 512, 4000))


def test_the_factor_scales_the_rate_at_every_step() -> None:
    for step in (1, 10, 99, 5000):
        assert noam(step, 64, 10, 2.5) == pytest.approx(2.5 * noam(step, 64, 10))
