"""Row sums, attention that goes astray, and heads that are healthy or dead."""

import math
import re

import pytest
import torch
from torch import Tensor

from translate.data.batching import Batch, causal_mask, padding_mask
from translate.data.vocabulary import EOS, PAD, SOS
from translate.diagnosis.attention import (
    attention_layers,
    attention_table,
    check_dead_heads,
    check_rows,
    check_saturation,
)
from translate.model.layers import Weights

LENGTH = 6


def a_batch() -> Batch:
    """Sentences of six and four tokens, the same on both sides."""
    src = torch.tensor([[4, 5, 6, 7, 8, EOS], [7, 6, 5, EOS, PAD, PAD]])
    tgt_in = torch.tensor([[SOS, 4, 5, 6, 7, 8], [SOS, 7, 6, 5, PAD, PAD]])
    return Batch(src, tgt_in, src, padding_mask(src), padding_mask(tgt_in) & causal_mask(LENGTH),
                 (src != PAD).flatten().nonzero()[:, 0], 10)


def even(mask: Tensor) -> Tensor:
    weights = mask.expand(2, 1, LENGTH, LENGTH).float()
    return weights / weights.sum(dim=-1, keepdim=True)


def always(place: int, other: int) -> Tensor:
    """All attention of the first sentence to one place, of the second to another."""
    weights = torch.zeros(2, 1, LENGTH, LENGTH)
    weights[0, ..., place] = weights[1, ..., other] = 1
    return weights


def previous() -> Tensor:
    """All attention to the token before, of the first token to itself."""
    return torch.eye(LENGTH)[[0, 0, 1, 2, 3, 4]].expand(2, 1, LENGTH, LENGTH)


def layers(decoder: list[Tensor], cross: list[Tensor]) -> list:
    batch = a_batch()
    return attention_layers(Weights([even(batch.src_mask)], [torch.cat(decoder, dim=1)],
                                    [torch.cat(cross, dim=1)]), batch)


def test_heads_are_dead_if_the_query_does_not_matter() -> None:
    batch = a_batch()
    found = layers([previous(), always(0, 0), even(batch.tgt_mask)],
                   [previous(), always(5, 3), always(1, 2), even(batch.src_mask)])
    check = check_dead_heads(found)
    assert check.warning and not check.failed
    assert check.problems == [
        "encoder 0, head 0: attends to everything alike",
        "decoder 0, head 1: always attends to <sos>",
        "decoder 0, head 2: attends to everything alike",
        "cross 0, head 1: always attends to <eos>",
        "cross 0, head 2: always attends to one place",
        "cross 0, head 3: attends to everything alike"]


def test_a_head_on_which_the_query_has_some_influence_is_alive() -> None:
    mask = a_batch().src_mask
    nearly, hardly = (share * always(5, 3) + (1 - share) * even(mask) for share in (0.98, 0.93))
    somewhat = 0.85 * even(mask) + 0.15 * previous()
    found = layers([previous()], [nearly, hardly, somewhat])
    assert check_dead_heads(found).problems[1:] == ["cross 0, head 0: always attends to <eos>"]


def test_a_new_head_may_be_even_but_not_already_one_hot() -> None:
    found = layers([even(a_batch().tgt_mask), previous()], [even(a_batch().src_mask)])
    assert check_saturation(found).problems == ["decoder 0, head 1: evenness 0.00"]


def test_evenness_of_a_row_and_of_the_mean_row() -> None:
    half = torch.zeros(2, 1, LENGTH, LENGTH)
    half[..., :2] = 0.5
    *_, cross = layers([previous()], [half])
    expected = (6 * math.log(2) / math.log(6) + 4 * math.log(2) / math.log(4)) / 10
    rows, mean = cross.evenness()
    assert rows.item() == pytest.approx(expected, rel=1e-6)
    assert mean.item() == pytest.approx((math.log(2) / math.log(6) + 0.5) / 2, rel=1e-6)


def test_what_padded_queries_do_is_not_looked_at() -> None:
    weights = previous().clone()
    weights[1, :, 4:] = 7.0
    found = layers([weights], [weights])
    assert [check.problems for check in check_rows(found)] == [[], []]


def test_rows_that_do_not_sum_to_1_and_attention_that_goes_astray() -> None:
    everywhere = torch.full((2, 1, LENGTH, LENGTH), 1 / LENGTH)
    sums, astray = check_rows(layers([everywhere], [0.9 * previous()]))
    assert sums.problems == ["cross 0: off by up to 0.1"] and sums.failed
    # Of the first sentence 15 of 36 places are in the future; of the second 6 of 24, and 8 padded.
    assert astray.problems == [f"decoder 0: {(15 + 6 + 8) / 60:.2g} of it"] and astray.failed
    assert check_rows(layers([everywhere * math.nan], [everywhere * math.nan]))[0].failed


def test_the_table_has_the_shares_and_the_least_and_most_even_head() -> None:
    everywhere = torch.full((2, 1, LENGTH, LENGTH), 1 / LENGTH)
    table = attention_table(layers([everywhere, previous()], [even(a_batch().src_mask)]))
    assert re.search(rf"^decoder 0 +1\.000000 … 1\.000000 +{8 / 120:.6g} +{21 / 120:g} +0\.00 … ",
                     table, re.MULTILINE)
    assert re.search(r"^cross 0 +1\.000000 … 1\.000000 +0 +0 +1\.00 … 1\.00 +1\.00 … 1\.00$",
                     table, re.MULTILINE)
