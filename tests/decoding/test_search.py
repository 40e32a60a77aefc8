"""Greedy and beam search against searches that are slow, plain and without a cache."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.batching import causal_mask, pad, padding_mask
from translate.data.vocabulary import EOS, PAD, SOS, UNK
from translate.decoding.prediction import laid_out
from translate.decoding.request import Hypothesis, Request, length_penalty
from translate.decoding.sampling import Sampling, draw
from translate.decoding.search import search
from translate.decoding.topk import topk
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


def sentences(number: int = 8) -> tuple[Tensor, Tensor]:
    """Source ids of lengths 1, 2, …, and limits that differ."""
    random = np.random.default_rng(5)
    src = pad([random.integers(4, 20, n + 1).astype(np.int32) for n in range(number)], [], [EOS])
    return src, torch.arange(number) % 5 + 8


def penalised(alpha: float, **options: Any) -> DecodingConfig:
    return DecodingConfig(length_penalty=alpha, **options)


def alone(src: Tensor) -> list[Tensor]:
    """The sentences without their padding, each a batch of its own."""
    return [row[row != PAD][None] for row in src]


def a_request(src: Tensor, limits: Tensor, beam: int, *options: Any) -> Request:
    return Request([row[0, :-1].tolist() for row in alone(src)], limits.tolist(), beam, *options)


def beam_search(
    models: list[Transformer], src: Tensor, limits: Tensor, decoding: DecodingConfig, beam: int,
    n_best: int = 1
) -> list[list[Hypothesis]]:
    return search(models, decoding, [a_request(src, limits, beam, n_best)])[0]


def greedy_search(
    models: list[Transformer], src: Tensor, limits: Tensor, decoding: DecodingConfig,
    sampling: Sampling | None = None
) -> list[Hypothesis]:
    found = search(models, decoding, [a_request(src, limits, 1, 1, sampling)])[0]
    assert all(len(one) == 1 for one in found)
    return [one for (one,) in found]


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
    src, limits = sentences()
    found = greedy_search([model], src, limits, penalised(0.6))
    assert_varied(found)
    assert_same(found, [plain_beam(model, row, int(limit), 1, 0.6)[0]
                        for row, limit in zip(alone(src), limits, strict=True)])


@every_kind
@every_penalty
def test_greedy_equals_beam_1(norm: str, positions: str, alpha: float) -> None:
    model = a_model(1, norm=norm, positions=positions)
    inputs = sentences(20)
    by_beam = beam_search([model], *inputs, penalised(alpha), 1)
    assert [len(n_best) for n_best in by_beam] == [1] * 20
    assert_same(greedy_search([model], *inputs, penalised(alpha)),
                [n_best[0] for n_best in by_beam])


@every_penalty
@pytest.mark.parametrize("seed", range(2))
def test_cache_batch_and_early_stopping_lose_nothing(seed: int, alpha: float) -> None:
    model = a_model(seed)
    src, limits = sentences(5)
    expected = [plain_beam(model, row, int(limit), 3, alpha)
                for row, limit in zip(alone(src), limits, strict=True)]
    for n_best in (1, 3):
        found = beam_search([model], src, limits, penalised(alpha), 3, n_best)
        for some, all_of_them in zip(found, expected, strict=True):
            assert_same(some, all_of_them[:n_best])


@pytest.mark.parametrize(("norm", "positions"), [("pre", "learned"), ("pre", "relative")])
def test_cached_beams_equal_uncached_ones_whatever_the_positions(norm: str, positions: str) -> None:
    model = a_model(3, norm=norm, positions=positions)
    src, limits = sentences(4)
    found = beam_search([model], src, limits, penalised(0.6), 3)
    assert_same([n_best[0] for n_best in found],
                [plain_beam(model, row, int(limit), 3, 0.6)[0]
                 for row, limit in zip(alone(src), limits, strict=True)])


@pytest.mark.parametrize("seed", range(2))
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(seed: int) -> None:
    model = a_model(seed, target_size=7)
    src, _ = sentences(2)
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
            found = beam_search([model], src, torch.full((2,), limit), penalised(alpha), 100, 10)
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
    src, _ = sentences(1)
    found = beam_search([model], src, torch.tensor([12]), penalised(alpha), 2)[0][0]
    assert found.tokens == best
    by_hand = math.log(4 / 9) / (15 / 6) if best else math.log(5 / 9)
    assert found.score == pytest.approx(by_hand, abs=1e-3)


def test_a_higher_length_penalty_never_shortens_a_translation() -> None:
    inputs = sentences(12)
    lengths = [[len(n_best[0].tokens)
                for n_best in beam_search([a_model(2)], *inputs, penalised(alpha), 5)]
               for alpha in (0.0, 1.0, 4.0)]
    assert all(some <= more for row in zip(*lengths, strict=True)
               for some, more in itertools.pairwise(row))
    assert sum(lengths[0]) < sum(lengths[2])


@every_penalty
def test_n_best_lists_are_sorted_differ_and_begin_with_the_best(alpha: float) -> None:
    model = a_model(4)
    inputs = sentences(12)
    best = [n_best[0] for n_best in beam_search([model], *inputs, penalised(alpha), 5)]
    for n in (2, 5):
        found = beam_search([model], *inputs, penalised(alpha), 5, n)
        assert_varied([one for n_best in found for one in n_best])
        assert_same([n_best[0] for n_best in found], best)
        for n_best in found:
            assert len(n_best) == len({tuple(one.tokens) for one in n_best}) == n
            scores = [one.score for one in n_best]
            assert scores == sorted(scores, reverse=True)


def test_log_probabilities_are_those_of_a_forced_pass() -> None:
    model = a_model(5)
    src, limits = sentences()
    greedy = greedy_search([model], src, limits, penalised(0.6))
    by_beam = beam_search([model], src, limits, penalised(0.6), 4, 4)
    for row, likeliest, n_best in zip(alone(src), greedy, by_beam, strict=True):
        for one in (likeliest, *n_best):
            assert one.log_probability == pytest.approx(forced(model, row, one.tokens), abs=1e-4)
            penalty = ((5 + len(one.tokens) + 1) / 6) ** 0.6  # |Y| counts <eos>
            assert one.score == pytest.approx(one.log_probability / penalty, abs=1e-5)


def test_padding_and_start_are_never_produced_however_likely() -> None:
    model = prefer(a_model(6), PAD, SOS, by=50.0)
    inputs = sentences()
    found = [*greedy_search([model], *inputs, penalised(0.6)),
             *itertools.chain(*beam_search([model], *inputs, penalised(0.6), 4, 4))]
    assert_varied(found)
    assert not {PAD, SOS, EOS} & {token for one in found for token in one.tokens}
    assert all(math.isfinite(one.score) for one in found)


def test_limits_hold_row_by_row_and_count_the_end() -> None:
    src, limits = sentences()
    limits[0] = 1
    endless = prefer(a_model(7), EOS, by=-50.0)
    expected = [limit - 1 for limit in limits.tolist()]
    found = greedy_search([endless], src, limits, penalised(0.6))
    assert [len(one.tokens) for one in found] == expected
    for n_best in (1, 4):
        found = beam_search([endless], src, limits, penalised(0.6), 4, n_best)
        assert [len(one[0].tokens) for one in found] == expected
    silent = prefer(a_model(7), EOS, by=50.0)
    assert [one.tokens for one in greedy_search([silent], src, limits, penalised(0.6))] == [[]] * 8
    found = beam_search([silent], src, limits, penalised(0.6), 4)
    assert [one[0].tokens for one in found] == [[]] * 8


def every_translation(model: Transformer, decoding: DecodingConfig) -> list[Hypothesis]:
    inputs = sentences()
    return [*greedy_search([model], *inputs, decoding),
            *greedy_search([model], *inputs, decoding, Sampling(seed=3)),
            *itertools.chain(*beam_search([model], *inputs, decoding, 4, 4))]


def test_unknown_is_never_produced_where_that_is_asked_for() -> None:
    model = prefer(a_model(6), UNK, by=50.0)
    for forbid in (False, True):
        found = every_translation(model, penalised(0.6, forbid_unk=forbid))
        assert any(UNK in one.tokens for one in found) is not forbid


def test_no_translation_is_shorter_than_the_least_length_but_for_its_limit() -> None:
    model = prefer(a_model(7), EOS, by=50.0)
    _, limits = sentences()
    for least in (0, 1, 6, 9):
        for n, one in enumerate(every_translation(model, penalised(0.6, min_length=least))):
            limit = int(limits[n % 8] if n < 16 else limits[(n - 16) // 4])
            assert len(one.tokens) >= min(least, limit - 1)
            assert least or n >= 16 or one.tokens == []


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_written_twice_where_that_is_asked_for(n: int) -> None:
    def repeats(one: Hypothesis) -> bool:
        ngrams = list(zip(*(one.tokens[i:] for i in range(n)), strict=False))
        return len(set(ngrams)) < len(ngrams)

    model = a_model(8, target_size=30)
    assert any(map(repeats, every_translation(model, penalised(0.6))))
    found = every_translation(model, penalised(0.6, no_repeat_ngram=n))
    assert not any(map(repeats, found))
    assert_varied(found)


def test_blocking_changes_nothing_where_nothing_is_repeated() -> None:
    model = a_model(8, target_size=30)
    for free, blocked in zip(every_translation(model, penalised(0.6)),
                             every_translation(model, penalised(0.6, no_repeat_ngram=12)),
                             strict=True):
        assert_same([blocked], [free])


@pytest.mark.parametrize("sampling", [
    Sampling(), Sampling(temperature=0.5), Sampling(top_k=3), Sampling(top_p=0.6),
    Sampling(temperature=2.0, top_k=5, top_p=0.9)])
def test_tokens_are_drawn_by_their_probability(sampling: Sampling) -> None:
    log_p = torch.randn(12).mul(1.5).log_softmax(dim=0)
    p = (log_p.exp() ** (1 / sampling.temperature)).double()
    order = p.argsort(descending=True)
    p[order[sampling.top_k or 12:]] = 0
    p /= p.sum()
    before = p[order].cumsum(0) - p[order]
    p[order[before >= sampling.top_p]] = 0
    p /= p.sum()
    uniform = (torch.arange(20_000) + 0.5) / 20_000  # instead of chance: all its values
    values, tokens = draw(log_p.expand(20_000, -1), uniform, sampling)
    share = torch.bincount(tokens[:, 0], minlength=12) / 20_000
    torch.testing.assert_close(share.double(), p, rtol=0, atol=2e-4)
    torch.testing.assert_close(values[:, 0], log_p[tokens[:, 0]])  # of the model, unchanged


def test_the_largest_number_below_one_still_draws_a_token_that_may_be_drawn() -> None:
    log_p = torch.tensor([[0.5, 0.3, 0.2]]).log()
    for top_p, last in ((0.4, 0), (0.7, 1), (1.0, 2)):
        _, token = draw(log_p, torch.tensor([1 - 2**-24]), Sampling(top_p=top_p))
        assert token.item() == last


@pytest.mark.parametrize(("size", "k"), [(9, 5), (512, 2), (515, 1), (2048, 5), (2111, 5)])
def test_the_fast_choice_of_the_largest_is_exact(size: int, k: int) -> None:
    x = torch.randn(40, 3, size)
    x[0, 0, -k:] = torch.arange(9.0, 9 + k)  # in what is left over behind the last chunk
    x[1, 0, :k] = torch.arange(9.0, 9 + k)  # all in one chunk
    x[2, :, 5:] = -torch.inf
    values, indices = topk(x, k)
    expected = x.topk(k)
    torch.testing.assert_close(values, expected.values)
    real = values > -torch.inf
    assert torch.equal(indices[real], expected.indices[real])


def test_matrices_laid_out_for_the_cpu_give_the_same_translations_and_are_put_back() -> None:
    model = a_model(9, target_size=4100, d_model=128, d_ff=256)
    inputs = sentences()
    plain = beam_search([model], *inputs, penalised(0.6), 3)
    large = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    states, attention = torch.randn(3, 5, 128), model.decoder[0].self_attention
    q, (k, v) = attention.queries_keys_values(states)
    with torch.inference_mode(), laid_out([model, model]):
        assert all("forward" in vars(layer) for layer in large)
        with_bias = model.decoder[0].feed_forward.w_1
        torch.testing.assert_close(with_bias(states), F.linear(states, *with_bias.parameters()))
        together = attention.queries_keys_values(states)
        torch.testing.assert_close((together[0], *together[1]), (q, k, v))
        for found, expected in zip(beam_search([model], *inputs, penalised(0.6), 3), plain,
                                   strict=True):
            assert_same(found, expected)
    assert not any("forward" in vars(layer) for layer in large)
    assert "queries_keys_values" not in vars(attention)
    with torch.autocast("cpu", torch.bfloat16), laid_out([model]):
        assert not any("forward" in vars(layer) for layer in large)


@pytest.mark.parametrize("beam", [1, 4])
def test_requests_that_threads_share_are_answered_in_their_order(beam: int) -> None:
    model, src, limits = a_model(), *sentences()
    requests = [Request([row[:-1].tolist()], [int(limit)], beam)
                for row, limit in zip(alone(src), limits, strict=True)]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(list(search([model], penalised(0.6), requests)))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for (one,), (other,) in zip(*found, strict=True):
        assert_same(one, other)
    assert_varied([hypotheses[0] for (hypotheses,) in found[0]])


@every_kind
@pytest.mark.parametrize("how", [(1,), (1, 1, Sampling(seed=3)), (4, 3)])
def test_sentences_that_join_others_are_translated_as_if_they_were_alone(
    norm: str, positions: str, how: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All together take more steps than the model has positions."""
    model = a_model(12, norm=norm, positions=positions, max_positions=21, target_size=30)
    src, limits = sentences(20)
    decoding = penalised(0.6, min_length=3, no_repeat_ngram=2)
    by_itself = [search([model], decoding, [a_request(row, limit[None], *how)])[0][0]
                 for row, limit in zip(alone(src), limits, strict=True)]
    for few, many in ((0.25, 0.5), (0.8, 0.8), (0.8, 1.6)):
        monkeypatch.setattr("translate.decoding.search._FEW", few)
        monkeypatch.setattr("translate.decoding.search._MANY", many)
        answers = search([model], decoding, [a_request(src[n:n + 5], limits[n:n + 5], *how)
                                             for n in (15, 10, 5, 0)])
        for n, answer in zip((15, 10, 5, 0), answers, strict=True):
            for found, expected in zip(answer, by_itself[n:n + 5], strict=True):
                assert_same(found, expected)
    assert_varied([n_best[0] for n_best in by_itself])


def counting(method: Any, calls: list[int]) -> Any:
    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return method(*args, **options)
    return counted


def test_a_search_waits_for_the_device_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on a CPU: nothing but which hypotheses are alive is copied from the device."""
    waits: list[int] = []
    for name in ("item", "tolist", "__bool__", "__int__", "__float__", "nonzero", "cpu"):
        monkeypatch.setattr(Tensor, name, counting(getattr(Tensor, name), waits))
    never = prefer(a_model(), EOS, by=-100.0)
    for steps in (10, 20):
        for beam in (1, 3):
            request = a_request(sentences()[0], torch.full((8,), steps), beam)
            waits.clear()
            search([never], penalised(0.6), [request])
            assert len(waits) <= steps + 9  # and what is left at the end: the result
