"""What the report is written with: tables, and checks that hold, warn or fail."""

import re
from collections import defaultdict
from typing import NamedTuple

from translate.columns import columns
from translate.model.transformer import Transformer

_SHOWN = 6  # problems of one check


class Check(NamedTuple):
    """A claim about the model, and what speaks against it."""

    claim: str
    problems: list[str]  # none: it holds
    warning: bool = False  # to be judged by a person; else a problem is a failure

    @property
    def failed(self) -> bool:
        return bool(self.problems) and not self.warning


def verdict(checks: list[Check]) -> str:
    lines = []
    for check in checks:
        result = "FAILED" if check.failed else "warning" if check.problems else "ok"
        more = len(check.problems) - _SHOWN
        lines += [f"{result:9}{check.claim}", *(f"{'':9}- {p}" for p in check.problems[:_SHOWN]),
                  *([f"{'':9}- and {more} more"] if more > 0 else [])]
    return "\n".join(lines)


def table(rows: list[list[str]]) -> str:
    """The first row is the head; all columns but the first are flush right."""
    head, *lines = columns(rows).split("\n")
    return "\n".join([head, "-" * len(head), *lines])


def parameter_table(model: Transformer) -> str:
    """A line for each tensor, like ones of all layers together; shared ones count once."""
    owners: dict[int, str] = {}
    sizes: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = owners.setdefault(id(parameter), name)
        note = "" if owner == name else f"is {owner}"
        shape = " × ".join(map(str, parameter.shape))
        sizes[re.sub(r"\.\d+\.", ".*.", name), shape, note].append(parameter.numel())
    total = sum(parameter.numel() for parameter in model.parameters())
    return table([
        ["parameter", "shape", "layers", "numbers"],
        *([name, shape, str(len(found)) if "*" in name else "", note or f"{sum(found):,}"]
          for (name, shape, note), found in sizes.items()),
        ["total, shared ones counted once", "", "", f"{total:,}"]])
