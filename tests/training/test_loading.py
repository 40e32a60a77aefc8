"""What each process takes of an update, and what is counted."""

import numpy as np
import torch

from translate.data.batching import make_batch
from translate.data.encoding import EncodedCorpus
from translate.training.loading import Counts, load
from translate.training.processes import Processes

ROWS = [np.arange(n, n + 7) for n in range(0, 35, 7)]
PLAN = [ROWS[:3], ROWS[3:5]]  # the last update has a batch less


def test_one_process_takes_all_batches_in_their_order(encoded: EncodedCorpus) -> None:
    updates = load(encoded.train, PLAN, Processes(), False)
    for (batches, _), update in zip(updates, PLAN, strict=True):
        assert len(batches) == len(update)
        for batch, rows in zip(batches, update, strict=True):
            assert torch.equal(batch.src, make_batch(encoded.train, rows).src)


def test_processes_share_an_update_and_all_count_the_whole_of_it(encoded: EncodedCorpus) -> None:
    shares = [list(load(encoded.train, PLAN, Processes(n, 3), False)) for n in range(3)]
    for n, update in enumerate(PLAN):
        whole = [make_batch(encoded.train, rows) for rows in update]
        taken = [batch for share in shares for batch in share[n][0]]
        for batch, own in zip(whole, taken, strict=False):
            assert torch.equal(batch.src, own.src)
        assert {share[n][1] for share in shares} == {Counts.of(whole)}
        assert sum(batch.tokens for batch in taken) == Counts.of(whole).tokens
    (extra,), _ = shares[2][1]  # which had no batch left
    assert extra.tokens == 0 and len(extra.src) > 0


def test_counts_are_of_tokens_and_of_the_places_they_take(encoded: EncodedCorpus) -> None:
    counts = Counts.of([make_batch(encoded.train, rows) for rows in ROWS[:2]])
    rows = np.concatenate(ROWS[:2])
    assert counts.tokens == (encoded.train.target.lengths[rows] + 1).sum()
    assert counts.source_tokens == (encoded.train.source.lengths[rows] + 1).sum()
    assert counts.places == sum(
        len(r) * (side.lengths[r].max() + 1) for r in ROWS[:2] for side in encoded.train)


def test_loading_draws_nothing_from_the_generator_of_dropout(encoded: EncodedCorpus) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert len(list(load(encoded.train, PLAN, Processes(), False))) == 2
    assert torch.equal(torch.get_rng_state(), before)


def test_another_process_makes_the_same_batches_ahead(encoded: EncodedCorpus) -> None:
    updates = load(encoded.train, PLAN, Processes(), ahead=True)
    for (batches, counts), (others, same) in zip(
            load(encoded.train, PLAN, Processes(), False), updates, strict=True):
        assert counts == same
        for one, other in zip(batches, others, strict=True):
            assert all(torch.equal(x, vars(other)[name]) for name, x in vars(one).items()
                       if isinstance(x, torch.Tensor))
