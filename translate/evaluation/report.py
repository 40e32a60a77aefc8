"""What `python -m translate.evaluate` prints: text of at most 100 columns."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from translate.columns import columns

if TYPE_CHECKING:
    from translate.evaluation.alignment import Alignment

Row = Mapping[str, Any]  # the scores of a test set and search, as in the JSON


def table(results: Sequence[Row], lowercase: bool) -> str:
    return f"{scores(results)}\n\n{legend(results[0], lowercase)}"


def scores(results: Sequence[Row]) -> str:
    """A line a test set and search."""
    rows = [["test set", "search", "pairs", "BLEU", "lowercase", "chrF", "TER", "ratio", "spaCy*"]]
    rows += [[row["test_set"], row["search"], f"{row['sentences']:,}", _range(row["bleu"]),
              f"{row['bleu_lowercased']['value']:.2f}", _range(row["chrf"]), _range(row["ter"]),
              f"{row['length_ratio']:.2f}", f"{row['bleu_spacy']['value']:.2f}"]
             for row in results]
    return columns(rows, "ll")


def legend(row: Row, lowercase: bool) -> str:
    """What the columns are, with sacreBLEU's signatures.

    `lowercase`: the model writes no capitals, which the cased BLEU cannot forgive.
    """
    return "\n".join([
        *(f"{title:9}  {row[name]['signature']}"
          for title, name in (("BLEU", "bleu"), ("lowercase", "bleu_lowercased"), ("chrF", "chrf"),
                              ("TER", "ter"), ("spaCy*", "bleu_spacy"))),
        "* for comparison with older tutorials alone; ± half of the 95% interval; of TER less is",
        "better; ratio: BLEU's tokens of the output for one of the reference",
        *(["This run lowercases its text (text.lowercase): BLEU lowercased tells how well it "
           "translates."] if lowercase else [])])


def _range(score: Mapping[str, Any]) -> str:
    low, high = score["interval"]
    return f"{score['value']:.2f} ± {(high - low) / 2:.2f}"


def comparison(baseline: Sequence[Row], results: Sequence[Row]) -> str:
    """Differences from the baseline, with the p-values of the paired bootstrap test."""
    rows = [["test set", "search", "BLEU", "p", "chrF", "p", "TER", "p"]]
    for before, row in zip(baseline, results, strict=True):
        rows.append([row["test_set"], row["search"]])
        for name in ("bleu", "chrf", "ter"):
            rows[-1] += [f"{row[name]['value'] - before[name]['value']:+.2f}",
                         "-" if row[name]["p_value"] is None else f"{row[name]['p_value']:.3f}"]
    return (columns(rows, "ll") + "\n\np: how probable such a difference is between equally good "
            "systems (paired bootstrap test)")


def breakdown(found: Mapping[str, Any]) -> str:
    lengths = [["source tokens", "sentences", "BLEU", "ratio"]]
    lengths += [[row["tokens"], f"{row['sentences']:,}", f"{row['bleu']:.2f}",
                 f"{row['length_ratio']:.2f}"] for row in found["by_source_length"]]
    loops = found["loops"]
    lines = [
        columns(lengths), "",
        f"outputs that hit the length limit     {found['cut_at_length_limit']:.1%}",
        f"outputs with n words twice in a row   {_loops(loops, 'outputs')}",
        f"references with such                  {_loops(loops, 'references')}",
        f"tokens unknown to the vocabulary      source {found['unknown']['source']:.2%}, "
        f"output {found['unknown']['output']:.2%}",
        "", f"the {len(found['worst'])} worst sentences by their own chrF"]
    for row in found["worst"]:
        lines += [f"{row['chrf']:5.1f}  de   {row['source']}", f"       ref  {row['reference']}",
                  f"       out  {row['hypothesis']}"]
    return "\n".join(lines)


def _loops(loops: Mapping[int, Mapping[str, float]], kind: str) -> str:
    return ", ".join(f"n={n}: {share[kind]:.1%}" for n, share in loops.items())


def phenomena(found: Mapping[str, Mapping[str, int]]) -> str:
    """The worst first."""
    rows = [["exact match by phenomenon", "sentences", "right"]]
    shares = {label: count["right"] / count["sentences"] for label, count in found.items()}
    rows += [[label, f"{found[label]['sentences']:,}", f"{shares[label]:.1%}"]
             for label in sorted(shares, key=lambda label: shares[label])]
    return columns(rows)


def alignment(found: "Alignment") -> str:
    """Error rates by layer and head, the best marked; then how often each class is found."""
    layers, heads = found.error_rate.shape
    best = np.unravel_index(found.error_rate[:, :-1].argmin(), (layers, heads - 1))
    rows = [["error rate in %", *(f"head {n}" for n in range(1, heads)), "mean of heads"]]
    for layer, rates in enumerate(found.error_rate):
        rows.append([f"layer {layer + 1}", *(
            f"{'*' if (layer, head) == best else ''}{100 * rate:.1f}"
            for head, rate in enumerate(rates))])
    classes = [["right links in %", "words", *(f"layer {n + 1}" for n in range(layers)), "*head"]]
    for n, (name, words) in enumerate(found.words.items()):
        classes.append([name, f"{words:,}", *(
            f"{100 * share:.1f}" for share in (*found.precision[:, -1, n],
                                               found.precision[(*best, n)]))])
    return "\n".join([
        "cross-attention against the gold word alignment, while the references are written", "",
        columns(rows), "",
        f"links along the diagonal have {100 * found.diagonal:.1f}; with one link a word, all "
        f"right, {100 * found.reachable:.1f} is left", "",
        columns(classes), "layer: the mean of its heads; *head: the best one"])
