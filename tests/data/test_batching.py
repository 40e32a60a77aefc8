"""Batches: every pair once an epoch, under the budget, with masks that mean what they say."""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from translate.data import batching
from translate.data.batching import (
    TokenBatchSampler,
    causal_mask,
    make_batch,
    pad,
    padding_mask,
    stack,
)
from translate.data.ragged import Pairs, Ragged
from translate.data.sample import draw_pairs
from translate.data.vocabulary import EOS, PAD, SOS

BUDGET = 400


def ragged(rows: list[list[int]]) -> Ragged:
    lengths = [len(row) for row in rows]
    return Ragged(np.array([i for row in rows for i in row], np.int32),
                  np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def random_pairs(count: int, longest: int = 60) -> Pairs:
    """Sentences with about as many words on both sides, as translations have."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.gamma(4, 4, count), 1, longest).astype(int)
    others = np.clip(lengths * random.normal(1, 0.2, count), 1, longest).astype(int)
    return Pairs(*(ragged([random.integers(4, 99, n).tolist() for n in side])
                   for side in (lengths, others)))


PAIRS = random_pairs(1000)


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("budget", [1, 61, BUDGET, 10**6])
def test_every_pair_is_in_exactly_one_batch_of_an_epoch(budget: int, epoch: int) -> None:
    sampler = TokenBatchSampler(PAIRS, budget, seed=1)
    for batches in (sampler.batches(epoch), sampler.in_order()):
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(PAIRS)))
        assert all(len(rows) for rows in batches)


@pytest.mark.parametrize("budget", [1, 20, 61, BUDGET])
def test_no_batch_is_over_the_budget_unless_it_is_one_pair(budget: int) -> None:
    for rows in TokenBatchSampler(PAIRS, budget, seed=1).batches(0):
        batch = make_batch(PAIRS, rows)
        for ids in (batch.src, batch.tgt_in, batch.tgt_out):
            assert ids.numel() <= budget or len(rows) == 1


def test_batches_are_full() -> None:
    batches = TokenBatchSampler(PAIRS, BUDGET, seed=1).in_order()
    for rows, following in pairwise(batches):
        batch = make_batch(PAIRS, np.append(rows, following[0]))
        assert max(batch.src.numel(), batch.tgt_out.numel()) > BUDGET


def as_lists(batches: list[np.ndarray]) -> list[list[int]]:
    return [rows.tolist() for rows in batches]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    first = as_lists(TokenBatchSampler(PAIRS, BUDGET, seed=1).batches(3))
    np.random.seed(99)
    torch.manual_seed(99)
    sampler = TokenBatchSampler(PAIRS, BUDGET, seed=1)
    sampler.batches(0)
    assert as_lists(sampler.batches(3)) == first
    assert as_lists(sampler.batches(4)) != first
    assert as_lists(TokenBatchSampler(PAIRS, BUDGET, seed=2).batches(3)) != first


def test_an_epoch_differs_from_the_last_in_what_is_batched_together_too() -> None:
    sampler = TokenBatchSampler(PAIRS, BUDGET, seed=1)
    make_up = [{tuple(sorted(rows.tolist())) for rows in sampler.batches(n)} for n in range(2)]
    assert len(make_up[0] & make_up[1]) < len(make_up[0]) / 2
    assert len(make_up[0]) == len(make_up[1])  # updates an epoch do not change


def test_long_and_short_batches_are_mixed() -> None:
    batches = TokenBatchSampler(PAIRS, BUDGET, seed=1).batches(0)
    lengths = np.array([PAIRS.target.lengths[rows].mean() for rows in batches])
    assert abs(np.corrcoef(np.arange(len(lengths)), lengths)[0, 1]) < 0.3


@pytest.fixture(scope="module")
def sample_pairs() -> Pairs:
    """As long as those of the sample corpus."""
    drawn = list(islice(draw_pairs(seed=0), 8_000))
    return Pairs(ragged([[4] * len(pair.de_tokens) for pair in drawn]),
                 ragged([[4] * len(pair.en_tokens) for pair in drawn]))


def padding(pairs: Pairs, batches: list[np.ndarray]) -> float:
    """The share of all places of `src` and `tgt_out`."""
    places = tokens = 0
    for rows in batches:
        for side in pairs:
            lengths = side.lengths_of(rows) + 1
            places += len(rows) * int(lengths.max())
            tokens += int(lengths.sum())
    return 1 - tokens / places


@pytest.mark.parametrize("budget", [1024, 2048])
def test_at_most_a_twentieth_of_an_epoch_of_the_sample_is_padding(
        sample_pairs: Pairs, budget: int) -> None:
    assert padding(sample_pairs, TokenBatchSampler(sample_pairs, budget, 1).batches(0)) <= 0.05


def test_at_most_a_twentieth_is_padding_where_lengths_vary_more() -> None:
    pairs = random_pairs(20_000)
    assert padding(pairs, TokenBatchSampler(pairs, 2048, seed=1).batches(0)) <= 0.05


def test_the_share_of_padding_is_that_of_the_batches() -> None:
    batches = [make_batch(PAIRS, rows) for rows in (np.arange(50), np.arange(50, 60))]
    places = sum(ids.numel() for batch in batches for ids in (batch.src, batch.tgt_out))
    tokens = sum(batch.tokens + batch.source_tokens for batch in batches)
    assert padding(PAIRS, [np.arange(50), np.arange(50, 60)]) == 1 - tokens / places


def test_an_epoch_of_more_pairs_than_a_pool_has_each_of_them_and_little_padding(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = random_pairs(20_000)
    whole = TokenBatchSampler(pairs, BUDGET, seed=1).batches(0)
    monkeypatch.setattr(batching, "POOL", 3000)
    batches = TokenBatchSampler(pairs, BUDGET, seed=1).batches(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    assert len(batches) < 1.05 * len(whole)
    assert padding(pairs, batches) <= 0.05


def test_rows_in_order_go_from_short_to_long_and_are_always_the_same() -> None:
    batches = TokenBatchSampler(PAIRS, BUDGET, seed=5).in_order()
    rows = np.concatenate(batches)
    lengths = np.maximum(PAIRS.source.lengths, PAIRS.target.lengths)[rows]
    assert (np.diff(lengths) >= 0).all()
    assert as_lists(batches) == as_lists(TokenBatchSampler(PAIRS, BUDGET, seed=6).in_order())


SMALL = Pairs(ragged([[4, 5, 6], [], [7]]), ragged([[8], [9, 10], []]))


def test_a_batch_has_start_and_end_marks_and_padding_where_they_belong() -> None:
    batch = make_batch(SMALL, np.array([0, 1, 2]))
    assert batch.src.tolist() == [[4, 5, 6, EOS], [EOS, PAD, PAD, PAD], [7, EOS, PAD, PAD]]
    assert batch.tgt_in.tolist() == [[SOS, 8, PAD], [SOS, 9, 10], [SOS, PAD, PAD]]
    assert batch.tgt_out.tolist() == [[8, EOS, PAD], [9, 10, EOS], [EOS, PAD, PAD]]
    assert (batch.tokens, batch.source_tokens) == (6, 7)


def test_the_decoder_is_asked_for_the_token_after_the_one_it_sees() -> None:
    for rows in TokenBatchSampler(PAIRS, BUDGET, seed=1).batches(0)[:10]:
        batch = make_batch(PAIRS, rows)
        for row, tgt_in, tgt_out in zip(rows, batch.tgt_in, batch.tgt_out, strict=True):
            length = len(PAIRS.target[row])
            assert tgt_in[0] == SOS and tgt_out[length] == EOS
            assert torch.equal(tgt_in[1:length + 1], tgt_out[:length])
            assert tgt_out[:length].tolist() == PAIRS.target[row].tolist()


def test_places_are_those_of_the_target_that_hold_no_padding() -> None:
    batch = make_batch(SMALL, np.array([2, 0, 1]))
    assert batch.places.tolist() == [0, 3, 4, 6, 7, 8]
    assert not (batch.tgt_out.flatten()[batch.places] == PAD).any()
    assert batch.tokens == int((batch.tgt_out != PAD).sum())


def test_true_in_a_mask_means_may_attend() -> None:
    batch = make_batch(SMALL, np.array([0, 2]))
    assert batch.src_mask.tolist() == [[[[True, True, True, True]]], [[[True, True, False, False]]]]
    assert batch.tgt_mask.tolist() == [[[[True, False], [True, True]]],
                                       [[[True, False], [True, False]]]]


def test_no_target_sees_later_ones_or_padding_and_each_sees_all_else() -> None:
    batch = make_batch(PAIRS, np.arange(50))
    _, _, length, _ = batch.tgt_mask.shape
    earlier = torch.arange(length) <= torch.arange(length)[:, None]
    assert torch.equal(causal_mask(length), earlier)
    assert torch.equal(batch.tgt_mask, earlier & (batch.tgt_in != PAD)[:, None, None, :])
    assert torch.equal(batch.src_mask, (batch.src != PAD)[:, None, None, :])
    assert batch.tgt_mask.any(dim=-1).all()  # <sos> is never padding


def test_padding_goes_behind_and_marks_around() -> None:
    ids = pad([np.array([4, 5], np.int32), np.array([], np.int32)], [SOS], [EOS, EOS])
    assert ids.tolist() == [[SOS, 4, 5, EOS, EOS], [SOS, EOS, EOS, PAD, PAD]]
    assert padding_mask(ids).sum() == 8


def test_a_batch_moves_whole() -> None:
    batch = make_batch(SMALL, np.array([0, 1]))
    moved = batch.to(torch.device("meta"))
    assert {t.device.type for t in vars(moved).values() if isinstance(t, torch.Tensor)} == {"meta"}
    assert (moved.source_tokens, moved.tokens) == (batch.source_tokens, batch.tokens)


@pytest.mark.parametrize(("behind", "short"), [(True, [5, 6, 9]), (False, [9, 5, 6])])
def test_stacked_rows_are_filled_up_behind_or_before(behind: bool, short: list[int]) -> None:
    long = torch.tensor([[1, 2, 3], [4, 5, 6]])
    for pair, expected in (((long, torch.tensor([[5, 6]])), [*long.tolist(), short]),
                           ((torch.tensor([[5, 6]]), long), [short, *long.tolist()])):
        assert stack(*pair, behind=behind, fill=9).tolist() == expected
        columns = stack(*(x[..., None] for x in pair), dim=1, behind=behind, fill=9)
        assert columns[..., 0].tolist() == expected
        inside = stack(*(x[None] for x in pair), behind=behind, fill=9, rows=1)
        assert inside[0].tolist() == expected
