"""The learning rate (Vaswani et al. 2017, equation 3)."""


def noam(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """factor · d_model^−0.5 · min(step^−0.5, step · warmup^−1.5), for the updates 1, 2, …

    Rises linearly for `warmup` updates, to its peak factor / √(d_model · warmup), then falls as
    1/√step.
    """
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
