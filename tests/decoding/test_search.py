"""Greedy and beam search against searches that are slow, plain and without a cache."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.data.batching import causal_mask, pad, padding_mask
from translate.data.vocabulary import EOS, PAD, SOS, UNK
from translate.decoding.search import Hypothesis, beam_search, greedy_search, length_penalty
from translate.model.transformer import Transformer

TOKENS = 9  # in the target vocabulary
every_penalty = pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
every_kind = pytest.mark.parametrize(
    ("norm", "positions"),
    [("post", "sinusoidal"), ("pre", "sinusoidal"), ("pre", "learned"), ("pre", "relative")])


def a_model(seed: int = 0, **options: Any) -> Transformer:
    """Random weights; the output is such that translations differ in length."""
    torch.manual_seed(seed)
    sizes = {"source_size": 20, "target_size": TOKENS, "d_model": 16, "heads": 2, "d_ff": 32,
             "encoder_layers": 2, "decoder_layers": 2, "max_positions": 40}
    model = Transformer(**{**sizes, "tie_output": False, **options}).eval()
    with torch.no_grad():
        model.output.weight *= 2.0
        for bias in (model.encoder_bias, model.decoder_bias):
            if bias is not None:
                bias.bias.normal_()
    return prefer(model, EOS, by=-1.5)


def prefer(model: Transformer, *tokens: int, by: float) -> Transformer:
    """Add to the logits of some target tokens."""
    def add(_module: object, _inputs: object, logits: Tensor) -> Tensor:
        changed = logits.clone()
        changed[..., list(tokens)] += by
        return changed

    model.output.register_forward_hook(add)
    return model


def sentences(number: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Source ids of lengths 1, 2, …, their mask, and limits that differ."""
    random = np.random.default_rng(5)
    src = pad([random.integers(4, 20, n + 1).astype(np.int32) for n in range(number)], [], [EOS])
    return src, padding_mask(src), torch.arange(number) % 5 + 8


def alone(src: Tensor) -> list[Tensor]:
    """The sentences without their padding, each a batch of its own."""
    return [row[row != PAD][None] for row in src]


@torch.inference_mode()
def log_probabilities(model: Transformer, src: Tensor, tokens: list[int]) -> Tensor:
    """(len(tokens) + 1, vocabulary): of every token at every place, by one full pass."""
    tgt = torch.tensor([[SOS, *tokens]])
    logits = model(src, tgt, padding_mask(src), causal_mask(tgt.size(1))[None, None])[0]
    return logits.log_softmax(dim=-1)


def forced(model: Transformer, src: Tensor, tokens: list[int]) -> float:
    """The log-probability of a translation and its `<eos>`."""
    steps = log_probabilities(model, src, tokens)
    return sum(float(step[token]) for step, token in zip(steps, [*tokens, EOS], strict=True))


def plain_beam(
    model: Transformer, src: Tensor, limit: int, beam: int, alpha: float
) -> list[Hypothesis]:
    """One sentence, no cache, and no stopping before the limit: all that a beam can find."""
    live: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[Hypothesis] = []
    for length in range(1, limit + 1):
        choices = [EOS] if length == limit else [UNK, EOS, *range(4, TOKENS)]
        following = []
        for tokens, total in live:
            step = log_probabilities(model, src, tokens)[-1].tolist()
            following += [([*tokens, token], total + step[token]) for token in choices]
        best = sorted(following, key=lambda one: -one[1])[:beam]
        penalty = ((5 + length) / 6) ** alpha
        ended += [Hypothesis(tokens[:-1], total, total / penalty)
                  for tokens, total in best if tokens[-1] == EOS]
        live = [one for one in best if one[0][-1] != EOS]
    return sorted(ended, key=lambda one: -one.score)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    for field in ("log_probability", "score"):
        assert [getattr(one, field) for one in found] == pytest.approx(
            [getattr(one, field) for one in expected], abs=1e-4)


