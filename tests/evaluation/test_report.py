"""The tables that people read."""

from typing import Any

import numpy as np

from translate.decoding.scores import Score
from translate.decoding.translator import Translation
from translate.evaluation import outputs, report
from translate.evaluation.alignment import Alignment
from translate.evaluation.gold import CLASSES
from translate.evaluation.pictures import draw_alignment, draw_phenomena

REFERENCES = ["The dog sleeps in the garden.", "The cat runs.", "A bear!"]


def output(*lines: str, name: str = "test_2017_mscoco") -> list[outputs.Output]:
    translations = [Translation(line, -1.0, -1.0, line.split(), False) for line in lines]
    test_set = outputs.TestSet(name, ["Ja."] * len(lines), REFERENCES)
    return [outputs.Output(test_set, "beam 5", translations, 1.0)]


def test_the_scores_fit_in_a_hundred_columns_and_are_those_of_the_rows() -> None:
    ((row,),) = outputs.score([output("The dog sleeps in a garden.", "The cat runs.", "A Bear!")])
    printed = report.table([row], lowercase=False)
    assert max(map(len, printed.splitlines())) <= 100
    (line,) = [line for line in printed.splitlines() if line.startswith("test_2017_mscoco  beam 5")]
    low, high = row["bleu"]["interval"]
    assert f"{row['bleu']['value']:.2f} ± {(high - low) / 2:.2f}" in line
    for name in ("bleu", "bleu_lowercased", "chrf", "ter", "bleu_spacy"):
        assert f"{row[name]['value']:.2f}" in line
        assert row[name]["signature"] in printed


def test_a_lowercased_run_is_told_which_figure_counts() -> None:
    (rows,) = outputs.score([output(*map(str.lower, REFERENCES))])
    assert "BLEU lowercased tells how well" in report.table(rows, lowercase=True)
    assert "BLEU lowercased tells how well" not in report.table(rows, lowercase=False)


def test_differences_are_signed_from_the_first_system_and_equal_outputs_have_no_p() -> None:
    worse = output("The dog in garden.", "The cat runs.", "A bear!")
    perfect = output(*REFERENCES)
    first, second, third = outputs.score([perfect, worse, perfect])
    values = report.comparison(first, second).splitlines()[1].split()[3:]
    assert values[0].startswith("-") and values[2].startswith("-") and values[4].startswith("+")
    assert [float(p) for p in values[1::2]] == [
        round(second[0][name]["p_value"], 3) for name in ("bleu", "chrf", "ter")]
    assert report.comparison(first, third).splitlines()[1].split()[3:] == ["+0.00", "-"] * 3


def test_the_best_head_is_marked_and_is_not_a_mean() -> None:
    rates = np.array([[0.5, 0.7, 0.4], [0.9, 0.25, 0.2]])
    precision = np.zeros((2, 3, len(CLASSES)))
    precision[0, -1, 0], precision[1, -1, 0], precision[1, 1, 0] = 0.1, 0.2, 0.3
    found = Alignment(dict.fromkeys(CLASSES, 1234), rates, precision, 0.45, 0.05)
    lines = [line.split() for line in report.alignment(found).splitlines()]
    assert ["layer", "1", "50.0", "70.0", "40.0"] in lines
    assert ["layer", "2", "90.0", "*25.0", "20.0"] in lines
    assert ["verb", "1,234", "10.0", "20.0", "30.0"] in lines


def test_the_worst_phenomenon_is_on_top_of_table_and_picture() -> None:
    found = {"all": {"sentences": 1000, "right": 900}, "passive": {"sentences": 40, "right": 10},
             "plural": {"sentences": 8, "right": 8}}
    rows = [line.split() for line in report.phenomena(found).splitlines()[1:]]
    assert rows == [["passive", "40", "25.0%"], ["all", "1,000", "90.0%"],
                    ["plural", "8", "100.0%"]]
    (axes,) = draw_phenomena(found).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]  # from the bottom
    assert labels == ["plural (8)", "all (1,000)", "passive (40)"]
    assert [bar.get_width() for bar in axes.patches] == [100, 90, 25]


def test_every_head_and_class_is_a_cell_of_the_picture() -> None:
    rates, precision = np.full((3, 5), 0.25), np.full((3, 5, len(CLASSES)), 0.75)
    found = Alignment(dict.fromkeys(CLASSES, 9), rates, precision, 0.45, 0.05)
    cells: list[Any] = [[text.get_text() for text in axes.texts]
                        for axes in draw_alignment(found).axes]
    assert cells == [["25.0"] * 15, ["75.0"] * 3 * len(CLASSES)]


def test_scores_for_json_have_value_signature_interval_and_p() -> None:
    ((row,),) = outputs.score([output(*REFERENCES)])
    assert set(row["chrf"]) == set(Score._fields)
    assert row["sentences"] == 3 and row["seconds"] == 1.0
