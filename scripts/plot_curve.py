"""Draw a run's validation curves for the documentation.

Usage: python scripts/plot_curve.py checkpoints/multi30k docs/multi30k-curve.png
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure


def plot(run: Path, picture: Path) -> None:
    state = json.loads((run / "last" / "state.json").read_text(encoding="utf-8"))
    validations = state["progress"]["validations"]
    minutes = [v["seconds"] / 60 for v in validations]
    figure = Figure(figsize=(9, 3.4), layout="constrained", dpi=110)
    bleu, loss = figure.subplots(1, 2)
    bleu.plot(minutes, [v["bleu"] for v in validations], color="tab:blue")
    bleu.set_title("BLEU on the validation split (greedy, detokenised)")
    loss.plot(minutes, [v["loss"] for v in validations], color="tab:orange")
    loss.set_title("loss a token on the validation split (KL, nats)")
    for axes in (bleu, loss):
        axes.set_xlabel("minutes of training")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    plot(Path(sys.argv[1]), Path(sys.argv[2]))
