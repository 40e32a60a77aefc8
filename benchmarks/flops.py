"""How much arithmetic training needs, and how much the machine can do."""

import time

import torch

from translate.config import ModelConfig
from translate.data.batching import Batch
from translate.model.linear import linear

_SIDE = 2048  # of the matrices that the peak is measured with


def training_flops(model: ModelConfig, vocabulary: int, batch: Batch) -> float:
    """Floating-point operations of the matrix products of an update, padding not counted.

    A weight takes part in one multiplication and one addition for each token forward, and in twice
    as many backward: 6 · (source tokens · (N_enc (4 d² + 2 d d_ff) + N_dec 2 d²) + target tokens ·
    (N_dec (6 d² + 2 d d_ff) + d · vocabulary)). The products of queries and keys, and of attention
    weights and values, are left out (at 15 tokens a sentence 1% of base, 2% of small).
    """
    square, feed_forward = model.d_model**2, 2 * model.d_model * model.d_ff
    source = (model.encoder_layers * (4 * square + feed_forward)
              + model.decoder_layers * 2 * square)  # keys and values of the memory
    target = (model.decoder_layers * (6 * square + feed_forward) + model.d_model * vocabulary)
    return 6 * (batch.source_tokens * source + batch.tokens * target)


def gemm_peak(seconds: float = 1.0) -> float:
    """FLOP/s of the fastest of many products of large square matrices, by MKL and by oneDNN."""
    a, b = torch.randn(2, _SIDE, _SIDE)
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for product in (torch.mm, linear):
            started = time.perf_counter()
            product(a, b)
            fastest = min(fastest, time.perf_counter() - started)
    return 2 * _SIDE**3 / fastest
