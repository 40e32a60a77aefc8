"""Tables for people: cells under each other."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], flush: str = "l") -> str:
    """A line a row. `flush` has an l or r for the first columns; the others are flush right."""
    flush = flush.ljust(len(rows[0]), "r")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(
        cell.ljust(width) if side == "l" else cell.rjust(width)
        for cell, width, side in zip(row, widths, flush, strict=True)).rstrip() for row in rows)
