"""The parts learn: an encoder classifies, a whole model learns eight pairs by heart."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate.data.batching import causal_mask, padding_mask
from translate.data.vocabulary import EOS, SOS
from translate.model.transformer import Transformer


def which_comes_first(rows: int) -> tuple[Tensor, Tensor]:
    """Noise with one 4 and one 5 in it; the class is whether the 4 comes before the 5.

    A bag of words cannot tell: the encoder needs positions and attention.
    """
    src = torch.randint(6, 12, (rows, 8))
    places = torch.rand(rows, 8).argsort(dim=1)[:, :2]
    src.scatter_(1, places[:, :1], 4)
    src.scatter_(1, places[:, 1:], 5)
    return src, (places[:, 0] < places[:, 1]).long()


def test_an_encoder_with_a_linear_head_learns_which_token_comes_first() -> None:
    model = Transformer(12, 12, d_model=32, heads=4, encoder_layers=2, decoder_layers=1, d_ff=64,
                        dropout=0.0)
    head = nn.Linear(32, 2)
    optimizer = torch.optim.Adam([*model.encoder.parameters(), *head.parameters(),
                                  *model.source_embedding.parameters()], lr=2e-3)

    def classify(src: Tensor) -> Tensor:
        return head(model.encode(src, padding_mask(src)).mean(dim=1))

    for _ in range(120):
        src, label = which_comes_first(64)
        optimizer.zero_grad()
        F.cross_entropy(classify(src), label).backward()
        optimizer.step()
    src, label = which_comes_first(1000)
    assert (classify(src).argmax(-1) == label).float().mean() > 0.97


@pytest.mark.parametrize(
    ("norm", "positions"),
    list(itertools.product(["post", "pre"], ["sinusoidal", "learned", "relative"])),
)
def test_a_whole_model_overfits_eight_pairs(norm: str, positions: str) -> None:
    src = torch.randint(4, 30, (8, 6))
    words = torch.randint(4, 30, (8, 5))
    tgt_in, tgt_out = F.pad(words, (1, 0), value=SOS), F.pad(words, (0, 1), value=EOS)
    tgt_mask = padding_mask(tgt_in) & causal_mask(6)
    model = Transformer(30, 30, d_model=32, heads=4, encoder_layers=1, decoder_layers=1, d_ff=64,
                        dropout=0.0, norm=norm, positions=positions)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss() -> Tensor:
        out = model(src, tgt_in, padding_mask(src), tgt_mask)
        return F.cross_entropy(out.flatten(0, 1), tgt_out.flatten())

    for _ in range(80):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < 0.1
    assert torch.equal(model(src, tgt_in, padding_mask(src), tgt_mask).argmax(-1), tgt_out)