def assert_varied(hypotheses: list[Hypothesis]) -> None:
    """Or a test would say little."""
    assert len({len(one.tokens) for one in hypotheses}) >= 3


def test_the_length_penalty_is_equation_14_of_wu_et_al() -> None:
    for length, alpha in itertools.product((1, 2, 7, 100), (0.0, 0.2, 0.6, 1.0)):
        by_hand = (5 + length) ** alpha / (5 + 1) ** alpha
        assert float(length_penalty(length, alpha)) == pytest.approx(by_hand)
    torch.testing.assert_close(length_penalty(torch.tensor([1, 7, 13]), 1.0),
                               torch.tensor([1.0, 2.0, 3.0]))


@every_kind
def test_greedy_equals_the_likeliest_token_by_full_passes(norm: str, positions: str) -> None:
    model = a_model(norm=norm, positions=positions)
    src, mask, limits = sentences()
    found = greedy_search(model, src, mask, limits, 0.6)
    assert_varied(found)
    assert_same(found, [plain_beam(model, row, int(limit), 1, 0.6)[0]
                        for row, limit in zip(alone(src), limits, strict=True)])


@every_kind
@every_penalty
def test_greedy_equals_beam_1(norm: str, positions: str, alpha: float) -> None:
    model = a_model(1, norm=norm, positions=positions)
    inputs = sentences(20)
    by_beam = beam_search(model, *inputs, beam=1, alpha=alpha)
    assert [len(n_best) for n_best in by_beam] == [1] * 20
    assert_same(greedy_search(model, *inputs, alpha), [n_best[0] for n_best in by_beam])


@every_penalty
@pytest.mark.parametrize("seed", range(2))
def test_cache_batch_and_early_stopping_lose_nothing(seed: int, alpha: float) -> None:
    model = a_model(seed)
    src, mask, limits = sentences(5)
    expected = [plain_beam(model, row, int(limit), 3, alpha)
                for row, limit in zip(alone(src), limits, strict=True)]
    for n_best in (1, 3):
        found = beam_search(model, src, mask, limits, 3, alpha, n_best)
        for some, all_of_them in zip(found, expected, strict=True):
            assert_same(some, all_of_them[:n_best])


@pytest.mark.parametrize(("norm", "positions"), [("pre", "learned"), ("pre", "relative")])
def test_cached_beams_equal_uncached_ones_whatever_the_positions(norm: str, positions: str) -> None:
    model = a_model(3, norm=norm, positions=positions)
    src, mask, limits = sentences(4)
    found = beam_search(model, src, mask, limits, 3, 0.6)
    assert_same([n_best[0] for n_best in found],
                [plain_beam(model, row, int(limit), 3, 0.6)[0]
                 for row, limit in zip(alone(src), limits, strict=True)])


@pytest.mark.parametrize("seed", range(2))
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(seed: int) -> None:
    model = a_model(seed, target_size=7)
    src, mask, _ = sentences(2)
    limit = 4
    space = [list(tokens) for n in range(limit)
             for tokens in itertools.product([UNK, 4, 5, 6], repeat=n)]
    assert len(space) == 1 + 4 + 16 + 64
    for number, row in enumerate(alone(src)):
        total = {tuple(tokens): forced(model, row, tokens) for tokens in space}
        for alpha in (0.0, 0.6, 1.0):
            everything = sorted(
                (Hypothesis(list(tokens), value, value / ((6 + len(tokens)) / 6) ** alpha)
                 for tokens, value in total.items()), key=lambda one: -one.score)
            found = beam_search(model, src, mask, torch.full((2,), limit), 100, alpha, 10)
            assert_same(found[number], everything[:10])


