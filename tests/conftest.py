"""What all tests share: shapes are checked, seeds are fixed, one thread computes."""

import random

import numpy as np
import pytest
import torch
from jaxtyping import install_import_hook

# Before anything imports these modules, or the shapes in their signatures are only comments.
install_import_hook(["translate.model", "translate.data.batching"], "beartype.beartype")

torch.set_num_threads(1)  # sums in one order on every machine, and no fight with other work


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
