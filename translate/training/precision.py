"""Which floating-point type the matrix products run in (Micikevicius et al. 2018)."""

import contextlib
from typing import Literal

import torch

from translate.errors import UserError


def pick_dtype(precision: Literal["auto", "fp32", "bf16", "fp16"],
               device: torch.device) -> torch.dtype:
    """auto: bf16 on a GPU that has it, else fp32."""
    cuda = device.type == "cuda"
    if precision == "auto":
        return torch.bfloat16 if cuda and torch.cuda.is_bf16_supported() else torch.float32
    if precision == "fp16" and not cuda:
        raise UserError(f"training.precision=fp16 needs a CUDA device, not {device}; use fp32")
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[object]:
    if dtype is torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype)