@pytest.mark.parametrize(("alpha", "best"), [(0.0, []), (1.0, [4] * 9)])
def test_a_longer_translation_may_win_long_after_a_shorter_one_has_ended(
    alpha: float, best: list[int]
) -> None:
    """Probabilities 5/9 and 4/9, over penalties of 1 and 15/6."""
    script = iter([{EOS: 0.5, 4: 0.4}, *[{4: 1.0}] * 8, {EOS: 1.0}])

    def say(_module: object, _inputs: object, logits: Tensor) -> Tensor:
        probabilities = torch.full_like(logits, 1e-6)
        for token, probability in next(script).items():
            probabilities[..., token] = probability
        return probabilities.log()

    model = a_model()
    model.output.register_forward_hook(say)
    src, mask, _ = sentences(1)
    found = beam_search(model, src, mask, torch.tensor([12]), 2, alpha)[0][0]
    assert found.tokens == best
    by_hand = math.log(4 / 9) / (15 / 6) if best else math.log(5 / 9)
    assert found.score == pytest.approx(by_hand, abs=1e-3)


def test_a_higher_length_penalty_never_shortens_a_translation() -> None:
    inputs = sentences(12)
    lengths = [[len(n_best[0].tokens) for n_best in beam_search(a_model(2), *inputs, 5, alpha)]
               for alpha in (0.0, 1.0, 4.0)]
    assert all(some <= more for row in zip(*lengths, strict=True)
               for some, more in itertools.pairwise(row))
    assert sum(lengths[0]) < sum(lengths[2])


@every_penalty
def test_n_best_lists_are_sorted_differ_and_begin_with_the_best(alpha: float) -> None:
    model = a_model(4)
    inputs = sentences(12)
    best = [n_best[0] for n_best in beam_search(model, *inputs, 5, alpha)]
    for n in (2, 5):
        found = beam_search(model, *inputs, 5, alpha, n)
        assert_varied([one for n_best in found for one in n_best])
        assert_same([n_best[0] for n_best in found], best)
        for n_best in found:
            assert len(n_best) == len({tuple(one.tokens) for one in n_best}) == n
            scores = [one.score for one in n_best]
            assert scores == sorted(scores, reverse=True)


def test_log_probabilities_are_those_of_a_forced_pass() -> None:
    model = a_model(5)
    src, mask, limits = sentences()
    greedy = greedy_search(model, src, mask, limits, 0.6)
    by_beam = beam_search(model, src, mask, limits, 4, 0.6, 4)
    for row, likeliest, n_best in zip(alone(src), greedy, by_beam, strict=True):
        for one in (likeliest, *n_best):
            assert one.log_probability == pytest.approx(forced(model, row, one.tokens), abs=1e-4)
            penalty = ((5 + len(one.tokens) + 1) / 6) ** 0.6  # |Y| counts <eos>
            assert one.score == pytest.approx(one.log_probability / penalty, abs=1e-5)


def test_padding_and_start_are_never_produced_however_likely() -> None:
    model = prefer(a_model(6), PAD, SOS, by=50.0)
    inputs = sentences()
    found = [*greedy_search(model, *inputs, 0.6),
             *itertools.chain(*beam_search(model, *inputs, 4, 0.6, 4))]
    assert_varied(found)
    assert not {PAD, SOS, EOS} & {token for one in found for token in one.tokens}
    assert all(math.isfinite(one.score) for one in found)


def test_limits_hold_row_by_row_and_count_the_end() -> None:
    src, mask, limits = sentences()
    limits[0] = 1
    endless = prefer(a_model(7), EOS, by=-50.0)
    expected = [limit - 1 for limit in limits.tolist()]
    assert [len(one.tokens) for one in greedy_search(endless, src, mask, limits, 0.6)] == expected
    for n_best in (1, 4):
        found = beam_search(endless, src, mask, limits, 4, 0.6, n_best)
        assert [len(one[0].tokens) for one in found] == expected
    silent = prefer(a_model(7), EOS, by=50.0)
    assert [one.tokens for one in greedy_search(silent, src, mask, limits, 0.6)] == [[]] * 8
    assert [one[0].tokens for one in beam_search(silent, src, mask, limits, 4, 0.6)] == [[]] * 8
